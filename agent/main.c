/*
 * spillway-agent: the start and the stop, in their order. What is served is agent/nfs/ and
 * agent/mount/ over agent/rpc/; what should be served comes through agent/control/.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/control/channel.h"
#include "agent/control/config.h"
#include "agent/control/desired.h"
#include "agent/control/endpoints.h"
#include "agent/control/identity.h"
#include "agent/control/meter.h"
#include "agent/control/netif.h"
#include "agent/control/reconcile.h"
#include "agent/control/status_page.h"
#include "agent/mount/mount.h"
#include "agent/nfs/nfs.h"
#include "agent/portmap/portmap.h"
#include "agent/rpc/rpc.h"
#include "agent/sandbox.h"
#include "agent/storage/storage.h"
#include "agent/volume/volume.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/notify.h"

#define DRAIN_S         5    /* what runs may end within it at a stop */
#define FLUSH_MS        1000 /* for the last report to the control plane */
#define MAX_CONNECTIONS 4096

/* The parts of the running program; NULL what is not started (yet, or any more). */
struct agent {
    struct agent_config config;
    uint64_t files; /* that may be open */
    struct identity identity;
    struct storage *storage;
    pthread_mutex_t server_lock; /* of the pointer, for those who read the counters during a stop */
    struct rpc_server *server;
    struct endpoints *endpoints;
    struct desired *desired;
    struct reconciler *reconciler;
    struct meter *meter;
    struct channel *channel;
    struct status_page *page;
};

/* ---- between the reconciler and the parts that it moves
 * ------------------------------------------------------------- */

static const struct rpc_program *const volume_programs[] = {&nfs_program, &mount_program, NULL};
static const struct rpc_program *const all_programs[] = {&nfs_program, &mount_program,
                                                         &portmap_program, NULL};

static int endpoint_listen(void *arg, const char *address)
{
    const struct agent *a = arg;
    int rc = rpc_listen(a->server, address, a->config.nfs_port, volume_programs);

    if (rc == 0)
        (void)portmap_endpoint(a->server, address); /* best effort; says itself what is wrong */
    return rc;
}

static void endpoint_unlisten(void *arg, const char *address)
{
    const struct agent *a = arg;

    if (!a->server)
        return; /* stopped, and its listeners with it */
    portmap_endpoint_gone(a->server, address);
    (void)rpc_unlisten(a->server, address, a->config.nfs_port);
}

static int apply(void *arg, const struct volume_spec *spec, char *message, size_t size)
{
    const struct agent *a = arg;

    return volume_apply(volume_table, a->storage, spec, message, size);
}

static int retire(void *arg, const struct uuid *fs_id)
{
    (void)arg;
    return volume_retire(volume_table, fs_id);
}

static int each_on_disk(void *arg, storage_each_fn *fn, void *fn_arg)
{
    const struct agent *a = arg;

    return storage_each(a->storage, fn, fn_arg);
}

static void transport_stats(void *arg, struct rpc_stats *out)
{
    struct agent *a = arg;

    *out = (struct rpc_stats){0};
    pthread_mutex_lock(&a->server_lock);
    if (a->server)
        rpc_get_stats(a->server, out);
    pthread_mutex_unlock(&a->server_lock);
}

static void wake_channel(void *arg)
{
    const struct agent *a = arg;

    channel_wake(a->channel);
}

static void tick_channel(void *arg)
{
    const struct agent *a = arg;

    channel_tick(a->channel);
}

/* ---- start
 * ----------------------------------------------------------------------------------------------------------
 */

/* What must stand before a thread runs, and whose failure ends the program. */
static void open_disk(struct agent *a)
{
    struct storage_config store = {
        .dir = a->config.store, .backend = a->config.backend, .durability = a->config.durability};
    int rc = fs_mkdir_p(a->config.state, 0700);

    if (rc == 0)
        rc = fs_lock_dir(a->config.state);
    if (rc == -EWOULDBLOCK)
        fatal("--state %s is in use by another agent", a->config.state);
    if (rc != 0)
        fatal("--state %s: %s", a->config.state, strerror(-rc));
    if (storage_open(&store, &a->storage) != 0 ||
        identity_open(a->config.state, storage_uuid(a->storage), &a->identity) != 0)
        fatal("not started");
    rc = desired_open(a->config.state, &a->desired);
    if (rc != 0)
        fatal("--state %s: %s", a->config.state, strerror(-rc));
}

static void open_transport(struct agent *a)
{
    static const struct endpoint_ops ops = {endpoint_listen, endpoint_unlisten, netif_has,
                                            netif_add, netif_remove};
    /* Where descriptors are few, connections take no more than a quarter: the cache of open objects
     * has half, and what is neither must not run out. */
    struct rpc_server_config server = {.workers = a->config.workers,
                                       .max_connections = a->files / 4 < MAX_CONNECTIONS
                                                              ? (unsigned)(a->files / 4)
                                                              : MAX_CONNECTIONS,
                                       .programs = all_programs};
    struct endpoints_config endpoints = {.allowed = &a->config.endpoints,
                                         .interface = a->config.interface,
                                         .state_dir = a->config.state,
                                         .port = a->config.nfs_port,
                                         .ops = &ops,
                                         .arg = a};

    volume_table = volume_table_new();
    nfs_start();
    a->server = rpc_server_start(&server);
    if (!a->server || portmap_start(a->server, a->config.nfs_port) != 0 ||
        endpoints_open(&endpoints, &a->endpoints) != 0)
        fatal("not started");
}

static void open_control(struct agent *a)
{
    static const struct reconcile_ops ops = {apply, retire, each_on_disk, wake_channel};

    a->reconciler = reconciler_new(&(struct reconciler_config){
        .desired = a->desired, .endpoints = a->endpoints, .ops = &ops, .arg = a});
    a->meter = meter_new(volume_table, tick_channel, a);
    a->channel = channel_new(&(struct channel_config){.agent = &a->config,
                                                      .identity = &a->identity,
                                                      .storage = a->storage,
                                                      .reconciler = a->reconciler,
                                                      .meter = a->meter,
                                                      .rpc_stats = transport_stats,
                                                      .arg = a});
    if (!a->channel)
        fatal("not started");
}

static void start(struct agent *a)
{
    struct status_sources sources = {.agent = &a->config,
                                     .storage = a->storage,
                                     .table = volume_table,
                                     .reconciler = a->reconciler,
                                     .endpoints = a->endpoints,
                                     .meter = a->meter,
                                     .channel = a->channel,
                                     .rpc_stats = transport_stats,
                                     .arg = a};
    int rc;

    /* /healthz answers during the restore: 503. */
    if (status_page_start(&sources, &a->page) != 0)
        fatal("not started");
    rc = reconciler_restore(a->reconciler);
    if (rc != 0)
        fatal("cannot restore the exports: %s", strerror(-rc));
    if ((rc = reconciler_start(a->reconciler)) != 0 || (rc = meter_start(a->meter)) != 0 ||
        (rc = channel_start(a->channel)) != 0)
        fatal("cannot start a thread: %s", strerror(-rc));
}

/* ---- stop
 * -----------------------------------------------------------------------------------------------------------
 */

/* No more changes, then no more calls, then the last counters, then the addresses and the disk. */
static void stop(struct agent *a)
{
    struct rpc_server *server = a->server;

    reconciler_stop(a->reconciler);
    portmap_stop();
    pthread_mutex_lock(&a->server_lock);
    a->server = NULL;
    pthread_mutex_unlock(&a->server_lock);
    rpc_server_stop(server, DRAIN_S);
    meter_stop(a->meter);
    channel_stop(a->channel, FLUSH_MS);
    status_page_stop(a->page);
    endpoints_close(a->endpoints);
    volume_close_all(volume_table);
    volume_table_free(volume_table);
    nfs_stop(); /* the status page and the volumes use its cache to their end */
    storage_close(a->storage);
    channel_free(a->channel);
    meter_free(a->meter);
    reconciler_free(a->reconciler);
    desired_close(a->desired);
    identity_close(&a->identity);
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    static struct agent agent = {.server_lock = PTHREAD_MUTEX_INITIALIZER};
    struct reconciler_stats stats;
    sigset_t signals;
    int got;

    config_parse(argc, argv, &agent.config);
    umask(0); /* modes are the clients' business */
    block_signals(&signals);
    agent.files = sandbox_raise_files();
    if (agent.files == 0 || sandbox_drop(agent.config.interface != NULL) != 0)
        return EXIT_FAILURE;
    open_disk(&agent);
    open_transport(&agent);
    open_control(&agent);
    start(&agent);
    reconciler_get_stats(agent.reconciler, &stats);
    log_info("%s serves %llu of %llu exports; status on %s", agent.config.name,
             (unsigned long long)stats.served, (unsigned long long)stats.known,
             agent.config.status);
    notify_systemd("READY=1");

    while (sigwait(&signals, &got) != 0)
        ;
    notify_systemd("STOPPING=1");
    log_info("stopping on %s", strsignal(got));
    stop(&agent);
    return EXIT_SUCCESS;
}
