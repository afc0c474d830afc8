/* Handlers of the resource types' routes. Their descriptions are in resource.h. */
#ifndef API_ARM_TYPES_H
#define API_ARM_TYPES_H

#include "api/api.h"

void account_put(struct arm_call *call);
void account_get(struct arm_call *call);
void account_patch(struct arm_call *call);
void account_delete(struct arm_call *call);
void account_list(struct arm_call *call);

void pool_put(struct arm_call *call);
void pool_get(struct arm_call *call);
void pool_patch(struct arm_call *call);
void pool_delete(struct arm_call *call);
void pool_list(struct arm_call *call);

void volume_put(struct arm_call *call);
void volume_get(struct arm_call *call);
void volume_patch(struct arm_call *call);
void volume_delete(struct arm_call *call);
void volume_list(struct arm_call *call);

/* GET /providers/Microsoft.NetApp/operations */
void provider_operations(struct arm_call *call);

#endif
