/*
 * An NFS server of the test's own with one volume, and a client that speaks to it over a socket.
 * Arguments and results are laid out by hand after RFC 1813.
 */
#ifndef TESTS_UNIT_AGENT_NFS_PEER_H
#define TESTS_UNIT_AGENT_NFS_PEER_H

#include "agent/fs/handle.h"
#include "agent/nfs/nfs.h"
#include "agent/nfs/nfs_proto.h"
#include "agent/volume/volume.h"

/* Fixture of a suite: a store, a volume of 1 GiB, a server, a connection as root. */
void nfs_setup(void);
void nfs_teardown(void);
/* The same with a quota or with what stable means of the test's own. */
void nfs_setup_quota(uint64_t quota);
void nfs_setup_power(void); /* safe from a power cut; the others sync nothing */
/* All goes and comes back, as when the agent restarts: server, caches, volumes, store. */
void nfs_restart(void);
/* The same without the clean end of the usage journal, as after a kill -9: a scan runs then. */
void nfs_crash(void);
/* A connection of the calling thread's own, from a loopback address; calls of a thread go over its
 * latest one. Who is calling is the thread's too. */
void nfs_connect(const char *from);
void nfs_disconnect(void);

struct volume *nfs_volume(void); /* not referenced for the caller */
const struct fs_handle *nfs_root(void);
/* Applies the export rule of the volume anew. */
void nfs_set_rule(bool writable, bool root_access, bool chown_restricted, const char *clients);
void nfs_set_limit(uint64_t bytes_per_s);
void nfs_set_quota(uint64_t bytes, uint64_t max_files);
/* A second volume in the same store, of another key, there until the end; its root. */
struct fs_handle nfs_second_volume(void);
void nfs_delete_volume(void);
/* Who the next calls are. */
void nfs_as(uint32_t uid, uint32_t gid, uint32_t ngids, const uint32_t *gids);
void nfs_as_unknown(void); /* AUTH_NONE */

/* Arguments in the making. */
struct xdr_out *nfs_args(void);
void nfs_put_handle(const struct fs_handle *fh);
void nfs_put_name(const char *name);
/* sattr3 with a mode (-1: none) and a size (-1: none), nothing else. */
void nfs_put_sattr(long mode, int64_t size);
/* All of sattr3. */
struct set {
    int64_t mode, uid, gid, size; /* -1: not set */
    enum nfs_time_how atime_how, mtime_how;
    uint32_t atime_s, atime_ns, mtime_s, mtime_ns;
};
#define SET_NOTHING .mode = -1, .uid = -1, .gid = -1, .size = -1
void nfs_put_set(const struct set *set);

/* Sends the arguments; the results behind the accepted header. The test fails when the call is not
 * accepted. */
struct xdr_in nfs_call(uint32_t proc);
/* The same, and reads the status. */
uint32_t nfs_status_of(uint32_t proc, struct xdr_in *results);
/* Sends the arguments as they are; accept_stat (RFC 5531), or -1 when the connection was closed. */
int nfs_accept_stat(uint32_t proc, const void *args, size_t len);
/* The same in two halves, for several at once: replies come in any order. */
void nfs_send(uint32_t proc);
struct xdr_in nfs_receive(void);

struct attr {
    uint32_t type, mode, nlink, uid, gid;
    uint64_t size, used, fsid, fileid;
    uint32_t atime_s, mtime_s, mtime_ns, ctime_s, ctime_ns;
};
void nfs_get_attr(struct xdr_in *x, struct attr *a);
bool nfs_get_post_attr(struct xdr_in *x, struct attr *a);
/* wcc_data: whether it has the attributes before; those after are in *a. */
bool nfs_get_wcc(struct xdr_in *x, struct attr *a);
void nfs_get_handle(struct xdr_in *x, struct fs_handle *fh);

/* Whole calls; they return the status. */
uint32_t nfs_do_getattr(const struct fs_handle *fh, struct attr *a);
uint32_t nfs_do_lookup(const struct fs_handle *dir, const char *name, struct fs_handle *fh);
uint32_t nfs_do_create(const struct fs_handle *dir, const char *name, long mode,
                       struct fs_handle *fh);
uint32_t nfs_do_mkdir(const struct fs_handle *dir, const char *name, long mode,
                      struct fs_handle *fh);
uint32_t nfs_do_write(const struct fs_handle *fh, uint64_t offset, const void *data, uint32_t len,
                      uint32_t stable);
/* Bytes read are in *len. */
uint32_t nfs_do_read(const struct fs_handle *fh, uint64_t offset, uint32_t count, void *data,
                     uint32_t *len, bool *eof);
uint32_t nfs_do_remove(const struct fs_handle *dir, const char *name);
uint32_t nfs_do_rmdir(const struct fs_handle *dir, const char *name);
uint32_t nfs_do_rename(const struct fs_handle *from, const char *name, const struct fs_handle *to,
                       const char *new_name);
uint32_t nfs_do_setattr(const struct fs_handle *fh, long mode, int64_t size);
uint32_t nfs_do_set(const struct fs_handle *fh, const struct set *set);
uint32_t nfs_do_symlink(const struct fs_handle *dir, const char *name, const void *text,
                        uint32_t len, struct fs_handle *fh);
uint32_t nfs_do_mknod(const struct fs_handle *dir, const char *name, uint32_t type, uint32_t major,
                      uint32_t minor, struct fs_handle *fh);
uint32_t nfs_do_link(const struct fs_handle *file, const struct fs_handle *dir, const char *name);
uint32_t nfs_do_create_with(const struct fs_handle *dir, const char *name, enum nfs_createmode how,
                            const struct set *set, struct fs_handle *fh);
uint32_t nfs_do_exclusive(const struct fs_handle *dir, const char *name,
                          const uint8_t verf[static NFS_CREATEVERF], struct fs_handle *fh);
uint32_t nfs_do_mkdir_with(const struct fs_handle *dir, const char *name, const struct set *set,
                           struct fs_handle *fh);
bool nfs_same_handle(const struct fs_handle *a, const struct fs_handle *b);
uint32_t nfs_do_access(const struct fs_handle *fh, uint32_t wanted, uint32_t *given);

#endif
