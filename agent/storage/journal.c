/* The usage journal's file: see journal.h. */
#include "agent/storage/journal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"

#define SLOTS       2
#define VERSION     1
#define FLAG_CLEAN  1u
#define FLAG_SYNCED 2u
#define KNOWN_FLAGS (FLAG_CLEAN | FLAG_SYNCED)
#define SECTOR      512

static const char magic[8] = {'S', 'P', 'W', 'U', 'S', 'A', 'G', 'E'};

/* As it stands in the file, integers little-endian. */
struct slot {
    char magic[8];
    uint32_t version, flags;
    uint8_t fs_id[16];
    uint8_t boot_id[16];
    uint64_t sequence;
    uint64_t used[USAGE_KINDS];
    uint64_t bound[USAGE_KINDS];
    uint64_t root_base;
    uint32_t root_mode;
    uint32_t zero;
    uint8_t hash[32]; /* of the whole slot with zeros here */
    uint8_t padding[JOURNAL_SLOT_BYTES - 136];
};
_Static_assert(sizeof(struct slot) == JOURNAL_SLOT_BYTES, "a slot is a page, without holes");
_Static_assert(offsetof(struct slot, padding) <= SECTOR, "records differ within one sector only");

static struct uuid boot_id;
static pthread_once_t boot_once = PTHREAD_ONCE_INIT;

/* This start of the machine. Unreadable: random, so that nothing of before is taken for of now. */
static void read_boot_id(void)
{
    char *text = NULL;

    if (fs_read_file("/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0)
        text[strcspn(text, "\n")] = '\0';
    if (!text || !uuid_parse(text, &boot_id))
        boot_id = uuid_random();
    free(text);
}

static void hash_slot(const struct slot *slot, uint8_t out[32])
{
    struct slot copy = *slot;

    memset(copy.hash, 0, sizeof(copy.hash));
    crypto_generichash(out, 32, (const unsigned char *)&copy, sizeof(copy), NULL, 0);
}

static void encode(struct slot *slot, const struct journal *j, const struct journal_record *r,
                   bool sync, uint64_t sequence)
{
    pthread_once(&boot_once, read_boot_id);
    memset(slot, 0, sizeof(*slot));
    memcpy(slot->magic, magic, sizeof(magic));
    slot->version = htole32(VERSION);
    slot->flags = htole32((r->clean ? FLAG_CLEAN : 0) | (sync ? FLAG_SYNCED : 0));
    memcpy(slot->fs_id, j->fs_id.b, sizeof(slot->fs_id));
    memcpy(slot->boot_id, boot_id.b, sizeof(slot->boot_id));
    slot->sequence = htole64(sequence);
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        slot->used[kind] = htole64(r->used[kind]);
        slot->bound[kind] = htole64(r->bound[kind]);
    }
    slot->root_base = htole64(r->root_base);
    slot->root_mode = htole32(r->root_mode);
    hash_slot(slot, slot->hash);
}

static bool is_valid(const struct slot *slot, const struct uuid *fs_id)
{
    uint8_t hash[32];

    hash_slot(slot, hash);
    return memcmp(hash, slot->hash, sizeof(hash)) == 0 &&
           memcmp(slot->magic, magic, sizeof(magic)) == 0 && le32toh(slot->version) == VERSION &&
           (le32toh(slot->flags) & ~KNOWN_FLAGS) == 0 &&
           memcmp(slot->fs_id, fs_id->b, sizeof(slot->fs_id)) == 0;
}

/* A clean record that was not fsynced may stand on the disk without the changes it speaks of, or
 * the changes without the record that opened it. Within one start of the machine the page cache
 * holds both. */
static bool is_clean(const struct slot *slot)
{
    uint32_t flags = le32toh(slot->flags);

    pthread_once(&boot_once, read_boot_id);
    return (flags & FLAG_CLEAN) &&
           ((flags & FLAG_SYNCED) || memcmp(slot->boot_id, boot_id.b, sizeof(slot->boot_id)) == 0);
}

static void decode(const struct slot *slot, struct journal_record *r)
{
    r->clean = is_clean(slot);
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        r->used[kind] = le64toh(slot->used[kind]);
        r->bound[kind] = le64toh(slot->bound[kind]);
    }
    r->root_base = le64toh(slot->root_base);
    r->root_mode = le32toh(slot->root_mode);
}

static int pwrite_all(int fd, const void *data, size_t len, off_t at)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static off_t slot_offset(uint64_t sequence)
{
    return (off_t)(sequence % SLOTS * JOURNAL_SLOT_BYTES);
}

int journal_write(struct journal *j, const struct journal_record *record, bool sync)
{
    unsigned copies = j->repair ? SLOTS : 1;
    struct slot slot;

    for (unsigned i = 0; i < copies; i++) {
        int rc;

        encode(&slot, j, record, sync, j->sequence + 1);
        rc = pwrite_all(j->fd, &slot, sizeof(slot), slot_offset(j->sequence + 1));
        if (rc == 0 && sync && fdatasync(j->fd) != 0)
            rc = -errno;
        if (rc != 0) {
            /* Half of it may be there: the other slot must not be overwritten before this one is
             * whole, so the next write goes here again. */
            j->clean_synced = true;
            return rc;
        }
        j->sequence++;
    }
    j->repair = false;
    j->clean_synced = record->clean && sync;
    return 0;
}

int journal_create(int dir, const char *name, const struct uuid *fs_id, uint64_t root_base,
                   uint32_t root_mode)
{
    struct journal j = {.repair = true, .fs_id = *fs_id};
    struct journal_record record = {.clean = true, .root_base = root_base, .root_mode = root_mode};
    int rc;

    j.fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j.fd < 0)
        return -errno;
    rc = journal_write(&j, &record, true);
    close(j.fd);
    return rc;
}

static void read_slots(struct journal *j, struct journal_record *record, enum journal_trust *trust)
{
    const struct slot *newest = NULL;
    struct slot slots[SLOTS];
    struct stat st;

    memset(record, 0, sizeof(*record));
    memset(slots, 0, sizeof(slots));
    j->repair = fstat(j->fd, &st) != 0 || st.st_size != (off_t)sizeof(slots) ||
                pread(j->fd, slots, sizeof(slots), 0) != (ssize_t)sizeof(slots);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t sequence = le64toh(slots[i].sequence);

        if (!is_valid(&slots[i], &j->fs_id) || sequence % SLOTS != i)
            j->repair = true;
        else if (!newest || sequence > le64toh(newest->sequence))
            newest = &slots[i];
    }
    if (newest) {
        j->sequence = le64toh(newest->sequence);
        decode(newest, record);
        j->clean_synced = record->clean && (le32toh(newest->flags) & FLAG_SYNCED);
    }
    *trust = j->repair ? JOURNAL_DAMAGED : record->clean ? JOURNAL_CLEAN : JOURNAL_OPEN;
}

int journal_open(struct journal *j, int dir, const char *name, const struct uuid *fs_id,
                 struct journal_record *record, enum journal_trust *trust)
{
    *j = (struct journal){.fs_id = *fs_id};
    j->fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->fd < 0)
        return -errno;
    /* Whoever shares the store: a volume's journal has one writer. */
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0) {
        int rc = -errno;

        close(j->fd);
        return rc;
    }
    read_slots(j, record, trust);
    return 0;
}

void journal_close(struct journal *j)
{
    close(j->fd);
}
