/* The self-signed certificate, judged by GnuTLS's verifier as a client would. */
#include <criterion/criterion.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/tls.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/spillway-unit-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
}

static void remove_dir(void)
{
    unlink("cert.pem");
    unlink("key.pem");
    rmdir(dir);
}

TestSuite(tls, .init = make_dir, .fini = remove_dir);

static gnutls_x509_crt_t load(const char *path)
{
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    char *text;
    size_t len;

    cr_assert_eq(fs_read_file(path, 65536, &text, &len), 0);
    pem = (gnutls_datum_t){(unsigned char *)text, (unsigned)len};
    cr_assert_eq(gnutls_x509_crt_init(&cert), 0);
    cr_assert_eq(gnutls_x509_crt_import(cert, &pem, GNUTLS_X509_FMT_PEM), 0);
    free(text);
    return cert;
}

Test(tls, the_certificate_names_the_local_host_and_the_listen_host)
{
    gnutls_x509_crt_t cert;

    cr_assert_eq(tls_make_self_signed("10.1.2.3", "cert.pem", "key.pem"), 0);
    cert = load("cert.pem");
    cr_assert(gnutls_x509_crt_check_hostname(cert, "localhost"));
    cr_assert(gnutls_x509_crt_check_hostname(cert, "127.0.0.1"));
    cr_assert(gnutls_x509_crt_check_hostname(cert, "::1"));
    cr_assert(gnutls_x509_crt_check_hostname(cert, "10.1.2.3"));
    cr_assert_not(gnutls_x509_crt_check_hostname(cert, "10.1.2.4"));
    gnutls_x509_crt_deinit(cert);
    cr_assert_eq(tls_make_self_signed("nas.example.com", "cert.pem", "key.pem"), 0);
    cert = load("cert.pem");
    cr_assert(gnutls_x509_crt_check_hostname(cert, "nas.example.com"));
    cr_assert_not(gnutls_x509_crt_check_hostname(cert, "10.1.2.3"));
    gnutls_x509_crt_deinit(cert);
}

Test(tls, the_certificate_verifies_as_its_own_ca_for_a_server)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data =
                                         (unsigned char *)(uintptr_t)(GNUTLS_KP_TLS_WWW_SERVER)};
    gnutls_x509_trust_list_t trust;
    gnutls_x509_crt_t cert;
    unsigned status;

    cr_assert_eq(tls_make_self_signed(NULL, "cert.pem", "key.pem"), 0);
    cert = load("cert.pem");
    cr_assert_eq(gnutls_x509_trust_list_init(&trust, 0), 0);
    cr_assert_eq(
        gnutls_x509_trust_list_add_trust_file(trust, "cert.pem", NULL, GNUTLS_X509_FMT_PEM, 0, 0),
        1);
    cr_assert_eq(gnutls_x509_trust_list_verify_crt2(trust, &cert, 1, &purpose, 1, 0, &status, NULL),
                 0);
    cr_assert_eq(status, 0);
    cr_assert_eq(gnutls_x509_crt_get_ca_status(cert, NULL), 1); /* OpenSSL's clients ask for it */
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_trust_list_deinit(trust, 1);
}

Test(tls, it_lives_ten_years_and_the_key_is_the_owners_alone)
{
    gnutls_x509_crt_t cert;
    struct stat st;
    time_t end;

    umask(0);
    cr_assert_eq(tls_make_self_signed(NULL, "cert.pem", "key.pem"), 0);
    cert = load("cert.pem");
    end = gnutls_x509_crt_get_expiration_time(cert);
    cr_assert_lt(labs((long)(end - time(NULL)) - 3650 * 86400L), 60);
    cr_assert_eq(gnutls_x509_crt_get_pk_algorithm(cert, NULL), GNUTLS_PK_ECDSA);
    gnutls_x509_crt_deinit(cert);
    cr_assert_eq(stat("key.pem", &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
}

Test(tls, a_host_that_is_none_is_refused_and_nothing_written)
{
    cr_assert_eq(tls_make_self_signed("a b", "cert.pem", "key.pem"), -EINVAL);
    cr_assert_eq(tls_make_self_signed("", "cert.pem", "key.pem"), -EINVAL);
    cr_assert_eq(tls_make_self_signed("a\nb", "cert.pem", "key.pem"), -EINVAL);
    cr_assert_neq(access("key.pem", F_OK), 0);
    cr_assert_eq(tls_make_self_signed(NULL, "absent/cert.pem", "absent/key.pem"), -ENOENT);
}
