/*
 * A set of inode numbers: a sparse bitmap. Inode numbers of a file system lie close together, so a
 * million of them take little more than 128 KiB. Not locked; scan.c holds its lock.
 */
#ifndef AGENT_STORAGE_INOSET_H
#define AGENT_STORAGE_INOSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inoset_page;

struct inoset {
    struct inoset_page **buckets;
    size_t nbuckets; /* a power of two, or 0 when empty */
    size_t npages;
};

/* Adds a number: 1 when it is new, 0 when it was there, -ENOMEM. */
int inoset_add(struct inoset *set, uint64_t ino);
bool inoset_has(const struct inoset *set, uint64_t ino);
void inoset_free(struct inoset *set);

#endif
