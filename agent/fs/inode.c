/* The cache of open objects; see the header. Called by the NFS procedures. */
#include "agent/fs/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

#define SHARDS        64
#define SHARD_BUCKETS 4096
#define PATH_FLAGS    (O_PATH | O_NOFOLLOW)

struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct inode *bucket[SHARD_BUCKETS];
    struct inode *newest, *oldest;
    size_t count;
    uint64_t hits, misses;
};

static struct shard *shards;
static size_t max_per_shard;
static uint8_t hash_key[crypto_shorthash_KEYBYTES];

void inode_cache_init(size_t max_objects)
{
    shards = aligned_alloc(_Alignof(struct shard), SHARDS * sizeof *shards);
    if (!shards)
        abort();
    memset(shards, 0, SHARDS * sizeof *shards);
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&shards[i].lock, NULL);
    max_per_shard = max_objects / SHARDS ? max_objects / SHARDS : 1;
    randombytes_buf(hash_key, sizeof hash_key);
}

static uint64_t hash_of(const struct uuid *fs_id, const struct fs_object *object)
{
    uint8_t text[sizeof fs_id->b + 1 + FS_KERNEL_MAX];
    uint64_t hash;

    memcpy(text, fs_id->b, sizeof fs_id->b);
    text[sizeof fs_id->b] = object->type;
    memcpy(text + sizeof fs_id->b + 1, object->bytes, object->len);
    crypto_shorthash((unsigned char *)&hash, text, sizeof fs_id->b + 1 + object->len, hash_key);
    return hash;
}

static struct shard *shard_of(uint64_t hash)
{
    return &shards[hash % SHARDS];
}

static struct inode **bucket_of(struct shard *s, uint64_t hash)
{
    return &s->bucket[hash / SHARDS % SHARD_BUCKETS];
}

/* ---- a shard's list and table, under its lock ---- */

static void list_remove(struct shard *s, struct inode *i)
{
    *(i->newer ? &i->newer->older : &s->newest) = i->older;
    *(i->older ? &i->older->newer : &s->oldest) = i->newer;
}

static void list_add(struct shard *s, struct inode *i)
{
    i->newer = NULL;
    i->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = i;
    s->newest = i;
}

static struct inode *find(struct shard *s, uint64_t hash, const struct uuid *fs_id,
                          const struct fs_object *object)
{
    for (struct inode *i = *bucket_of(s, hash); i; i = i->chain)
        if (i->hash == hash && i->object.type == object->type && i->object.len == object->len &&
            memcmp(i->object.bytes, object->bytes, object->len) == 0 &&
            uuid_equal(&i->fs_id, fs_id))
            return i;
    return NULL;
}

static void table_remove(struct shard *s, struct inode *i)
{
    struct inode **at = bucket_of(s, i->hash);

    while (*at != i)
        at = &(*at)->chain;
    *at = i->chain;
    list_remove(s, i);
    i->cached = false;
    s->count--;
}

/* Takes the least recently used one that nobody holds, when there is no room for another; the
 * caller closes it. */
static struct inode *take_victim(struct shard *s)
{
    if (s->count < max_per_shard)
        return NULL;
    for (struct inode *i = s->oldest; i; i = i->newer)
        if (i->refs == 0) {
            table_remove(s, i);
            return i;
        }
    return NULL;
}

static void close_inode(struct inode *i)
{
    int data_fd = atomic_load(&i->data_fd);

    pthread_cond_destroy(&i->synced);
    if (data_fd >= 0)
        close(data_fd);
    if (i->path_fd >= 0)
        close(i->path_fd);
    pthread_mutex_destroy(&i->lock);
    pthread_mutex_destroy(&i->size_lock);
    free(i);
}

void inode_cache_destroy(void)
{
    for (size_t k = 0; k < SHARDS; k++) {
        while (shards[k].oldest) {
            struct inode *i = shards[k].oldest;

            table_remove(&shards[k], i);
            close_inode(i);
        }
        pthread_mutex_destroy(&shards[k].lock);
    }
    free(shards);
    shards = NULL;
}

/* ---- references ---- */

void inode_put(struct inode *i)
{
    struct shard *s;
    bool last;

    if (!i)
        return;
    s = shard_of(i->hash);
    pthread_mutex_lock(&s->lock);
    last = --i->refs == 0 && !i->cached;
    pthread_mutex_unlock(&s->lock);
    if (last)
        close_inode(i);
}

void inode_forget(struct inode *i)
{
    struct shard *s = shard_of(i->hash);

    pthread_mutex_lock(&s->lock);
    if (i->cached)
        table_remove(s, i);
    pthread_mutex_unlock(&s->lock);
}

void inode_forget_volume(const struct uuid *fs_id)
{
    for (size_t k = 0; k < SHARDS; k++) {
        struct inode *closing = NULL;

        pthread_mutex_lock(&shards[k].lock);
        for (struct inode *i = shards[k].oldest, *next; i; i = next) {
            next = i->newer;
            if (!uuid_equal(&i->fs_id, fs_id))
                continue;
            table_remove(&shards[k], i);
            if (i->refs == 0) {
                i->chain = closing;
                closing = i;
            }
        }
        pthread_mutex_unlock(&shards[k].lock);
        while (closing) {
            struct inode *i = closing;

            closing = i->chain;
            close_inode(i);
        }
    }
}

static struct inode *lookup(const struct uuid *fs_id, const struct fs_object *object, uint64_t hash)
{
    struct shard *s = shard_of(hash);
    struct inode *i;

    pthread_mutex_lock(&s->lock);
    i = find(s, hash, fs_id, object);
    if (i) {
        i->refs++;
        s->hits++;
        if (s->newest != i) {
            list_remove(s, i);
            list_add(s, i);
        }
    } else {
        s->misses++;
    }
    pthread_mutex_unlock(&s->lock);
    return i;
}

/* Puts a new entry, referenced once, into the table; where another thread was faster, its one is
 * used. */
static struct inode *insert(struct inode *fresh)
{
    struct shard *s = shard_of(fresh->hash);
    struct inode *i, *victim = NULL;
    struct stat st;

    pthread_mutex_lock(&s->lock);
    i = find(s, fresh->hash, &fresh->fs_id, &fresh->object);
    if (i) {
        i->refs++;
        victim = fresh;
    } else {
        victim = take_victim(s);
        i = fresh;
        i->cached = true;
        /* Only now nobody else can change it unseen. */
        if (fstat(i->path_fd, &st) == 0)
            i->charged = usage_charge(&st);
        i->chain = *bucket_of(s, i->hash);
        *bucket_of(s, i->hash) = i;
        list_add(s, i);
        s->count++;
    }
    pthread_mutex_unlock(&s->lock);
    if (victim)
        close_inode(victim);
    return i;
}

static struct inode *new_inode(struct volume *v, const struct fs_object *object, int path_fd,
                               const struct stat *st)
{
    struct inode *i = calloc(1, sizeof *i);

    if (!i)
        return NULL;
    pthread_cond_init(&i->synced, NULL);
    i->fs_id = v->fs_id;
    i->object = *object;
    i->hash = hash_of(&v->fs_id, object);
    i->refs = 1;
    i->path_fd = path_fd;
    i->data_fd = -1;
    i->ino = st->st_ino;
    pthread_mutex_init(&i->lock, NULL);
    pthread_mutex_init(&i->size_lock, NULL);
    return i;
}

/* Attributes of an entry; one without a name left is gone, also while somebody has it open. */
static int check(struct inode *i, struct stat *st)
{
    if (fstat(i->path_fd, st) != 0)
        return -errno;
    if (st->st_nlink > 0)
        return 0;
    inode_forget(i);
    return -ESTALE;
}

static int finish(struct volume *v, struct inode *i, struct inode **out, struct stat *st)
{
    int rc = check(i, st);

    /* A volume that went away while the entry was made has been forgotten already. */
    if (rc == 0 && atomic_load(&v->gone)) {
        inode_forget(i);
        rc = -ESTALE;
    }
    if (rc != 0) {
        inode_put(i);
        return rc;
    }
    *out = i;
    return 0;
}

static int add(struct volume *v, const struct fs_object *object, int path_fd, struct inode **out,
               struct stat *st)
{
    struct inode *fresh = NULL;
    int rc = fstat(path_fd, st) == 0 ? 0 : -errno;

    if (rc == 0 && !(fresh = new_inode(v, object, path_fd, st)))
        rc = -ENOMEM;
    if (rc != 0) {
        close(path_fd);
        return rc;
    }
    return finish(v, insert(fresh), out, st);
}

int inode_get(struct volume *v, const struct fs_object *object, bool may_block, struct inode **out,
              struct stat *st)
{
    struct inode *i = lookup(&v->fs_id, object, hash_of(&v->fs_id, object));
    int fd;

    if (i)
        return finish(v, i, out, st);
    if (!may_block)
        return -EAGAIN;
    fd = fs_object_open(v, object, PATH_FLAGS);
    if (fd < 0)
        return fd;
    return add(v, object, fd, out, st);
}

int inode_adopt(struct volume *v, dev_t dev, int path_fd, struct inode **out, struct stat *st)
{
    struct fs_object object;
    struct inode *i;
    int rc = fstat(path_fd, st) == 0 ? 0 : -errno;

    /* Another file system's handle could be that of one of the volume's objects. */
    if (rc == 0 && st->st_dev != dev)
        rc = -EXDEV;
    if (rc == 0)
        rc = fs_object_of(path_fd, &object);
    if (rc != 0) {
        close(path_fd);
        return rc;
    }
    i = lookup(&v->fs_id, &object, hash_of(&v->fs_id, &object));
    if (!i)
        return add(v, &object, path_fd, out, st);
    close(path_fd);
    return finish(v, i, out, st);
}

/* ---- descriptors for data ---- */

int inode_data_fd(struct volume *v, struct inode *i, bool write, bool may_block)
{
    int fd = atomic_load_explicit(&i->data_fd, memory_order_acquire);

    if (fd >= 0 && (!write || atomic_load_explicit(&i->writable, memory_order_relaxed)))
        return fd;
    if (!may_block)
        return -EAGAIN;
    pthread_mutex_lock(&i->lock);
    fd = atomic_load(&i->data_fd);
    if (fd < 0) {
        fd = fs_object_open(v, &i->object, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0)
            atomic_store(&i->writable, true);
        else if (!write && (fd == -EACCES || fd == -EPERM || fd == -EROFS || fd == -ETXTBSY))
            /* An immutable file can still be read. */
            fd = fs_object_open(v, &i->object, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0)
            atomic_store_explicit(&i->data_fd, fd, memory_order_release);
    } else if (write && !atomic_load(&i->writable)) {
        fd = -EPERM;
    }
    pthread_mutex_unlock(&i->lock);
    return fd;
}

/* ---- syncs ---- */

static int sync_now(struct volume *v, struct inode *i, bool folder, inode_sync_failed_fn *failed)
{
    int fd = folder ? fs_object_open(v, &i->object, O_RDONLY | O_DIRECTORY)
                    : inode_data_fd(v, i, false, true);
    int rc;

    if (fd < 0)
        return fd;
    rc = fsync(fd) == 0 ? 0 : -errno;
    if (rc != 0)
        failed(v, -rc);
    if (folder)
        close(fd);
    return rc;
}

int inode_sync(struct volume *v, struct inode *i, bool folder, inode_sync_failed_fn *failed)
{
    uint64_t mine;
    int rc;

    pthread_mutex_lock(&i->lock);
    /* The first that begins from now on: one under way may have passed our change already. */
    mine = i->syncs_begun + 1;
    while (i->syncs_done < mine) {
        if (i->syncs_begun > i->syncs_done) {
            pthread_cond_wait(&i->synced, &i->lock);
            continue;
        }
        i->syncs_begun++;
        pthread_mutex_unlock(&i->lock);
        rc = sync_now(v, i, folder, failed);
        pthread_mutex_lock(&i->lock);
        i->syncs_done++;
        if (rc != 0) {
            i->sync_failed = i->syncs_done;
            i->sync_error = rc;
        }
        pthread_cond_broadcast(&i->synced);
    }
    rc = i->sync_failed >= mine ? i->sync_error : 0;
    pthread_mutex_unlock(&i->lock);
    return rc;
}

/* ---- changes ---- */

void inode_change_begin(struct inode *i, struct inode_change *change)
{
    change->alone = atomic_fetch_add(&i->mutators, 1) == 0;
    change->seen = atomic_load(&i->changes);
}

bool inode_change_end(struct inode *i, const struct inode_change *change)
{
    bool atomic = change->alone && atomic_load(&i->mutators) == 1;

    /* Whoever ended in between has counted. */
    if (atomic_fetch_add(&i->changes, 1) != change->seen)
        atomic = false;
    atomic_fetch_sub(&i->mutators, 1);
    return atomic;
}

void inode_charge_begin(struct volume *v, struct inode *i)
{
    pthread_mutex_lock(&i->lock);
    usage_touch(v->store->usage, i->ino, i->charged);
    pthread_mutex_unlock(&i->lock);
}

void inode_charge_end(struct inode *i, struct inode_booking *booking)
{
    uint64_t charge = 0;
    bool gone = false;
    struct stat st;

    /* Looked at under the lock, so that the last of several changes books what is there in the end.
     */
    pthread_mutex_lock(&i->lock);
    if (fstat(i->path_fd, &st) == 0) {
        gone = st.st_nlink == 0;
        if (!gone)
            charge = usage_charge(&st);
        booking->bytes += (int64_t)charge - (int64_t)i->charged;
        booking->inodes -= gone && !i->uncounted;
        i->uncounted |= gone;
        i->charged = charge;
    }
    pthread_mutex_unlock(&i->lock);
    if (gone)
        inode_forget(i);
}

uint64_t inode_charged(struct inode *i)
{
    uint64_t charged;

    pthread_mutex_lock(&i->lock);
    charged = i->charged;
    pthread_mutex_unlock(&i->lock);
    return charged;
}

void inode_get_stats(struct inode_stats *out)
{
    *out = (struct inode_stats){0};
    for (size_t k = 0; k < SHARDS; k++) {
        pthread_mutex_lock(&shards[k].lock);
        out->cached += shards[k].count;
        out->hits += shards[k].hits;
        out->misses += shards[k].misses;
        pthread_mutex_unlock(&shards[k].lock);
    }
}
