/*
 * Lists in pages (anf-api.md D.6): {"value": […], "nextLink": URL}. The cursor is the key of the
 * last item, so that a list stays right while others write: what is there all the time comes once.
 */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "api/api.h"

#define PAGE_SIZE 200  /* without $top; some KiB an item */
#define PAGE_MAX  1000 /* of $top */

struct page {
    struct arm_call *call;
    size_t limit;
    char after[2048]; /* key of the last item of the page before, "" on the first */
    char *last;       /* key of the last item added */
    json_t *value;
    bool more;
};

/* Reads $top and $skipToken. False once the call was answered. */
bool page_begin(struct page *page, struct arm_call *call);
/* Adds an item (reference taken over) in the order of the keys; non-zero when the page is full. */
int page_add(struct page *page, const char *key, json_t *item);
/* Answers the call. */
void page_reply(struct page *page);
/* Frees what the page holds; the caller answers. */
void page_abandon(struct page *page);

#endif
