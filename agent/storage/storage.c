/*
 * The store: its folder, its volumes' life (see storage.h for the layout and the contract).
 *
 * A volume is made under a name that nobody looks at, fsynced, and renamed into place whole;
 * deleting is the rename into the trash. Either is followed by an fsync of the folders concerned,
 * so after a power cut too a volume is there whole or not at all.
 *
 * One agent has a store open (a lock on .spillway-store). When several are to share one, that lock
 * becomes a shared one: a volume's usage journal has a lock of its own already, so that two never
 * write the same.
 *
 * Locking: `lock` guards the list of open volumes. It is held while a usage is abandoned, so it
 * comes before the locks of usage.h.
 */
#include "agent/storage/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/storage/backend.h"
#include "agent/storage/trash.h"
#include "agent/storage/usage.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

#define MARKER      ".spillway-store"
#define MARKER_NEW  ".spillway-store.new"
#define UNFINISHED  ".new." /* before a volume's id, while it is made */
#define ID_NAME_MAX (UUID_TEXT_MAX + sizeof(UNFINISHED))

static const struct storage_backend *const backends[] = {&storage_dir};

/* An open volume; what others see of it comes first. */
struct open_volume {
    struct storage_volume volume;
    struct open_volume *next;
};

struct storage {
    int fd, marker, volumes, trash_fd;
    struct uuid uuid;
    const struct storage_backend *backend;
    enum durability durability;
    struct trash *trash;
    struct job_thread *keeper, *scanner;
    pthread_mutex_t lock;
    struct open_volume *open;
};

/* ---- opening the store ---- */

static const struct storage_backend *find_backend(const char *name)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

/* NFS handles are made of the file system's: without them no client could be given one that lasts.
 */
static int probe_handles(int fd, const char *path)
{
    union {
        struct file_handle head;
        unsigned char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } handle;
    struct stat here, there;
    int mount, again, rc = 0;

    memset(&handle, 0, sizeof(handle));
    handle.head.handle_bytes = MAX_HANDLE_SZ;
    if (name_to_handle_at(fd, "", &handle.head, &mount, AT_EMPTY_PATH) != 0) {
        rc = -errno;
        log_error("store %s: its file system gives no file handles (%s); use a folder on ext4, xfs "
                  "or btrfs",
                  path, strerror(-rc));
        return rc;
    }
    again = open_by_handle_at(fd, &handle.head, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (again < 0) {
        rc = -errno;
        log_error("store %s: cannot open by file handle (%s); %s", path, strerror(-rc),
                  rc == -EPERM ? "the agent needs CAP_DAC_READ_SEARCH, start it as root"
                               : "use a folder on ext4, xfs or btrfs");
        return rc;
    }
    if (fstat(fd, &here) != 0 || fstat(again, &there) != 0)
        rc = -errno;
    else if (here.st_dev != there.st_dev || here.st_ino != there.st_ino)
        rc = -ENOTSUP;
    if (rc != 0)
        log_error("store %s: its file handles lead elsewhere; use a folder on ext4, xfs or btrfs",
                  path);
    close(again);
    return rc;
}

/* What a fresh file system has, and what a start cut short left. */
static bool is_harmless(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lost+found") == 0 ||
           strcmp(name, MARKER_NEW) == 0;
}

static int refuse_foreign(int store, const char *path)
{
    int fd = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *d;

    if (!dir) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (d = readdir(dir)))
        if (!is_harmless(d->d_name)) {
            log_error("store %s: it is no store and not empty (%s is in it); name an empty or "
                      "absent folder",
                      path, d->d_name);
            rc = -ENOTEMPTY;
        }
    closedir(dir);
    return rc;
}

/* Gives the folder its UUID. Another that does the same at this moment wins or loses as a whole:
 * link(2). */
static int make_marker(int store)
{
    struct uuid uuid = uuid_random();
    char text[UUID_TEXT_MAX + 1];
    size_t len = strlen(uuid_format(&uuid, text));
    int fd, rc = 0;

    text[len++] = '\n';
    if (unlinkat(store, MARKER_NEW, 0) != 0 && errno != ENOENT)
        return -errno;
    fd = openat(store, MARKER_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, text, len) != (ssize_t)len)
        rc = -EIO;
    else if (fsync(fd) != 0 ||
             (linkat(store, MARKER_NEW, store, MARKER, 0) != 0 && errno != EEXIST) ||
             unlinkat(store, MARKER_NEW, 0) != 0 || fsync(store) != 0)
        rc = -errno;
    close(fd);
    return rc;
}

static int read_marker(struct storage *s, const char *path)
{
    char text[UUID_TEXT_MAX] = "";
    ssize_t n = pread(s->marker, text, UUID_TEXT_MAX - 1, 0);

    if (n < 0)
        return -errno;
    if (!uuid_parse(text, &s->uuid)) {
        log_error("store %s: %s holds no UUID; restore it, or name another folder", path, MARKER);
        return -EINVAL;
    }
    return 0;
}

static int open_marker(struct storage *s, const char *path)
{
    int rc;

    s->marker = openat(s->fd, MARKER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (s->marker < 0 && errno == ENOENT) {
        rc = refuse_foreign(s->fd, path);
        if (rc == 0)
            rc = make_marker(s->fd);
        if (rc != 0)
            return rc;
        s->marker = openat(s->fd, MARKER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (s->marker < 0)
        return -errno;
    if (flock(s->marker, LOCK_EX | LOCK_NB) != 0) {
        rc = -errno;
        if (rc == -EWOULDBLOCK)
            log_error(
                "store %s: another agent has it open; stop that one, or give each its own --store",
                path);
        return rc;
    }
    return read_marker(s, path);
}

static int open_folder(int at, const char *name)
{
    int fd;

    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

/* The volumes folder's entries by kind: those that are volumes, or those that were not finished. */
static int each_entry(struct storage *s, const char *prefix, storage_each_fn *fn, void *arg)
{
    int fd = openat(s->volumes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    size_t len = strlen(prefix);
    struct dirent *d;

    if (!dir) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (errno = 0, d = readdir(dir))) {
        struct uuid fs_id;

        if (strncmp(d->d_name, prefix, len) == 0 && uuid_parse(d->d_name + len, &fs_id))
            rc = fn(&fs_id, arg);
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(dir);
    return rc;
}

static int sweep_unfinished(const struct uuid *fs_id, void *arg)
{
    struct storage *s = arg;
    char name[ID_NAME_MAX] = UNFINISHED;

    uuid_format(fs_id, name + strlen(UNFINISHED));
    return trash_take(s->trash, s->volumes, name, fs_id);
}

static int open_layout(struct storage *s, const struct storage_config *config)
{
    int rc = fs_mkdir_p(config->dir, 0700);

    if (rc != 0)
        return rc;
    s->fd = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd < 0)
        return -errno;
    rc = probe_handles(s->fd, config->dir);
    if (rc == 0)
        rc = open_marker(s, config->dir);
    if (rc != 0)
        return rc;
    if ((s->volumes = open_folder(s->fd, "volumes")) < 0)
        return s->volumes;
    if ((s->trash_fd = open_folder(s->fd, "trash")) < 0)
        return s->trash_fd;
    return fsync(s->fd) == 0 ? 0 : -errno;
}

int storage_open(const struct storage_config *config, struct storage **out)
{
    struct storage *s;
    int rc;

    if (!find_backend(config->backend)) {
        log_error("store %s: there is no backend \"%s\"; \"dir\" is the one there is", config->dir,
                  config->backend);
        return -ENOTSUP;
    }
    s = xcalloc(1, sizeof(*s));
    s->fd = s->marker = s->volumes = s->trash_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->backend = find_backend(config->backend);
    s->durability = config->durability;
    rc = open_layout(s, config);
    if (rc == 0) {
        s->keeper = job_thread_start("usage-keeper");
        s->scanner = job_thread_start("usage-scan");
        s->trash = trash_start(s->trash_fd, s->backend);
        if (!s->keeper || !s->scanner || !s->trash)
            rc = -EAGAIN;
    }
    if (rc == 0)
        rc = each_entry(s, UNFINISHED, sweep_unfinished, s);
    if (rc != 0) {
        log_error("store %s cannot be opened: %s", config->dir, strerror(-rc));
        storage_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void storage_close(struct storage *s)
{
    if (!s)
        return;
    while (s->open)
        storage_volume_close(&s->open->volume);
    trash_stop(s->trash);
    job_thread_stop(s->scanner);
    job_thread_stop(s->keeper);
    close_fd(s->trash_fd);
    close_fd(s->volumes);
    close_fd(s->marker);
    close_fd(s->fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- what it says of itself ---- */

const struct uuid *storage_uuid(const struct storage *s)
{
    return &s->uuid;
}

const char *storage_backend(const struct storage *s)
{
    return s->backend->name;
}

enum durability storage_durability(const struct storage *s)
{
    return s->durability;
}

int storage_space(const struct storage *s, uint64_t *size, uint64_t *free_bytes)
{
    struct statvfs vfs;

    if (fstatvfs(s->fd, &vfs) != 0)
        return -errno;
    *size = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    /* Not f_bfree: files are written as the caller, who has no part in root's reserve. */
    *free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return 0;
}

int storage_each(struct storage *s, storage_each_fn *fn, void *arg)
{
    return each_entry(s, "", fn, arg);
}

void storage_trash_stats(const struct storage *s, uint64_t *folders, uint64_t *removed)
{
    trash_stats(s->trash, folders, removed);
}

/* ---- volumes ---- */

static int fill_volume(struct storage *s, int folder, const struct uuid *fs_id, mode_t root_mode)
{
    struct stat st;
    int rc = s->backend->create(folder, root_mode);

    if (rc != 0)
        return rc;
    if (fstatat(folder, "data", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    rc = journal_create(folder, "usage", fs_id, usage_charge(&st), root_mode);
    if (rc == 0 && fsync(folder) != 0)
        rc = -errno;
    return rc;
}

static int create_volume(struct storage *s, const struct uuid *fs_id, mode_t root_mode)
{
    char name[ID_NAME_MAX], unfinished[ID_NAME_MAX] = UNFINISHED;
    int folder, rc;

    uuid_format(fs_id, name);
    uuid_format(fs_id, unfinished + strlen(UNFINISHED));
    /* Left by a creation that failed, on a full disk say. */
    rc = trash_take(s->trash, s->volumes, unfinished, fs_id);
    if (rc != 0 && rc != -ENOENT)
        return rc;
    folder = open_folder(s->volumes, unfinished);
    if (folder < 0)
        return folder;
    rc = fill_volume(s, folder, fs_id, root_mode);
    close(folder);
    if (rc == 0 && renameat2(s->volumes, unfinished, s->volumes, name, RENAME_NOREPLACE) != 0)
        rc = -errno;
    if (rc == 0 && fsync(s->volumes) != 0)
        rc = -errno;
    if (rc != 0)
        trash_take(s->trash, s->volumes, unfinished, fs_id); /* or it is left to the next time */
    return rc;
}

static int open_parts(struct storage *s, struct open_volume *v, int folder, uint64_t quota_bytes,
                      uint64_t max_files)
{
    int rc;

    v->volume.root = openat(folder, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (v->volume.root < 0)
        return -errno;
    rc = s->backend->resize ? s->backend->resize(folder, quota_bytes, max_files) : 0;
    if (rc == 0)
        rc = usage_open(folder, v->volume.root, &v->volume.fs_id, quota_bytes, max_files,
                        s->durability, s->keeper, s->scanner, &v->volume.usage);
    if (rc != 0)
        close(v->volume.root);
    return rc;
}

int storage_volume_open(struct storage *s, const struct uuid *fs_id, mode_t root_mode,
                        uint64_t quota_bytes, uint64_t max_files, struct storage_volume **out)
{
    struct open_volume *v;
    char name[UUID_TEXT_MAX];
    int folder, rc = 0;

    folder = openat(s->volumes, uuid_format(fs_id, name),
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT) {
        rc = create_volume(s, fs_id, root_mode);
        if (rc != 0)
            return rc;
        folder = openat(s->volumes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (folder < 0)
        return -errno;
    v = xcalloc(1, sizeof(*v));
    v->volume.store = s;
    v->volume.fs_id = *fs_id;
    rc = open_parts(s, v, folder, quota_bytes, max_files);
    close(folder);
    if (rc != 0) {
        free(v);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    v->next = s->open;
    s->open = v;
    pthread_mutex_unlock(&s->lock);
    *out = &v->volume;
    return 0;
}

void storage_volume_close(struct storage_volume *volume)
{
    struct storage *s = volume->store;
    struct open_volume **at;

    pthread_mutex_lock(&s->lock);
    for (at = &s->open; &(*at)->volume != volume;)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&s->lock);
    usage_close(volume->usage, volume->root);
    close(volume->root);
    free(volume); /* the first member of its open_volume */
}

static int open_volume_folder(const struct storage_volume *v)
{
    char name[UUID_TEXT_MAX];
    int fd = openat(v->store->volumes, uuid_format(&v->fs_id, name),
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 ? fd : -errno;
}

int storage_volume_resize(struct storage_volume *v, uint64_t quota_bytes, uint64_t max_files)
{
    const struct storage_backend *backend = v->store->backend;

    if (backend->resize) {
        int folder = open_volume_folder(v), rc;

        if (folder < 0)
            return folder;
        rc = backend->resize(folder, quota_bytes, max_files);
        close(folder);
        if (rc != 0)
            return rc;
    }
    usage_resize(v->usage, quota_bytes, max_files);
    return 0;
}

mode_t storage_volume_root_mode(const struct storage_volume *v)
{
    return v->usage->root_mode;
}

int storage_volume_chmod(struct storage_volume *v, mode_t root_mode)
{
    if (fchmod(v->root, root_mode) != 0 || fsync(v->root) != 0)
        return -errno;
    /* After the change: cut short in between, it is made once more. */
    return usage_keep_root_mode(v->usage, root_mode);
}

int storage_volume_delete(struct storage *s, const struct uuid *fs_id, struct storage_volume *v)
{
    char name[UUID_TEXT_MAX];
    int rc = trash_take(s->trash, s->volumes, uuid_format(fs_id, name), fs_id);

    if (rc != 0 && rc != -ENOENT)
        goto out;
    pthread_mutex_lock(&s->lock);
    for (struct open_volume *open = s->open; open; open = open->next)
        if (uuid_equal(&open->volume.fs_id, fs_id))
            usage_abandon(open->volume.usage);
    pthread_mutex_unlock(&s->lock);
out:
    if (v)
        storage_volume_close(v);
    return rc;
}
