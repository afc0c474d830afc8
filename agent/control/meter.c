/* The counting thread. */
#include "agent/control/meter.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/uuid.h"

struct meter {
    struct volume_table *table;
    void (*tick)(void *arg);
    void *arg;
    pthread_t thread;
    bool running;
    int timer, stop;         /* descriptors */
    char run[UUID_TEXT_MAX]; /* names this start to the control plane */

    pthread_mutex_t lock;
    struct minutes *minutes;
    uint64_t volumes, ops, bytes; /* at the last snapshot: count, and totals since the start */
    uint64_t at_ns;               /* when that was */
    uint64_t ops_rate, bytes_rate;
};

struct meter *meter_new(struct volume_table *table, void (*tick)(void *arg), void *arg)
{
    struct meter *m = xcalloc(1, sizeof(*m));
    struct uuid run = uuid_random();

    m->table = table;
    m->tick = tick;
    m->arg = arg;
    m->timer = m->stop = -1;
    m->at_ns = clock_mono_ns();
    m->minutes = minutes_new(clock_wall_ns());
    uuid_format(&run, m->run);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void read_volume(struct volume *v, uint64_t now_ns, struct minutes_sample *s)
{
    struct volume_totals t;

    volume_get_totals(v, now_ns, &t);
    *s = (struct minutes_sample){
        .fs_id = v->fs_id,
        .sum = {[MINUTES_READ_BYTES] = t.read_bytes,
                [MINUTES_WRITE_BYTES] = t.write_bytes,
                [MINUTES_OTHER_BYTES] = t.other_bytes,
                [MINUTES_READ_OPS] = t.read_ops,
                [MINUTES_WRITE_OPS] = t.write_ops,
                [MINUTES_OTHER_OPS] = t.other_ops,
                [MINUTES_READ_NS] = t.read_ns,
                [MINUTES_WRITE_NS] = t.write_ns,
                [MINUTES_THROTTLE_NS] = t.throttle.waited_ns,
                [MINUTES_LIMITED_NS] = t.throttle.limited_ns},
        .gauge = {[MINUTES_LOGICAL_BYTES] = t.usage.used_bytes,
                  [MINUTES_ALLOCATED_BYTES] = t.usage.quota_bytes,
                  [MINUTES_INODES_USED] = t.usage.used_inodes,
                  [MINUTES_INODES_QUOTA] = t.usage.max_files},
    };
}

/* Work per second for people; the exact figures are the points. */
static void update_rates(struct meter *m, uint64_t now_ns, uint64_t ops, uint64_t bytes)
{
    uint64_t ms = (now_ns - m->at_ns) / NS_PER_MS;

    if (ms == 0)
        return;
    m->ops_rate = ops > m->ops ? (ops - m->ops) * 1000 / ms : 0; /* fewer: a volume went away */
    m->bytes_rate = bytes > m->bytes ? (bytes - m->bytes) * 1000 / ms : 0;
    m->ops = ops;
    m->bytes = bytes;
    m->at_ns = now_ns;
}

void meter_snapshot(struct meter *m)
{
    uint64_t now_ns = clock_mono_ns(), ops = 0, bytes = 0;
    size_t count;
    struct volume **list = volume_list(m->table, &count);
    struct minutes_sample *samples = xcalloc(count + 1, sizeof(*samples));

    for (size_t i = 0; i < count; i++) {
        const uint64_t *sum = samples[i].sum;

        read_volume(list[i], now_ns, &samples[i]);
        volume_put(list[i]);
        ops += sum[MINUTES_READ_OPS] + sum[MINUTES_WRITE_OPS] + sum[MINUTES_OTHER_OPS];
        bytes += sum[MINUTES_READ_BYTES] + sum[MINUTES_WRITE_BYTES] + sum[MINUTES_OTHER_BYTES];
    }
    pthread_mutex_lock(&m->lock);
    minutes_snapshot(m->minutes, clock_wall_ns(), samples, count);
    m->volumes = count;
    update_rates(m, now_ns, ops, bytes);
    pthread_mutex_unlock(&m->lock);
    free(samples);
    free(list);
}

/* Arms for the next whole five seconds of the wall clock; when somebody sets the clock the wait
 * ends with ECANCELED. */
static int arm(int timer)
{
    int64_t next =
        clock_wall_ns() / (int64_t)NS_PER_S / METER_PERIOD_S * METER_PERIOD_S + METER_PERIOD_S;
    struct itimerspec at = {.it_value = {.tv_sec = next}};

    if (timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &at, NULL) != 0 &&
        errno != ECANCELED)
        return -errno;
    return 0;
}

static void *run(void *arg)
{
    struct meter *m = arg;
    struct pollfd wait[] = {{.fd = m->timer, .events = POLLIN}, {.fd = m->stop, .events = POLLIN}};

    for (;;) {
        uint64_t expirations;
        int rc = arm(m->timer);

        if (rc != 0)
            log_error("cannot arm the status timer: %s",
                      strerror(-rc)); /* cannot be; then slowly */
        if (poll(wait, 2, rc == 0 ? -1 : METER_PERIOD_S * 1000) < 0 && errno != EINTR)
            log_error("cannot wait for the status timer: %s", strerror(errno));
        if (wait[1].revents != 0)
            return NULL;
        if (rc == 0 && read(m->timer, &expirations, sizeof(expirations)) < 0 && errno == EAGAIN)
            continue;
        meter_snapshot(m);
        m->tick(m->arg);
    }
}

int meter_start(struct meter *m)
{
    int rc;

    m->timer = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    m->stop = eventfd(0, EFD_CLOEXEC);
    if (m->timer < 0 || m->stop < 0)
        return -errno;
    rc = pthread_create(&m->thread, NULL, run, m);
    m->running = rc == 0;
    return -rc;
}

void meter_stop(struct meter *m)
{
    if (!m->running)
        return;
    (void)eventfd_write(m->stop, 1);
    pthread_join(m->thread, NULL);
    m->running = false;
    meter_snapshot(m);
}

void meter_free(struct meter *m)
{
    if (!m)
        return;
    if (m->timer >= 0)
        close(m->timer);
    if (m->stop >= 0)
        close(m->stop);
    minutes_free(m->minutes);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static json_t *numbers(const uint64_t *list, size_t count)
{
    json_t *out = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(out, json_integer((json_int_t)list[i]));
    return out;
}

uint64_t meter_report(struct meter *m, json_t *body)
{
    struct minutes_batch batch;
    uint64_t number = 0;

    pthread_mutex_lock(&m->lock);
    json_object_set_new(body, "volumes", json_integer((json_int_t)m->volumes));
    json_object_set_new(body, "opsPerSecond", json_integer((json_int_t)m->ops_rate));
    json_object_set_new(body, "bytesPerSecond", json_integer((json_int_t)m->bytes_rate));
    if (minutes_batch(m->minutes, &batch)) {
        json_t *points = json_array();

        for (size_t i = 0; i < batch.count; i++) {
            const struct minutes_point *p = &batch.points[i];
            char id[UUID_TEXT_MAX];

            json_array_append_new(points, json_pack("{s:s, s:I, s:o, s:o}", "fileSystemId",
                                                    uuid_format(&p->fs_id, id), "minute",
                                                    (json_int_t)p->minute, "sums",
                                                    numbers(p->sum, MINUTES_SUM_COUNT), "gauges",
                                                    numbers(p->gauge, MINUTES_GAUGE_COUNT)));
        }
        number = batch.number;
        json_object_set_new(body, "batch",
                            json_pack("{s:s, s:I, s:o}", "run", m->run, "number",
                                      (json_int_t)number, "points", points));
    }
    pthread_mutex_unlock(&m->lock);
    return number;
}

void meter_acknowledge(struct meter *m, uint64_t number)
{
    pthread_mutex_lock(&m->lock);
    minutes_ack(m->minutes, number);
    pthread_mutex_unlock(&m->lock);
}

void meter_get_stats(struct meter *m, struct minutes_stats *out)
{
    pthread_mutex_lock(&m->lock);
    minutes_get_stats(m->minutes, out);
    pthread_mutex_unlock(&m->lock);
}

bool meter_has_backlog(struct meter *m)
{
    struct minutes_stats s;

    meter_get_stats(m, &s);
    return s.waiting > 0;
}
