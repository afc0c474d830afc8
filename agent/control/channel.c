/* The channel's thread: which call is due, and what its answer means. */
#include "agent/control/channel.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"

#define POLL_WAIT_S    30L
#define CALL_TIMEOUT_S 30L
#define ANSWER_MAX     ((size_t)64 << 20) /* a full list of some 50,000 volumes */
#define TOKEN_FILE_MAX 4096
#define PAUSE_MIN_NS   (200 * NS_PER_MS)
#define PAUSE_MAX_NS   (5 * NS_PER_S)
#define REFUSED_MAX_NS (30 * NS_PER_S) /* after a 401 or 409 only a person can help */
#define REASON_MAX     512

enum call_kind { CALL_ENROLL, CALL_POLL, CALL_OBSERVED, CALL_STATUS, CALL_COUNT };

/* One of the four calls: at most one of each is under way. */
struct call {
    CURL *easy;
    bool busy;
    char *body; /* of the request under way */
    struct buf answer;
    bool too_long; /* the answer, over ANSWER_MAX */
    char error[CURL_ERROR_SIZE];
    unsigned failures;           /* in a row */
    uint64_t started_ns, due_ns; /* due: not before */
};

struct channel {
    struct channel_config config;
    pthread_t thread;
    bool running;
    CURLM *multi;
    struct curl_slist *plain_headers, *headers; /* without and with the credential */
    char *token;                                /* of --enroll-token, read once */
    struct call calls[CALL_COUNT];
    char *cursor;
    bool enrolled;
    bool want_status;            /* a tick came since the last status call began */
    bool backlog;                /* more points wait than that call took */
    uint64_t batch;              /* that the status call under way carries */
    struct report_batch reports; /* that the observed call under way carries */
    char reason[REASON_MAX];     /* of the last failure, "" while all is well */

    atomic_bool stopping, ticked, is_enrolled, reachable;
    atomic_uint flush_ms;
    _Atomic int64_t last_contact_s, agent_id;
    _Atomic uint64_t made, failed;
};

typedef char *call_body(struct channel *c);
/* Takes a 200's body: NULL, or why it is not an answer. */
typedef const char *call_answer(struct channel *c, const json_t *answer);

struct call_kind_info {
    const char *path;
    long timeout_s;
    call_body *body;
    call_answer *answer;
};

/* ---- the calls' contents ---- */

static char *render_and_free(json_t *o)
{
    char *text = json_render(o);

    json_decref(o);
    return text;
}

static void add_space(struct channel *c, json_t *o)
{
    uint64_t size = 0, space = 0;
    int rc = storage_space(c->config.storage, &size, &space);

    if (rc != 0)
        log_warn("cannot tell the store's free space: %s", strerror(-rc));
    json_object_set_new(o, "storeSize", json_integer((json_int_t)size));
    json_object_set_new(o, "storeFree", json_integer((json_int_t)space));
}

static char *enroll_body(struct channel *c)
{
    const struct agent_config *a = c->config.agent;
    char store[UUID_TEXT_MAX];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:i}", "credential",
                          c->config.identity->credential, "name", a->name, "version",
                          SPILLWAY_VERSION, "region", a->region, "zone", a->zone, "backend",
                          storage_backend(c->config.storage), "storeUuid",
                          uuid_format(storage_uuid(c->config.storage), store), "addresses",
                          addresses_to_json(&a->endpoints), "nfsPort", (int)a->nfs_port);

    add_space(c, o);
    if (c->token)
        json_object_set_new(o, "token", json_string(c->token));
    return render_and_free(o);
}

static const char *enroll_answer(struct channel *c, const json_t *answer)
{
    int64_t id = json_get_int(answer, "agentId", 0);

    if (id <= 0)
        return "its answer to the enrolment has no agentId";
    if (c->config.identity->agent_id != id)
        log_info("enrolled as agent %lld", (long long)id);
    (void)identity_enrolled(c->config.identity, id); /* logged; asked again at the next start */
    c->enrolled = true;
    atomic_store(&c->agent_id, id);
    free(c->cursor);
    c->cursor = xstrdup("");
    return NULL;
}

static char *poll_body(struct channel *c)
{
    return render_and_free(json_pack("{s:s, s:i}", "cursor", c->cursor, "wait", (int)POLL_WAIT_S));
}

static const char *poll_answer(struct channel *c, const json_t *answer)
{
    const json_t *volumes = json_object_get(answer, "volumes");
    const json_t *full = json_object_get(answer, "full");
    const char *cursor = json_get_text(answer, "cursor", NULL);
    struct call *poll = &c->calls[CALL_POLL];
    bool ok = json_is_array(volumes) && json_is_boolean(full) && cursor;

    /* After nonsense the whole list is asked for. */
    free(c->cursor);
    c->cursor = xstrdup(ok ? cursor : "");
    if (!ok)
        return "its answer to a poll has no cursor, full or volumes";
    if (json_array_size(volumes) > 0 || json_is_true(full))
        reconciler_offer(c->config.reconciler, volumes, json_is_true(full));
    else if (clock_mono_ns() - poll->started_ns < NS_PER_S)
        poll->due_ns = clock_mono_ns() + PAUSE_MIN_NS; /* it holds no polls: it is about to stop */
    return NULL;
}

/* NULL: nothing to report. */
static char *observed_body(struct channel *c)
{
    reconciler_take_reports(c->config.reconciler, &c->reports);
    if (c->reports.count == 0) {
        json_decref(c->reports.observations);
        return NULL;
    }
    return render_and_free(json_pack("{s:o}", "observations", c->reports.observations));
}

static const char *observed_answer(struct channel *c, const json_t *answer)
{
    (void)answer;
    reconciler_acknowledge(c->config.reconciler, &c->reports);
    return NULL;
}

static char *status_body(struct channel *c)
{
    json_t *o = json_pack("{s:s}", "version", SPILLWAY_VERSION);
    struct rpc_stats rpc;

    c->config.rpc_stats(c->config.arg, &rpc);
    add_space(c, o);
    json_object_set_new(o, "connections", json_integer((json_int_t)rpc.connections));
    c->batch = meter_report(c->config.meter, o);
    c->want_status = false;
    return render_and_free(o);
}

static const char *status_answer(struct channel *c, const json_t *answer)
{
    if (c->batch == 0)
        return NULL;
    if (json_get_int(answer, "batch", 0) != (int64_t)c->batch)
        return "it acknowledged another batch than the one sent";
    meter_acknowledge(c->config.meter, c->batch);
    c->backlog = meter_has_backlog(c->config.meter);
    return NULL;
}

static const struct call_kind_info kinds[CALL_COUNT] = {
    [CALL_ENROLL] = {"/agents/v1/enroll", CALL_TIMEOUT_S, enroll_body, enroll_answer},
    [CALL_POLL] = {"/agents/v1/poll", POLL_WAIT_S + CALL_TIMEOUT_S, poll_body, poll_answer},
    [CALL_OBSERVED] = {"/agents/v1/observed", CALL_TIMEOUT_S, observed_body, observed_answer},
    [CALL_STATUS] = {"/agents/v1/status", CALL_TIMEOUT_S, status_body, status_answer},
};

/* ---- making a call ---- */

static size_t take_answer(char *data, size_t size, size_t n, void *arg)
{
    struct call *call = arg;

    if (call->answer.len + size * n > ANSWER_MAX) {
        call->too_long = true;
        return 0;
    }
    buf_add(&call->answer, data, size * n);
    return size * n;
}

static CURL *make_easy(struct channel *c, struct call *call, const struct call_kind_info *kind)
{
    const struct agent_config *a = c->config.agent;
    CURL *easy = curl_easy_init();
    char *url = xasprintf("%s%s", a->control, kind->path);

    if (!easy)
        fatal("libcurl cannot start");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* the credential goes nowhere else */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");          /* nor through what the environment names */
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (a->cacert)
        curl_easy_setopt(easy, CURLOPT_CAINFO, a->cacert);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, kind->timeout_s);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER,
                     kind == &kinds[CALL_ENROLL] ? c->plain_headers : c->headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    free(url);
    return easy;
}

static void start_call(struct channel *c, enum call_kind kind)
{
    struct call *call = &c->calls[kind];

    call->body = kinds[kind].body(c);
    if (!call->body)
        return;
    call->answer.len = 0;
    call->too_long = false;
    call->error[0] = '\0';
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
    if (curl_multi_add_handle(c->multi, call->easy) != CURLM_OK)
        fatal("libcurl does not take a request");
    call->busy = true;
    call->started_ns = clock_mono_ns();
    atomic_fetch_add(&c->made, 1);
}

static void release_body(struct call *call)
{
    if (call->body)
        explicit_bzero(call->body, strlen(call->body)); /* the enrolment's holds secrets */
    free(call->body);
    call->body = NULL;
    call->busy = false;
}

/* ---- what became of it ---- */

/* Why there is no answer, and what to do about it. */
static void explain(const struct channel *c, const struct call *call, CURLcode code, char *out,
                    size_t size)
{
    const char *detail = call->error[0] ? call->error : curl_easy_strerror(code);
    const char *advice = "";

    if (call->too_long)
        detail = "its answer is too long";
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        advice = c->config.agent->cacert ? ". --cacert must hold the certificate that the control "
                                           "plane shows (or its issuer's), and the host "
                                           "of --control must be one of the certificate's names"
                                         : ". Give the control plane's certificate (spillwayd "
                                           "makes tls-cert.pem in its state folder) with "
                                           "--cacert FILE";
    else if (code == CURLE_SSL_CACERT_BADFILE)
        advice = ". --cacert must be a PEM file that this user can read";
    snprintf(out, size, "%s%s", detail, advice);
}

/* The ARM error of an answer that is not 200. */
static void read_error(const struct call *call, enum call_kind kind, long status, char *out,
                       size_t size)
{
    char ignored[160];
    json_t *answer = json_parse(call->answer.data ? call->answer.data : "", call->answer.len,
                                ignored, sizeof(ignored));
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_get_text(error, "message", NULL);
    const char *advice = kind == CALL_ENROLL && status == 401
                             ? " (make a token with `spillway agent token`, give its file with "
                               "--enroll-token and restart the agent)"
                             : "";

    if (message)
        snprintf(out, size, "HTTP %ld %s: %s%s", status, json_get_text(error, "code", "?"), message,
                 advice);
    else
        snprintf(out, size, "HTTP %ld%s", status, advice);
    json_decref(answer);
}

/* Told once, not at each try. */
static void note_failure(struct channel *c, enum call_kind kind, const char *reason)
{
    atomic_fetch_add(&c->failed, 1);
    atomic_store(&c->reachable, false);
    if (strcmp(c->reason, reason) == 0)
        return;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
    log_warn("%s%s: %s; volumes go on being served", c->config.agent->control, kinds[kind].path,
             reason);
}

static void note_success(struct channel *c)
{
    atomic_store(&c->last_contact_s, clock_wall_ns() / (int64_t)NS_PER_S);
    atomic_store(&c->reachable, true);
    if (c->reason[0] != '\0')
        log_info("the control plane answers again");
    c->reason[0] = '\0';
}

/* Half of the doubled pause is chance. */
static uint64_t pause_after(unsigned failures, uint64_t max_ns)
{
    uint64_t pause = PAUSE_MIN_NS << (failures < 12 ? failures : 12);
    uint32_t chance = 0;

    if (pause > max_ns)
        pause = max_ns;
    if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        chance = 0;
    return pause / 2 + pause / 2 * chance / UINT32_MAX;
}

/* What the transfer brought: NULL when the answer was taken, or else the reason in `reason`. */
static const char *take_result(struct channel *c, enum call_kind kind, CURLcode code, long status,
                               char reason[static REASON_MAX])
{
    struct call *call = &c->calls[kind];
    const char *wrong;
    char why[160];
    json_t *answer;

    if (code != CURLE_OK) {
        explain(c, call, code, reason, REASON_MAX);
        return reason;
    }
    if (status != 200) {
        read_error(call, kind, status, reason, REASON_MAX);
        return reason;
    }
    answer =
        json_parse(call->answer.data ? call->answer.data : "", call->answer.len, why, sizeof(why));
    if (answer) {
        call->due_ns = 0;
        wrong = kinds[kind].answer(c, answer);
    } else {
        snprintf(reason, REASON_MAX, "its answer is not JSON: %s", why);
        wrong = reason;
    }
    json_decref(answer);
    return wrong;
}

static void finish_call(struct channel *c, enum call_kind kind, CURLcode code)
{
    struct call *call = &c->calls[kind];
    char reason[REASON_MAX];
    const char *wrong;
    long status = 0;

    curl_multi_remove_handle(c->multi, call->easy);
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    release_body(call);
    wrong = take_result(c, kind, code, status, reason);
    if (!wrong) {
        call->failures = 0;
        note_success(c);
    } else {
        bool refused = status == 401 || status == 403 || status == 409;

        note_failure(c, kind, wrong);
        call->due_ns = clock_mono_ns() +
                       pause_after(call->failures++, refused ? REFUSED_MAX_NS : PAUSE_MAX_NS);
        if (status == 401 && kind != CALL_ENROLL)
            c->enrolled = false; /* it does not know the credential (any more): enrol again */
    }
    atomic_store(&c->is_enrolled, c->enrolled);
    if (call->answer.cap > (1u << 20))
        buf_free(&call->answer);
}

/* ---- the thread ---- */

static bool is_wanted(const struct channel *c, enum call_kind kind)
{
    switch (kind) {
    case CALL_ENROLL:
        return !c->enrolled;
    case CALL_POLL:
    case CALL_OBSERVED: /* asks the reconciler */
        return c->enrolled;
    case CALL_STATUS:
        return c->enrolled && (c->want_status || c->backlog);
    default:
        return false;
    }
}

/* Starts what is due; returns how long nothing else will be, in ms. */
static int start_due(struct channel *c, uint64_t now_ns)
{
    uint64_t next = now_ns + 60 * NS_PER_S;

    if (atomic_exchange(&c->ticked, false))
        c->want_status = true;
    for (unsigned k = 0; k < CALL_COUNT; k++) {
        struct call *call = &c->calls[k];

        if (call->busy || !is_wanted(c, k))
            continue;
        if (call->due_ns <= now_ns)
            start_call(c, k);
        else if (call->due_ns < next)
            next = call->due_ns;
    }
    return (int)((next - now_ns) / NS_PER_MS) + 1;
}

static void run_transfers(struct channel *c)
{
    int running, left;
    const CURLMsg *m;

    curl_multi_perform(c->multi, &running);
    while ((m = curl_multi_info_read(c->multi, &left))) {
        CURLcode code;
        void *call = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        code = m->data.result; /* the message dies with the handle's removal */
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &call);
        finish_call(c, (enum call_kind)((struct call *)call - c->calls), code);
    }
}

/* Sends the last counters and reports, if the control plane is quick. */
static void flush(struct channel *c, unsigned flush_ms)
{
    uint64_t until = clock_mono_ns() + flush_ms * NS_PER_MS;
    bool sent = false;

    if (!c->enrolled || !atomic_load(&c->reachable))
        return;
    while (clock_mono_ns() < until) {
        struct call *status = &c->calls[CALL_STATUS], *observed = &c->calls[CALL_OBSERVED];

        if (!observed->busy && observed->due_ns == 0)
            start_call(c, CALL_OBSERVED);
        if (!status->busy && status->due_ns == 0 && (!sent || c->backlog)) {
            start_call(c, CALL_STATUS);
            sent = true;
        }
        if (!status->busy && !observed->busy)
            return;
        curl_multi_poll(c->multi, NULL, 0, 50, NULL);
        run_transfers(c);
    }
}

static void *run(void *arg)
{
    struct channel *c = arg;

    while (!atomic_load(&c->stopping)) {
        int wait_ms;

        run_transfers(c);
        wait_ms = start_due(c, clock_mono_ns());
        curl_multi_poll(c->multi, NULL, 0, wait_ms, NULL);
    }
    flush(c, atomic_load(&c->flush_ms));
    return NULL;
}

/* Reads the token file. Its absence is fatal only for an agent that was never enrolled. */
static int read_token(struct channel *c, const char *path)
{
    char *text;
    size_t len;
    int rc = fs_read_file(path, TOKEN_FILE_MAX, &text, &len);

    if (rc != 0 && c->config.identity->agent_id != 0) {
        log_info("--enroll-token %s: %s; this agent is enrolled already", path, strerror(-rc));
        return 0;
    }
    if (rc != 0) {
        log_error("--enroll-token %s: %s", path, strerror(-rc));
        return rc;
    }
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    c->token = text;
    if (len == 64 && strspn(text, "0123456789abcdef") == 64)
        return 0;
    log_error("--enroll-token %s does not hold a token (64 hexadecimal digits)", path);
    return -EINVAL;
}

struct channel *channel_new(const struct channel_config *config)
{
    struct channel *c = xcalloc(1, sizeof(*c));
    char *bearer = xasprintf("Authorization: Bearer %s", config->identity->credential);

    c->config = *config;
    c->cursor = xstrdup("");
    atomic_store(&c->agent_id, config->identity->agent_id);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->multi = curl_multi_init();
    if (!c->multi)
        fatal("libcurl cannot start");
    c->plain_headers = curl_slist_append(NULL, "Content-Type: application/json");
    c->plain_headers = curl_slist_append(c->plain_headers, "Expect:"); /* no waiting for a 100 */
    c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    c->headers = curl_slist_append(c->headers, "Expect:");
    c->headers = curl_slist_append(c->headers, bearer);
    explicit_bzero(bearer, strlen(bearer));
    free(bearer);
    for (unsigned k = 0; k < CALL_COUNT; k++)
        c->calls[k].easy = make_easy(c, &c->calls[k], &kinds[k]);
    if (config->agent->cacert && access(config->agent->cacert, R_OK) != 0) {
        log_error("--cacert %s: %s", config->agent->cacert, strerror(errno));
        channel_free(c);
        return NULL;
    }
    if (config->agent->enroll_token_file && read_token(c, config->agent->enroll_token_file) != 0) {
        channel_free(c);
        return NULL;
    }
    return c;
}

int channel_start(struct channel *c)
{
    int rc = pthread_create(&c->thread, NULL, run, c);

    c->running = rc == 0;
    return -rc;
}

void channel_wake(struct channel *c)
{
    curl_multi_wakeup(c->multi);
}

void channel_tick(struct channel *c)
{
    atomic_store(&c->ticked, true);
    curl_multi_wakeup(c->multi);
}

void channel_stop(struct channel *c, unsigned flush_ms)
{
    if (!c->running)
        return;
    atomic_store(&c->flush_ms, flush_ms);
    atomic_store(&c->stopping, true);
    curl_multi_wakeup(c->multi);
    pthread_join(c->thread, NULL);
    c->running = false;
}

void channel_free(struct channel *c)
{
    if (!c)
        return;
    for (unsigned k = 0; k < CALL_COUNT; k++) {
        struct call *call = &c->calls[k];

        if (call->busy)
            curl_multi_remove_handle(c->multi, call->easy);
        release_body(call);
        buf_free(&call->answer);
        curl_easy_cleanup(call->easy);
    }
    curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->headers);
    curl_slist_free_all(c->plain_headers);
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    free(c->cursor);
    free(c);
    curl_global_cleanup();
}

void channel_get_stats(const struct channel *c, struct channel_stats *out)
{
    *out = (struct channel_stats){.enrolled = atomic_load(&c->is_enrolled),
                                  .reachable = atomic_load(&c->reachable),
                                  .agent_id = atomic_load(&c->agent_id),
                                  .last_contact_s = atomic_load(&c->last_contact_s),
                                  .calls = atomic_load(&c->made),
                                  .failed = atomic_load(&c->failed)};
}
