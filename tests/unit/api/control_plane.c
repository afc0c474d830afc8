/* The fixture of the tests that need a whole control plane. */
#include "tests/unit/api/control_plane.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/log.h"

struct api *plane;
uint64_t plane_apply_timeout_s = 60;
_Thread_local json_t *answer;
_Thread_local const char *request_headers = "";
static _Thread_local char answer_head[8192]; /* no heap: threads end without a word */
char admin_token[128];

static struct server *server;
static enum auth_mode mode_now;
static char state[64];

static void start(void)
{
    const struct server_options options = {.listen = "127.0.0.1:0",
                                           .state = state,
                                           .no_tls = true,
                                           .auth = mode_now,
                                           .apply_timeout_s = plane_apply_timeout_s};
    char path[96];

    cr_assert_eq(server_start(&options, &server), 0);
    plane = server_api(server);
    snprintf(path, sizeof path, "%s/token", state);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%127s", admin_token), 1);
    fclose(f);
}

void plane_start(enum auth_mode mode)
{
    cr_assert_geq(sodium_init(), 0);
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(state, sizeof state, "/tmp/spillway-unit-api-XXXXXX");
    cr_assert_not_null(mkdtemp(state));
    mode_now = mode;
    start();
}

void plane_restart(void)
{
    server_stop(server);
    server = NULL;
    start();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void plane_stop(void)
{
    json_decref(answer);
    answer = NULL;
    server_stop(server);
    nftw(state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t)atoi(strrchr(server_url(server), ':') + 1));
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

int plane_call(const char *method, const char *path, const char *bearer, const char *body)
{
    struct buf out = {0}, in = {0};
    char piece[4096];
    ssize_t n;
    int status = 0, fd = dial();

    buf_printf(&out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s", method, path,
               request_headers);
    request_headers = "";
    if (bearer != NULL) {
        buf_printf(&out, "Authorization: Bearer %s\r\n", bearer);
    }
    if (body != NULL) {
        buf_printf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    } else {
        buf_str(&out, "\r\n");
    }
    cr_assert_eq(send(fd, out.data, out.len, MSG_NOSIGNAL), (ssize_t)out.len);
    while ((n = recv(fd, piece, sizeof piece, 0)) > 0) {
        buf_add(&in, piece, (size_t)n);
    }
    close(fd);
    buf_free(&out);

    json_decref(answer);
    answer = NULL;
    char *text = buf_take(&in);
    cr_assert_eq(sscanf(text, "HTTP/1.1 %d", &status), 1, "no answer to %s %s", method, path);
    char *content = strstr(text, "\r\n\r\n");
    if (content != NULL) {
        answer = json_loads(content + 4, 0, NULL);
        content[2] = '\0';
    }
    snprintf(answer_head, sizeof answer_head, "%s", text);
    free(text);
    return status;
}

const char *answer_header(const char *name)
{
    static _Thread_local char value[1024];
    size_t len = strlen(name);

    for (const char *line = answer_head; (line = strchr(line, '\n')) != NULL;) {
        line++;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *start = line + len + 1 + strspn(line + len + 1, " ");
            snprintf(value, sizeof value, "%.*s", (int)strcspn(start, "\r\n"), start);
            return value;
        }
    }
    return "";
}

static const json_t *member(const char *path)
{
    const json_t *at = answer;
    char copy[128], *save = NULL;

    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key != NULL; key = strtok_r(NULL, ".", &save)) {
        at = json_object_get(at, key);
    }
    return at;
}

const char *answer_text(const char *path)
{
    const char *text = json_string_value(member(path));

    return text == NULL ? "" : text;
}

int64_t answer_int(const char *path)
{
    const json_t *value = member(path);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}
