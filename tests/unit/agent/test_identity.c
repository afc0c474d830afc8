/* The agent's identity: made once, kept, bound to its store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/control/identity.h"

static char dir[64];
static const struct uuid store_a = {{1}}, store_b = {{2}};

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/ctl-identity-XXXXXX");
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(identity, .init = make_dir, .fini = remove_dir);

Test(identity, the_credential_is_random_secret_and_kept)
{
    struct identity first, again;
    struct stat st;
    char path[128];

    cr_assert_eq(identity_open(dir, &store_a, &first), 0);
    cr_expect_eq(strlen(first.credential), 64);
    cr_expect_eq(strspn(first.credential, "0123456789abcdef"), 64);
    cr_expect_eq(first.agent_id, 0);
    cr_assert_eq(identity_enrolled(&first, 7), 0);
    cr_assert_eq(identity_open(dir, &store_a, &again), 0);
    cr_expect_str_eq(again.credential, first.credential);
    cr_expect_eq(again.agent_id, 7);
    snprintf(path, sizeof(path), "%s/identity.json", dir);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    identity_close(&first);
    identity_close(&again);
}

/* An unmounted disk shows an empty folder, which would become a new store: every volume empty. */
Test(identity, another_store_is_refused)
{
    struct identity i;

    cr_assert_eq(identity_open(dir, &store_a, &i), 0);
    identity_close(&i);
    cr_expect_eq(identity_open(dir, &store_b, &i), -EXDEV);
    identity_close(&i);
}

Test(identity, a_damaged_file_is_not_replaced_silently)
{
    struct identity i;
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/identity.json", dir);
    f = fopen(path, "we");
    cr_assert(f);
    fputs("{\"credential\":\"xyz\",\"agentId\":1}", f);
    fclose(f);
    cr_expect_eq(identity_open(dir, &store_a, &i), -EINVAL);
    identity_close(&i);
}
