/* Resource groups and subscriptions: handlers of their routes. */
#ifndef API_ARM_GROUP_H
#define API_ARM_GROUP_H

#include "api/api.h"

void group_put(struct arm_call *call);
void group_get(struct arm_call *call);
void group_exists(struct arm_call *call); /* HEAD */
void group_patch(struct arm_call *call);
void group_delete(struct arm_call *call);
void group_list(struct arm_call *call);

void subscription_list(struct arm_call *call);
void subscription_get(struct arm_call *call);

#endif
