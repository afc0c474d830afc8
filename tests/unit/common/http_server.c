/*
 * The HTTP shell over real loopback sockets. The client is a plain socket, so that it can be as
 * impolite as a test needs; TLS goes through libcurl.
 *
 * The server's handler answers by the path: see `handle`.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/tls.h"

#define MAX_BODY 1000
#define WAIT_MS  10000

static struct http_server *server;
static struct http_server_config config;

/* A request for the thread that answers after a given number of turns. */
static _Atomic(struct http_request *) handed;
static atomic_int turns;

/* Requests that wait for the test to answer them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct http_request *waiting[256];
static size_t waiting_count;

static void respond_text(struct http_request *r, unsigned status, const char *text)
{
    http_respond(r, status, xstrdup(text), strlen(text));
}

static void *respond_late(void *r)
{
    respond_text(r, 200, "late");
    return NULL;
}

static void respond_description(struct http_request *r)
{
    struct buf b = {0};
    size_t len;
    const char *body = http_body(r, &len);

    buf_printf(&b, "%s %s %s [%zu:%.20s] %s", http_method(r), http_path(r),
               http_query(r) ? http_query(r) : "-", len, body,
               http_header(r, "X-TEST") ? http_header(r, "X-TEST") : "-");
    http_set_header(r, "X-Answer", "yes");
    len = b.len;
    http_respond(r, 200, buf_take(&b), len);
}

static void handle(struct http_request *r, void *arg)
{
    pthread_t thread;

    cr_assert_eq(arg, &config);
    if (strcmp(http_path(r), "/wait") == 0) { /* answered by the test */
        pthread_mutex_lock(&lock);
        waiting[waiting_count++] = r;
        pthread_cond_signal(&arrived);
        pthread_mutex_unlock(&lock);
    } else if (strcmp(http_path(r), "/thread") ==
               0) { /* another thread, which races with this return */
        cr_assert_eq(pthread_create(&thread, NULL, respond_late, r), 0);
        pthread_detach(thread);
    } else if (strcmp(http_path(r), "/before") ==
               0) { /* another thread, surely before this returns */
        cr_assert_eq(pthread_create(&thread, NULL, respond_late, r), 0);
        pthread_join(thread, NULL);
    } else if (strcmp(http_path(r), "/meet") == 0) {
        atomic_store(&handed, r);
    } else if (strcmp(http_path(r), "/inject") == 0) {
        http_set_header(r, "X-Bad", "a\r\nX-Injected: 1");
        respond_text(r, 200, "ok");
    } else if (strcmp(http_path(r), "/empty") == 0) {
        http_respond(r, 204, NULL, 0);
    } else {
        respond_description(r);
    }
}

static void too_large(struct http_request *r, void *arg)
{
    cr_assert_eq(arg, &config);
    respond_text(r, 413, "too large");
}

static void set_config(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    config = (struct http_server_config){
        .listen = "127.0.0.1:0",
        .threads = 2,
        .max_body = MAX_BODY,
        .max_header = 8192,
        .max_connections = 200,
        .idle_timeout_s = 10,
        .handle = handle,
        .too_large = too_large,
        .arg = &config,
    };
}

static void start(void)
{
    set_config();
    cr_assert_eq(http_server_start(&config, &server), 0);
}

static void stop(void)
{
    http_server_stop(server);
}

TestSuite(http, .init = start, .fini = stop, .timeout = 60);
TestSuite(http_config, .init = set_config, .timeout = 60);

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void put(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads one byte; false at the end, at an error, or when nothing comes. */
static bool get_byte(int fd, char *c)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, WAIT_MS) == 1 && recv(fd, c, 1, 0) == 1;
}

/* Reads one answer with its headers and the body that Content-Length announces. Empty when the
 * connection closed. */
static char *get_answer(int fd)
{
    static _Thread_local char text[32768];
    size_t len = 0, body = 0;
    char *length;

    text[0] = '\0';
    while (!strstr(text, "\r\n\r\n") && len < sizeof(text) - 1) {
        if (!get_byte(fd, &text[len]))
            return text;
        text[++len] = '\0';
    }
    length = strstr(text, "Content-Length: ");
    if (length)
        body = strtoul(length + 16, NULL, 10);
    for (; body > 0 && len < sizeof(text) - 1 && get_byte(fd, &text[len]); body--)
        text[++len] = '\0';
    return text;
}

static bool has_status(const char *answer, const char *status)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 && strncmp(answer + 9, status, 3) == 0;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");

    return end ? end + 4 : "";
}

static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;

    return poll(&p, 1, WAIT_MS) == 1 && recv(fd, &c, 1, 0) <= 0;
}

static void expect_works(int fd)
{
    const char *answer;

    put(fd, "GET /works HTTP/1.1\r\nHost: h\r\n\r\n");
    answer = get_answer(fd);
    cr_assert(has_status(answer, "200"), "%s", answer);
    cr_assert_str_eq(body_of(answer), "GET /works - [0:] -");
}

static void await_waiting(size_t count)
{
    pthread_mutex_lock(&lock);
    while (waiting_count < count)
        pthread_cond_wait(&arrived, &lock);
    pthread_mutex_unlock(&lock);
}

Test(http, path_and_query_come_raw)
{
    const char *answer;
    int fd = dial();

    put(fd, "GET /a%2Fb%20c+d//../?x=%41+b&y?z HTTP/1.1\r\nHost: h\r\nx-test: v\r\n\r\n");
    answer = get_answer(fd);
    cr_assert(has_status(answer, "200"), "%s", answer);
    cr_assert_not_null(strstr(answer, "\r\nX-Answer: yes\r\n"));
    cr_assert_str_eq(body_of(answer), "GET /a%2Fb%20c+d//../ x=%41+b&y?z [0:] v");
    put(fd, "GET http://host:1/p?q HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "GET /p q [0:] -");
    put(fd, "GET http://host HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "GET / - [0:] -");
    put(fd, "GET /p/http://x? HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "GET /p/http://x  [0:] -");
    close(fd);
}

Test(http, bodies_arrive_whole_in_both_framings)
{
    int fd = dial();

    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel");
    put(fd, "lo");
    cr_assert_str_eq(body_of(get_answer(fd)), "PUT /b - [5:hello] -");
    put(fd, "PATCH /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
            "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "PATCH /b - [5:abcde] -");
    put(fd, "DELETE /b HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "DELETE /b - [0:] -");
    close(fd);
}

Test(http, head_gets_no_body_and_204_neither)
{
    int fd = dial();
    char *answer;

    put(fd, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\nGET /works HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 2;
         i++) { /* were there a body, the second status line would not come next */
        char c, line[4096] = "";
        size_t len = 0;

        while (!strstr(line, "\r\n\r\n") && len < sizeof(line) - 1 && get_byte(fd, &c))
            line[len++] = c;
        cr_assert(has_status(line, "200"), "%s", line);
    }
    close(fd);
    fd = dial();
    put(fd, "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n");
    answer = get_answer(fd);
    cr_assert(has_status(answer, "204"));
    expect_works(fd);
    close(fd);
}

Test(http, pipelined_requests_are_answered_in_order)
{
    int fd = dial();

    put(fd, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /thread HTTP/1.1\r\nHost: h\r\n\r\n"
            "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert_str_eq(body_of(get_answer(fd)), "GET /1 - [0:] -");
    cr_assert_str_eq(body_of(get_answer(fd)), "late");
    cr_assert_str_eq(body_of(get_answer(fd)), "GET /3 - [0:] -");
    close(fd);
}

Test(http, an_answer_from_another_thread_may_come_before_the_handler_returns)
{
    int fd = dial();

    for (int i = 0; i < 200; i++) {
        put(fd, "GET /before HTTP/1.1\r\nHost: h\r\n\r\n");
        cr_assert_str_eq(body_of(get_answer(fd)), "late");
        put(fd, "GET /thread HTTP/1.1\r\nHost: h\r\n\r\n");
        cr_assert_str_eq(body_of(get_answer(fd)), "late");
    }
    close(fd);
}

static void *respond_at_once(void *stopped)
{
    while (!atomic_load((atomic_bool *)stopped)) {
        struct http_request *r = atomic_exchange(&handed, NULL);

        for (volatile int i = 0; r && i < atomic_load(&turns); i++)
            ;
        if (r)
            respond_text(r, 200, "met");
    }
    return NULL;
}

/* The answer's moment sweeps over the handler's return and the suspending after it. */
Test(http, an_answer_that_meets_the_handlers_return_is_not_lost)
{
    atomic_bool stopped = false;
    pthread_t thread;
    int fd = dial();

    cr_assert_eq(pthread_create(&thread, NULL, respond_at_once, &stopped), 0);
    for (int i = 0; i < 10000; i++) {
        atomic_store(&turns, i % 400);
        put(fd, "GET /meet HTTP/1.1\r\nHost: h\r\n\r\n");
        cr_assert_str_eq(body_of(get_answer(fd)), "met", "request %d", i);
    }
    atomic_store(&stopped, true);
    pthread_join(thread, NULL);
    close(fd);
}

Test(http, waiting_requests_hold_no_thread)
{
    enum { N = 50 }; /* the server has two threads */
    int fds[N], other = dial();

    for (int i = 0; i < N; i++) {
        fds[i] = dial();
        put(fds[i], "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    await_waiting(N);
    expect_works(other);
    for (int i = 0; i < N; i++)
        respond_text(waiting[i], 200, "waited");
    for (int i = 0; i < N; i++) {
        cr_assert_str_eq(body_of(get_answer(fds[i])), "waited");
        expect_works(fds[i]);
        close(fds[i]);
    }
    close(other);
}

Test(http, a_client_that_left_while_its_request_waited_harms_nobody)
{
    struct linger abort_it = {.l_onoff = 1, .l_linger = 0};
    int polite = dial(), rude = dial(), other;

    put(polite, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    put(rude, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    await_waiting(2);
    close(polite);
    cr_assert_eq(setsockopt(rude, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it)), 0);
    close(rude);
    other = dial();
    expect_works(other);
    respond_text(waiting[0], 200, "for nobody");
    respond_text(waiting[1], 200, "for nobody");
    expect_works(other);
    close(other);
}

Test(http, a_client_that_left_in_the_middle_of_a_request_harms_nobody)
{
    int fd = dial();

    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n\r\nhel");
    close(fd);
    fd = dial();
    put(fd, "PUT /b HT");
    close(fd);
    fd = dial();
    expect_works(fd);
    close(fd);
}

static void put_body(int fd, size_t len)
{
    char *body = xcalloc(1, len + 1);

    memset(body, 'x', len);
    put(fd, body);
    free(body);
}

Test(http, a_body_at_the_limit_passes_one_above_is_413_and_the_connection_goes_on)
{
    const char *answer;
    int fd = dial();

    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    put_body(fd, 1000);
    cr_assert_str_eq(body_of(get_answer(fd)), "PUT /b - [1000:xxxxxxxxxxxxxxxxxxxx] -");
    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    put_body(fd, 1001);
    answer = get_answer(fd);
    cr_assert(has_status(answer, "413"), "%s", answer);
    cr_assert_str_eq(body_of(answer), "too large");
    expect_works(fd);
    /* The same where the length is not announced, and with more than fits in the sockets' buffers.
     */
    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nC35000\r\n");
    put_body(fd, 0xC35000);
    put(fd, "\r\n0\r\n\r\n");
    cr_assert(has_status(get_answer(fd), "413"));
    expect_works(fd);
    close(fd);
}

Test(http, a_client_that_asks_first_is_told_413_before_it_sends)
{
    int fd = dial();

    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n");
    cr_assert(has_status(get_answer(fd), "413"));
    cr_assert(is_closed(fd));
    close(fd);
    fd = dial();
    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    cr_assert(has_status(get_answer(fd), "100"));
    put(fd, "hello");
    cr_assert_str_eq(body_of(get_answer(fd)), "PUT /b - [5:hello] -");
    close(fd);
}

Test(http, an_absurd_length_is_refused_at_once)
{
    static const char *const lengths[] = {"99999999999", "18446744073709551615"};

    for (size_t i = 0; i < 2; i++) {
        char *text =
            xasprintf("PATCH /b HTTP/1.1\r\nHost: h\r\nContent-Length: %s\r\n\r\n", lengths[i]);
        const char *answer;
        int fd = dial();

        put(fd, text);
        free(text);
        answer = get_answer(fd);
        cr_assert(has_status(answer, "413"), "%s: %s", lengths[i], answer);
        cr_assert(is_closed(fd));
        close(fd);
    }
}

Test(http, an_endless_body_ends_with_the_connection)
{
    int fd = dial();
    char *piece = xcalloc(1, 65536);
    bool sent = true;

    memset(piece, 'x', 65535);
    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; sent && i < 1000; i++) {
        sent = send(fd, "FFFF\r\n", 6, MSG_NOSIGNAL) == 6 &&
               send(fd, piece, 65535, MSG_NOSIGNAL) == 65535 &&
               send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2;
    }
    cr_assert_not(sent, "64 MB were taken");
    free(piece);
    close(fd);
}

Test(http, headers_over_the_limit_are_refused_within_it_they_pass)
{
    char *big = xcalloc(1, 70000);
    const char *answer;
    int fd = dial();

    memset(big, 'a', 8000);
    put(fd, "GET /b HTTP/1.1\r\nHost: h\r\nX-Big: ");
    put(fd, big);
    put(fd, "\r\n\r\n");
    cr_assert(has_status(get_answer(fd), "200"));
    put(fd, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-Big: ");
    put(fd, big);
    put(fd, big + 7800); /* 8,200 bytes of it */
    put(fd, "\r\n\r\nhello");
    answer = get_answer(fd);
    cr_assert(has_status(answer, "431"), "%s", answer);
    cr_assert(is_closed(fd));
    close(fd);
    memset(big, 'a', 69999); /* more than the connection's whole memory */
    fd = dial();
    put(fd, "GET /b HTTP/1.1\r\nHost: h\r\nX-Big: ");
    send(fd, big, 69999, MSG_NOSIGNAL);
    answer = get_answer(fd);
    cr_assert(has_status(answer, "431") || has_status(answer, "413"), "%s", answer);
    cr_assert(is_closed(fd));
    close(fd);
    free(big);
}

Test(http_config, what_is_not_http_ends_its_connection_alone)
{
    static const char *const bad[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n"};

    config.idle_timeout_s = 1; /* empty lines before a request are skipped, and end so */
    cr_assert_eq(http_server_start(&config, &server), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int fd = dial(), other;
        const char *answer;

        put(fd, bad[i]);
        shutdown(fd, SHUT_WR);
        answer = get_answer(fd);
        cr_expect(*answer == '\0' || has_status(answer, "400"), "%zu: %s", i, answer);
        close(fd);
        other = dial();
        expect_works(other);
        close(other);
    }
    http_server_stop(server);
}

Test(http, a_header_cannot_start_another)
{
    int fd = dial();
    const char *answer;

    put(fd, "GET /inject HTTP/1.1\r\nHost: h\r\n\r\n");
    answer = get_answer(fd);
    cr_assert(has_status(answer, "200"));
    cr_assert_null(strstr(answer, "X-Injected"));
    close(fd);
}

static void *many_requests(void *arg)
{
    int fd = dial();

    (void)arg;
    for (int i = 0; i < 50; i++) {
        put(fd, i % 2 ? "GET /thread HTTP/1.1\r\nHost: h\r\n\r\n"
                      : "GET /before HTTP/1.1\r\nHost: h\r\n\r\n");
        cr_assert_str_eq(body_of(get_answer(fd)), "late");
    }
    close(fd);
    return NULL;
}

Test(http, many_clients_at_once_all_get_their_answers)
{
    pthread_t threads[32];

    for (int i = 0; i < 32; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, many_requests, NULL), 0);
    for (int i = 0; i < 32; i++)
        pthread_join(threads[i], NULL);
}

static void *stop_server(void *done)
{
    http_server_stop(server);
    *(bool *)done = true;
    return NULL;
}

Test(http_config, stop_waits_for_the_answers_of_waiting_requests)
{
    bool done = false;
    pthread_t thread;
    int fds[8], late;
    const char *answer;
    uint16_t port;

    cr_assert_eq(http_server_start(&config, &server), 0);
    port = http_server_port(server);
    late = dial();
    expect_works(late);
    for (int i = 0; i < 8; i++) {
        fds[i] = dial();
        put(fds[i], "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    await_waiting(8);
    cr_assert_eq(pthread_create(&thread, NULL, stop_server, &done), 0);
    /* Once the stop has begun, open connections end: with 503, or after what was being answered. */
    do {
        put(late, "GET /works HTTP/1.1\r\nHost: h\r\n\r\n");
        answer = get_answer(late);
    } while (!strstr(answer, "Connection: close") && has_status(answer, "200"));
    cr_assert(strstr(answer, "Connection: close"), "%s", answer);
    cr_assert(is_closed(late));
    for (int i = 0; i < 8; i++)
        respond_text(waiting[i], 200, "stopped");
    for (int i = 0; i < 8; i++) {
        cr_assert_str_eq(body_of(get_answer(fds[i])), "stopped");
        cr_assert(is_closed(fds[i]));
        close(fds[i]);
    }
    pthread_join(thread, NULL);
    cr_assert(done);
    close(late);
    /* The port is free again. */
    char *listen_on = xasprintf("127.0.0.1:%u", (unsigned)port);
    config.listen = listen_on;
    cr_assert_eq(http_server_start(&config, &server), 0);
    http_server_stop(server);
    free(listen_on);
}

Test(http_config, stop_of_nothing_and_of_an_idle_server)
{
    uint64_t begun = clock_mono_ns();

    http_server_stop(NULL);
    cr_assert_eq(http_server_start(&config, &server), 0);
    int idle = dial();
    expect_works(idle);
    http_server_stop(server);
    cr_assert(is_closed(idle));
    close(idle);
    cr_assert_lt(clock_mono_ns() - begun, 3 * NS_PER_S);
}

Test(http_config, one_thread_serves_as_well)
{
    config.threads = 1;
    start();
    config.threads = 1;
    int fd = dial(), other = dial();
    put(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    await_waiting(1);
    expect_works(other);
    respond_text(waiting[0], 200, "waited");
    cr_assert_str_eq(body_of(get_answer(fd)), "waited");
    close(fd);
    close(other);
    http_server_stop(server);
}

Test(http_config, idle_connections_close_but_waiting_requests_do_not)
{
    uint64_t begun = clock_mono_ns();
    int idle, half, waits;

    config.idle_timeout_s = 1;
    cr_assert_eq(http_server_start(&config, &server), 0);
    idle = dial();
    half = dial();
    put(half, "GET /half HT");
    waits = dial();
    put(waits, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    await_waiting(1);
    cr_assert(is_closed(idle));
    cr_assert_geq(clock_mono_ns() - begun, NS_PER_S / 2);
    get_answer(half); /* it may say 408 */
    cr_assert(is_closed(half));
    respond_text(waiting[0], 200, "waited longer");
    cr_assert_str_eq(body_of(get_answer(waits)), "waited longer");
    close(idle);
    close(half);
    close(waits);
    http_server_stop(server);
}

Test(http_config, connections_over_the_limit_do_not_get_in)
{
    enum { LIMIT = 4 };
    int fds[LIMIT + 1];
    struct pollfd p = {.events = POLLIN};

    config.max_connections = LIMIT;
    config.threads = 1;
    cr_assert_eq(http_server_start(&config, &server), 0);
    for (int i = 0; i < LIMIT; i++) {
        fds[i] = dial();
        expect_works(fds[i]);
    }
    fds[LIMIT] = dial(); /* the kernel's queue takes it */
    put(fds[LIMIT], "GET /works HTTP/1.1\r\nHost: h\r\n\r\n");
    p.fd = fds[LIMIT];
    cr_assert(poll(&p, 1, 200) == 0 || is_closed(fds[LIMIT]));
    expect_works(fds[0]);
    for (int i = 0; i <= LIMIT; i++)
        close(fds[i]);
    http_server_stop(server);
}

Test(http_config, a_limit_per_address_holds)
{
    int first, second, third;

    config.max_connections_per_ip = 2;
    cr_assert_eq(http_server_start(&config, &server), 0);
    first = dial();
    expect_works(first);
    second = dial();
    expect_works(second);
    third = dial();
    cr_assert(is_closed(third));
    close(first);
    close(second);
    close(third);
    http_server_stop(server);
}

Test(http_config, what_cannot_start_says_why)
{
    struct http_server *second;
    char *taken;

    cr_assert_eq(http_server_start(&config, &server), 0);
    taken = xasprintf("127.0.0.1:%u", (unsigned)http_server_port(server));
    config.listen = taken;
    cr_assert_eq(http_server_start(&config, &second), -EADDRINUSE);
    config.listen = "nonsense";
    cr_assert_eq(http_server_start(&config, &second), -EINVAL);
    config.listen = "192.0.2.1:0"; /* TEST-NET-1: never ours */
    cr_assert_eq(http_server_start(&config, &second), -EADDRNOTAVAIL);
    config.listen = "127.0.0.1:0";
    config.tls_cert = config.tls_key = "no PEM";
    cr_assert_eq(http_server_start(&config, &second), -EINVAL);
    http_server_stop(server);
    free(taken);
}

static size_t collect(char *data, size_t size, size_t count, void *b)
{
    buf_add(b, data, size * count);
    return size * count;
}

/* The answer's body; the caller frees it. `path` is a string. */
static void *fetch_over_tls(void *path)
{
    char *url =
        xasprintf("https://127.0.0.1:%u%s", (unsigned)http_server_port(server), (const char *)path);
    struct buf b = {0};
    CURL *c = curl_easy_init();
    CURLcode rc;

    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_CAINFO, "cert.pem");
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &b);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    rc = curl_easy_perform(c);
    cr_assert_eq(rc, CURLE_OK, "%s", curl_easy_strerror(rc));
    curl_easy_cleanup(c);
    free(url);
    return buf_take(&b);
}

Test(http_config, tls_serves_waiting_requests_too)
{
    char dir[] = "/tmp/spillway-unit-XXXXXX", plain[] = "/a?b", waits[] = "/wait",
         late[] = "/thread";
    char *cert, *key, *answer;
    pthread_t thread;
    void *result;

    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
    cr_assert_eq(tls_make_self_signed(NULL, "cert.pem", "key.pem"), 0);
    cr_assert_eq(fs_read_file("cert.pem", 65536, &cert, NULL), 0);
    cr_assert_eq(fs_read_file("key.pem", 65536, &key, NULL), 0);
    config.tls_cert = cert;
    config.tls_key = key;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    cr_assert_eq(http_server_start(&config, &server), 0);
    answer = fetch_over_tls(plain);
    cr_assert_str_eq(answer, "GET /a b [0:] -");
    free(answer);
    cr_assert_eq(pthread_create(&thread, NULL, fetch_over_tls, waits), 0);
    await_waiting(1);
    cr_assert(http_is_tls(waiting[0]));
    cr_assert_eq(((const struct sockaddr_in *)http_peer(waiting[0]))->sin_addr.s_addr,
                 htonl(INADDR_LOOPBACK));
    respond_text(waiting[0], 200, "waited");
    pthread_join(thread, &result);
    cr_assert_str_eq(result, "waited");
    free(result);
    /* Plain HTTP to the TLS port ends its connection alone. */
    int fd = dial();
    put(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(fd, SHUT_WR);
    get_answer(fd);
    close(fd);
    answer = fetch_over_tls(late);
    cr_assert_str_eq(answer, "late");
    free(answer);
    http_server_stop(server);
    free(cert);
    free(key);
    unlink("cert.pem");
    unlink("key.pem");
    rmdir(dir);
}
