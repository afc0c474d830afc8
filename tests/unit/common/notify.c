/* What systemd and the log's reader get to see. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "common/notify.h"

Test(notify, the_state_goes_to_the_socket_as_one_datagram)
{
    struct sockaddr_un address = {.sun_family =
                                      AF_UNIX}; /* an abstract name that the kernel chooses */
    socklen_t size = sizeof(sa_family_t);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    char name[128] = "@", got[64] = "";

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    size = sizeof(address);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    memcpy(name + 1, address.sun_path + 1, size - sizeof(sa_family_t) - 1);
    setenv("NOTIFY_SOCKET", name, 1);
    notify_systemd("READY=1");
    cr_assert_eq(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), 7);
    cr_assert_str_eq(got, "READY=1");
    close(fd);
}

Test(notify, without_systemd_nothing_happens)
{
    unsetenv("NOTIFY_SOCKET");
    notify_systemd("READY=1");
}

/* What log_* write while `run` runs. */
static char *captured(void (*run)(void))
{
    static char text[8192];
    int ends[2];
    ssize_t n;

    cr_assert_eq(pipe(ends), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    run();
    n = read(ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void say_hostile(void)
{
    log_warn("name is \"%s\"", "a\nb\r\033[2Jc");
}

Test(log, a_message_cannot_start_a_line_of_its_own)
{
    char *text;

    unsetenv("JOURNAL_STREAM");
    text = captured(say_hostile);
    cr_assert_str_eq(text + 25, "warn  name is \"a b  [2Jc\"\n");
}

Test(log, under_systemd_the_level_is_the_journals)
{
    setenv("JOURNAL_STREAM", "8:1", 1);
    cr_assert_str_eq(captured(say_hostile), "<4>name is \"a b  [2Jc\"\n");
}

static void say_long(void)
{
    char text[9000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_debug("dropped: %s", text);
    log_info("%s", text);
}

Test(log, a_long_message_is_cut_and_ends_its_line)
{
    char *text = captured(say_long);

    cr_assert_lt(strlen(text), 4097);
    cr_assert_gt(strlen(text), 4000);
    cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1);
    cr_assert_null(strstr(text, "dropped"));
}

Test(log, fatal_exits_1, .exit_code = 1)
{
    fatal("%s", "on purpose");
}
