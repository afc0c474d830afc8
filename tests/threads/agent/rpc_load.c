/*
 * The transport under a mixed load from several threads, for sanitizers: a plain program, since
 * Criterion does not start under TSan. Clients send calls of every kind, read the answers or leave
 * in the middle; meanwhile the limit changes, an endpoint comes and goes and statistics are read.
 * At the end all memory must have come back.
 *
 *     rpc-load [SECONDS [SEED]]      exit status 0 when all was right
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/rpc/rpc.h"
#include "common/clock.h"
#include "common/log.h"

#define PROG       0x20000001
#define CLIENTS    6
#define BATCH      40
#define ECHO_MAX   (96 * 1024)
#define HEADER     28 /* of an accepted reply, its mark included */
#define CALL_WORDS 11

enum { PROC_ECHO, PROC_LIMITED, PROC_OFFLOADED, PROCS };

static struct throttle *limit;
static atomic_bool over;
static atomic_ulong checked, begun, ended;
static uint16_t port;
static const char *const endpoints[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};

static void end_call(struct rpc_call *call)
{
    (void)call;
    atomic_fetch_add(&ended, 1);
}

static enum rpc_verdict echo(struct rpc_call *call)
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(&call->args, RPC_MAX_DATA, &len);

    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    if (!rpc_reserve(call, 4 + xdr_pad(len)))
        return RPC_DROP;
    xdr_put_opaque(&call->res, data, len);
    return RPC_REPLY;
}

static void begin_call(struct rpc_call *call)
{
    if (call->cleanup == NULL)
        atomic_fetch_add(&begun, 1);
    call->cleanup = end_call;
}

static enum rpc_verdict run_echo(struct rpc_call *call)
{
    begin_call(call);
    return echo(call);
}

static enum rpc_verdict run_limited(struct rpc_call *call)
{
    begin_call(call);
    call->throttle = limit;
    if (call->stage++ == 0 && throttle_offer(limit, &call->qos, call->client, call->record_len,
                                             clock_mono_ns()) == THROTTLE_PARKED)
        return RPC_PARKED;
    return echo(call);
}

static enum rpc_verdict run_offloaded(struct rpc_call *call)
{
    begin_call(call);
    return call->may_block ? echo(call) : RPC_OFFLOAD;
}

static const struct rpc_proc procs[PROCS] = {
    {"ECHO", run_echo}, {"LIMITED", run_limited}, {"OFFLOADED", run_offloaded}};

static const struct rpc_proc *load_procs(uint32_t vers, size_t *n)
{
    (void)vers;
    *n = PROCS;
    return procs;
}

static const struct rpc_program program = {PROG, "load", 1, 1, load_procs};
static const struct rpc_program *const programs[] = {&program, NULL};

static bool receive(int fd, void *to, size_t len)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = recv(fd, (uint8_t *)to + have, len - have, 0);

        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

static size_t put_call(uint8_t *at, uint32_t xid, uint32_t proc, uint32_t len)
{
    uint32_t padded = (len + 3) & ~3u;
    uint32_t words[CALL_WORDS + 1] = {
        0x80000000u | (CALL_WORDS * 4 + padded), xid, 0, 2, PROG, 1, proc};

    words[CALL_WORDS] = len;
    for (int i = 0; i <= CALL_WORDS; i++)
        words[i] = htonl(words[i]);
    memcpy(at, words, sizeof(words));
    memset(at + sizeof(words), (int)(xid & 0xff), padded);
    return sizeof(words) + padded;
}

/* One connection: a batch of calls, then their answers, all or some. False when an answer is wrong.
 */
static bool session(unsigned *seed, uint8_t *buf)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval tv = {.tv_sec = 20};
    uint32_t lens[BATCH];
    unsigned n = 1 + (unsigned)rand_r(seed) % BATCH, read_back;
    size_t bytes = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool right = true, gone = false;

    inet_pton(AF_INET, endpoints[rand_r(seed) % 3], &sin.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0) {
        close(fd);
        return true; /* the endpoint is away just now */
    }
    for (unsigned i = 0; i < n; i++) {
        lens[i] = rand_r(seed) % 4 == 0 ? (uint32_t)rand_r(seed) % ECHO_MAX
                                        : (uint32_t)rand_r(seed) % 600;
        bytes += put_call(buf + bytes, i, (uint32_t)rand_r(seed) % PROCS, lens[i]);
        if (bytes > ECHO_MAX || i + 1 == n) {
            gone = gone || send(fd, buf, bytes, MSG_NOSIGNAL) != (ssize_t)bytes;
            bytes = 0;
        }
    }
    read_back = rand_r(seed) % 3 == 0 ? (unsigned)rand_r(seed) % n : n;
    for (unsigned i = 0; i < read_back && !gone && right; i++) {
        uint32_t head[HEADER / 4 + 1], xid;

        gone = !receive(fd, head, sizeof(head));
        if (gone)
            break;
        xid = ntohl(head[1]);
        right = xid < n && ntohl(head[6]) == 0 && ntohl(head[7]) == lens[xid];
        /* The endpoint may go away in the middle of an answer. */
        gone = right && !receive(fd, buf, (lens[xid] + 3) & ~3u);
        if (gone)
            break;
        for (uint32_t k = 0; right && k < lens[xid]; k++)
            right = buf[k] == (xid & 0xff);
        atomic_fetch_add(&checked, 1);
    }
    close(fd);
    return right;
}

static void *client_main(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    uint8_t *buf = malloc(2 * (ECHO_MAX + 4096));
    bool right = true;

    while (right && !atomic_load(&over))
        right = session(&seed, buf);
    free(buf);
    return right ? NULL : arg;
}

/* Changes what can be changed while it runs. */
static void disturb(struct rpc_server *server, unsigned *seed)
{
    static const uint64_t rates[] = {100000, 10000000, 300000000, 0};
    struct rpc_stats stats;
    struct throttle_stats qos;

    usleep(5000);
    throttle_set_rate(limit, rates[rand_r(seed) % 4], clock_mono_ns());
    throttle_get_stats(limit, clock_mono_ns(), &qos);
    rpc_get_stats(server, &stats);
    if (rand_r(seed) % 8 == 0) {
        rpc_unlisten(server, endpoints[2], port);
        rpc_listen(server, endpoints[2], port, NULL);
    }
}

static uint16_t free_port(void)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 ||
        getsockname(fd, (struct sockaddr *)&sin, &len) != 0)
        fatal("no free port");
    close(fd);
    return ntohs(sin.sin_port);
}

int main(int argc, char **argv)
{
    unsigned long seconds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1, seeds[CLIENTS];
    struct rpc_server_config config = {
        .workers = 3, .io_threads = 4, .max_memory = 24u << 20, .programs = programs};
    struct rpc_server *server = rpc_server_start(&config);
    struct rpc_stats stats;
    pthread_t threads[CLIENTS];
    bool right = server != NULL;
    uint64_t until = clock_mono_ns() + seconds * NS_PER_S;

    if (!right)
        return 1;
    limit = throttle_new(10000000, &rpc_throttle_owner);
    port = free_port();
    for (int i = 0; i < 3; i++)
        right &= rpc_listen(server, endpoints[i], port, NULL) == 0;
    for (int i = 0; i < CLIENTS; i++) {
        seeds[i] = seed * 100 + (unsigned)i;
        pthread_create(&threads[i], NULL, client_main, &seeds[i]);
    }
    while (clock_mono_ns() < until)
        disturb(server, &seed);
    throttle_set_rate(limit, 0, clock_mono_ns());
    atomic_store(&over, true);
    for (int i = 0; i < CLIENTS; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        right &= failed == NULL;
    }
    rpc_get_stats(server, &stats);
    for (int i = 0; i < 5000 && stats.memory != 0; i++) {
        usleep(1000);
        rpc_get_stats(server, &stats);
    }
    rpc_server_stop(server, 5);
    throttle_free(limit);
    right &= stats.memory == 0 && atomic_load(&begun) == atomic_load(&ended) &&
             stats.closed_protocol == 0;
    printf("%s: %lu answers checked, %lu calls, %lu offloaded, %lu dropped, %lu bytes left\n",
           right ? "ok" : "WRONG", atomic_load(&checked), (unsigned long)stats.calls,
           (unsigned long)stats.offloaded, (unsigned long)stats.dropped,
           (unsigned long)stats.memory);
    return right ? 0 : 1;
}
