/*
 * Load on the HTTP shell from a plain main, for ThreadSanitizer, under which Criterion cannot
 * start. Clients keep sending and leaving, two threads answer what waits, and the server stops
 * while the last requests wait.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/log.h"
#include "common/mem.h"

#define CLIENTS     16
#define CONNECTIONS 5
#define REQUESTS    100
#define WAITING_MAX 1024

static struct http_server *server;
static atomic_ulong answers;

/* Requests that wait for one of the answering threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct http_request *waiting[WAITING_MAX];
static size_t waiting_count;
static bool done;

static void *answer(void *arg)
{
    (void)arg;
    for (;;) {
        struct http_request *r;

        pthread_mutex_lock(&lock);
        while (waiting_count == 0 && !done)
            pthread_cond_wait(&changed, &lock);
        r = waiting_count > 0 ? waiting[--waiting_count] : NULL;
        pthread_mutex_unlock(&lock);
        if (!r)
            return NULL;
        http_set_header(r, "X-Method", http_method(r));
        http_respond(r, 200, xstrdup(http_path(r)), strlen(http_path(r)));
    }
}

static void handle(struct http_request *r, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    if (waiting_count == WAITING_MAX)
        fatal("more requests wait than there are connections");
    waiting[waiting_count++] = r;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void too_large(struct http_request *r, void *arg)
{
    (void)arg;
    http_respond(r, 413, NULL, 0);
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *call(void *arg)
{
    static const char request[] = "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    char text[512];

    (void)arg;
    for (int c = 0; c < CONNECTIONS; c++) {
        int fd = dial();

        for (int i = 0; fd >= 0 && i < REQUESTS; i++) {
            if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 ||
                recv(fd, text, sizeof(text), 0) <= 0)
                break;
            atomic_fetch_add(&answers, 1);
        }
        if (fd >= 0) { /* leaves while its last request waits */
            send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
            close(fd);
        }
    }
    return NULL;
}

int main(void)
{
    const struct http_server_config config = {
        .listen = "127.0.0.1:0",
        .threads = 2,
        .max_body = 1000,
        .max_header = 8192,
        .max_connections = 200,
        .idle_timeout_s = 10,
        .handle = handle,
        .too_large = too_large,
    };
    pthread_t clients[CLIENTS], answering[2];

    if (http_server_start(&config, &server) != 0)
        return 1;
    for (size_t i = 0; i < 2; i++)
        pthread_create(&answering[i], NULL, answer, NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, call, NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    http_server_stop(server);
    pthread_mutex_lock(&lock);
    done = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < 2; i++)
        pthread_join(answering[i], NULL);
    printf("%lu answers\n", atomic_load(&answers));
    return atomic_load(&answers) == (unsigned long)CLIENTS * CONNECTIONS * REQUESTS ? 0 : 1;
}
