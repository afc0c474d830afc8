/* A sparse bitmap of inode numbers: a hash table of pages of 4,096 bits. See inoset.h. */
#include "agent/storage/inoset.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_BITS 4096
#define WORD_BITS 64

struct inoset_page {
    struct inoset_page *next;
    uint64_t number;
    uint64_t words[PAGE_BITS / WORD_BITS];
};

/* Fibonacci hashing; the high bits are the mixed ones. */
static size_t bucket_of(const struct inoset *set, uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (set->nbuckets - 1);
}

static struct inoset_page *find(const struct inoset *set, uint64_t number)
{
    struct inoset_page *page = NULL;

    if (set->nbuckets > 0)
        page = set->buckets[bucket_of(set, number)];
    while (page && page->number != number)
        page = page->next;
    return page;
}

static int grow(struct inoset *set)
{
    struct inoset bigger = {.nbuckets = set->nbuckets > 0 ? set->nbuckets * 2 : 64,
                            .npages = set->npages};

    bigger.buckets = calloc(bigger.nbuckets, sizeof(struct inoset_page *));
    if (!bigger.buckets)
        return -ENOMEM;
    for (size_t i = 0; i < set->nbuckets; i++) {
        struct inoset_page *page, *next;

        for (page = set->buckets[i]; page; page = next) {
            struct inoset_page **head = &bigger.buckets[bucket_of(&bigger, page->number)];

            next = page->next;
            page->next = *head;
            *head = page;
        }
    }
    free(set->buckets);
    *set = bigger;
    return 0;
}

static struct inoset_page *add_page(struct inoset *set, uint64_t number)
{
    struct inoset_page *page, **head;

    if (set->npages >= set->nbuckets && grow(set) != 0)
        return NULL;
    page = calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    head = &set->buckets[bucket_of(set, number)];
    page->number = number;
    page->next = *head;
    *head = page;
    set->npages++;
    return page;
}

int inoset_add(struct inoset *set, uint64_t ino)
{
    struct inoset_page *page = find(set, ino / PAGE_BITS);
    uint64_t *word, bit = UINT64_C(1) << ino % WORD_BITS;

    if (!page)
        page = add_page(set, ino / PAGE_BITS);
    if (!page)
        return -ENOMEM;
    word = &page->words[ino % PAGE_BITS / WORD_BITS];
    if (*word & bit)
        return 0;
    *word |= bit;
    return 1;
}

bool inoset_has(const struct inoset *set, uint64_t ino)
{
    const struct inoset_page *page = find(set, ino / PAGE_BITS);

    return page && (page->words[ino % PAGE_BITS / WORD_BITS] & UINT64_C(1) << ino % WORD_BITS);
}

void inoset_free(struct inoset *set)
{
    for (size_t i = 0; i < set->nbuckets; i++) {
        struct inoset_page *page, *next;

        for (page = set->buckets[i]; page; page = next) {
            next = page->next;
            free(page);
        }
    }
    free(set->buckets);
    *set = (struct inoset){0};
}
