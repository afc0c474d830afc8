/*
 * A control plane of its own for each test: the real server on a free loopback port over a
 * temporary state folder, and a plain HTTP client. Criterion runs each test in a process of its
 * own, so that one global is enough.
 */
#ifndef TESTS_UNIT_API_CONTROL_PLANE_H
#define TESTS_UNIT_API_CONTROL_PLANE_H

#include <jansson.h>
#include <stdint.h>

#include "api/server.h"

extern struct api *plane;              /* between plane_start and plane_stop */
extern uint64_t plane_apply_timeout_s; /* 60 unless a test sets it before plane_start */

void plane_start(enum auth_mode mode);
void plane_restart(void); /* same folder, new server */
void plane_stop(void);    /* also removes the folder */

/* One call on a connection of its own; `bearer` and `body` may be NULL. Returns the status, and the
 * JSON answer in *answer (NULL when it is none; freed by the next call of the same thread). */
int plane_call(const char *method, const char *path, const char *bearer, const char *body);
extern _Thread_local json_t *answer;

/* Headers of that call's request, "If-Match: *\r\n"; "" unless set, and "" again after it. */
extern _Thread_local const char *request_headers;
/* A header of the last answer, "" when absent. */
const char *answer_header(const char *name);

/* Members of `answer`; a text is "" and a number -1 when absent. The path is "a.b". */
const char *answer_text(const char *path);
int64_t answer_int(const char *path);

extern char admin_token[128]; /* of the state folder */

#endif
