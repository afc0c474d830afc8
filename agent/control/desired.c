/* The desired state on disk. Each step is atomic by rename and durable by fsync of the file and of
 * its folder. */
#include "agent/control/desired.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"

struct desired {
    char *volumes, *orphans; /* folders */
    int volumes_fd, orphans_fd;
};

#define FILE_NAME_MAX (UUID_TEXT_MAX + sizeof(".json"))

static char *file_name(const struct uuid *fs_id, char out[static FILE_NAME_MAX])
{
    char text[UUID_TEXT_MAX];

    snprintf(out, FILE_NAME_MAX, "%s.json", uuid_format(fs_id, text));
    return out;
}

static int open_folder(const char *path, int *fd)
{
    int rc = fs_mkdir_p(path, 0700);

    if (rc != 0)
        return rc;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

int desired_open(const char *state_dir, struct desired **out)
{
    struct desired *d = xcalloc(1, sizeof(*d));
    int rc;

    d->volumes_fd = d->orphans_fd = -1;
    d->volumes = xasprintf("%s/volumes", state_dir);
    d->orphans = xasprintf("%s/orphans", state_dir);
    rc = open_folder(d->volumes, &d->volumes_fd);
    if (rc == 0)
        rc = open_folder(d->orphans, &d->orphans_fd);
    if (rc != 0) {
        desired_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void desired_close(struct desired *d)
{
    if (!d)
        return;
    if (d->volumes_fd >= 0)
        close(d->volumes_fd);
    if (d->orphans_fd >= 0)
        close(d->orphans_fd);
    free(d->volumes);
    free(d->orphans);
    free(d);
}

static int remove_file(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) != 0)
        return errno == ENOENT ? 0 : -errno;
    return fsync(folder) == 0 ? 0 : -errno;
}

int desired_save(struct desired *d, const struct uuid *fs_id, const char *spec)
{
    char name[FILE_NAME_MAX];
    char *path = xasprintf("%s/%s", d->volumes, file_name(fs_id, name));
    int rc = fs_write_atomic(path, spec, strlen(spec), 0600);

    free(path);
    return rc == 0 ? remove_file(d->orphans_fd, name) : rc;
}

int desired_remove(struct desired *d, const struct uuid *fs_id)
{
    char name[FILE_NAME_MAX];
    int rc = remove_file(d->volumes_fd, file_name(fs_id, name));

    return rc == 0 ? remove_file(d->orphans_fd, name) : rc;
}

int desired_orphan(struct desired *d, const struct uuid *fs_id)
{
    char name[FILE_NAME_MAX];

    file_name(fs_id, name);
    if (renameat(d->volumes_fd, name, d->orphans_fd, name) != 0)
        return errno == ENOENT ? 0 : -errno;
    /* The new name first: a power cut may leave the record in both places, never in none. */
    if (fsync(d->orphans_fd) != 0 || fsync(d->volumes_fd) != 0)
        return -errno;
    return 0;
}

static bool parse_name(const char *name, struct uuid *fs_id)
{
    char text[UUID_TEXT_MAX];

    if (strlen(name) != FILE_NAME_MAX - 2 || strcmp(name + UUID_TEXT_MAX - 1, ".json") != 0)
        return false;
    memcpy(text, name, UUID_TEXT_MAX - 1);
    text[UUID_TEXT_MAX - 1] = '\0';
    return uuid_parse(text, fs_id);
}

int desired_each(struct desired *d, desired_fn *fn, void *arg)
{
    DIR *folder = opendir(d->volumes);
    const struct dirent *entry;
    int rc = 0;

    if (!folder)
        return -errno;
    while (rc == 0 && (errno = 0, entry = readdir(folder))) {
        struct uuid fs_id;
        char *path, *spec = NULL;
        size_t len = 0;
        int error;

        if (!parse_name(entry->d_name, &fs_id))
            continue;
        path = xasprintf("%s/%s", d->volumes, entry->d_name);
        error = fs_read_file(path, DESIRED_MAX_SPEC, &spec, &len);
        rc = fn(&fs_id, error == 0 ? spec : NULL, len, error, arg);
        free(spec);
        free(path);
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(folder);
    return rc;
}
