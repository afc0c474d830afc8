/* File handles; see the header. Called by MOUNT and every NFS procedure; no state, no locks. */
#include "agent/fs/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#define HANDLE_VERSION 1
#define AT_FS_ID       1
#define AT_TYPE        17
#define AT_KERNEL      18
#define MAC_LEN        crypto_shorthash_BYTES

_Static_assert(VOLUME_HANDLE_KEY == crypto_shorthash_KEYBYTES, "the key of SipHash-2-4");
_Static_assert(MAC_LEN == 8, "SipHash-2-4");

/* The kernel's structure with room for what fits into ours. */
union kernel_handle {
    struct file_handle head;
    unsigned char space[sizeof(struct file_handle) + FS_KERNEL_MAX];
};

void fs_handle_make(const struct volume *v, const struct fs_object *object, struct fs_handle *out)
{
    uint32_t len = AT_KERNEL + object->len;

    out->data[0] = HANDLE_VERSION;
    memcpy(out->data + AT_FS_ID, v->fs_id.b, sizeof v->fs_id.b);
    out->data[AT_TYPE] = object->type;
    memcpy(out->data + AT_KERNEL, object->bytes, object->len);
    crypto_shorthash(out->data + len, out->data, len, v->handle_key);
    out->len = len + MAC_LEN;
}

int fs_handle_root(const struct volume *v, struct fs_handle *out)
{
    fs_handle_make(v, &(struct fs_object){.type = FS_HANDLE_ROOT}, out);
    return 0;
}

int fs_object_of(int fd, struct fs_object *out)
{
    union kernel_handle k;
    int mount_id;

    memset(out, 0, sizeof *out);
    k.head.handle_bytes = FS_KERNEL_MAX;
    if (name_to_handle_at(fd, "", &k.head, &mount_id, AT_EMPTY_PATH) != 0)
        return -errno;
    if (k.head.handle_type < 0 || k.head.handle_type >= FS_HANDLE_ROOT ||
        k.head.handle_bytes > FS_KERNEL_MAX)
        return -EOVERFLOW;
    out->type = (uint8_t)k.head.handle_type;
    out->len = (uint8_t)k.head.handle_bytes;
    memcpy(out->bytes, k.head.f_handle, out->len);
    return 0;
}

int fs_handle_of(const struct volume *v, int fd, struct fs_handle *out)
{
    struct fs_object object;
    int rc = fs_object_of(fd, &object);

    if (rc == 0)
        fs_handle_make(v, &object, out);
    return rc;
}

bool fs_handle_volume(const uint8_t *data, uint32_t len, struct uuid *fs_id)
{
    if (len < AT_KERNEL + MAC_LEN || len > FS_HANDLE_MAX || data[0] != HANDLE_VERSION)
        return false;
    memcpy(fs_id->b, data + AT_FS_ID, sizeof fs_id->b);
    return true;
}

bool fs_handle_check(const struct volume *v, const uint8_t *data, uint32_t len,
                     struct fs_object *out)
{
    uint8_t mac[MAC_LEN];

    if (len < AT_KERNEL + MAC_LEN || len > FS_HANDLE_MAX)
        return false;
    crypto_shorthash(mac, data, len - MAC_LEN, v->handle_key);
    if (sodium_memcmp(mac, data + len - MAC_LEN, MAC_LEN) != 0)
        return false;
    memset(out, 0, sizeof *out);
    out->type = data[AT_TYPE];
    out->len = (uint8_t)(len - AT_KERNEL - MAC_LEN);
    memcpy(out->bytes, data + AT_KERNEL, out->len);
    return true;
}

int fs_object_open(const struct volume *v, const struct fs_object *object, int flags)
{
    union kernel_handle k;
    int fd;

    if (object->type == FS_HANDLE_ROOT) {
        fd = openat(v->store->root, ".", flags | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 ? fd : -errno;
    }
    k.head.handle_type = object->type;
    k.head.handle_bytes = object->len;
    memcpy(k.head.f_handle, object->bytes, object->len);
    fd = open_by_handle_at(v->store->root, &k.head, flags | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}
