/* docs/refused.md says what the tables refuse. SPILLWAY_WRITE_DOCS=1 writes it (make docs). */
#include "api/refused.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"

#define PAGE "docs/refused.md"

Test(refused, page_is_up_to_date)
{
    char *now = refused_document(), *page = NULL;
    size_t len = 0;

    if (getenv("SPILLWAY_WRITE_DOCS") != NULL) {
        cr_assert_eq(fs_write_atomic(PAGE, now, strlen(now), 0644), 0);
    }
    cr_assert_eq(fs_read_file(PAGE, 1 << 20, &page, &len), 0,
                 "no " PAGE ": run the tests in the "
                 "root of the tree");
    cr_assert_str_eq(page, now, PAGE " is out of date: run `make docs`");
    free(page);
    free(now);
}

/* A few that must never get lost: what design D14 promises to refuse by name. */
Test(refused, names_what_is_not_real)
{
    static const char *const lines[] = {
        "| `properties.protocolTypes` | `NFSv4.1` | NFSv4.1 |",
        "| `properties.protocolTypes` | `CIFS` | SMB |",
        "| `properties.kerberosEnabled` | any but `false` | Kerberos |",
        "| `properties.exportPolicy.rules[].cifs` | any but `false` | SMB |",
        "| `properties.encryptionType` | `Double` | double encryption |",
        "| `properties.encryption.keySource` | `Microsoft.KeyVault` | ",
    };
    char *page = refused_document();

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cr_expect_not_null(strstr(page, lines[i]), "%s", lines[i]);
    }
    free(page);
}
