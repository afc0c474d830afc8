/*
 * docs/refused.md: what Spillway does not do, written from the tables that refuse it.
 */
#ifndef API_REFUSED_H
#define API_REFUSED_H

/* The whole page, Markdown. Caller frees. */
char *refused_document(void);

#endif
