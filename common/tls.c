/* The self-signed certificate, by GnuTLS. Runs once at start; no state. */
#include "common/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"

#define LIFE_S (10LL * 365 * 86400)
/* Clocks of clients may be a little behind. */
#define BACKDATE_S   3600
#define COMMON_NAME  "Spillway"
#define NAME_MAX_DNS 253

struct pair {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t key_pem, cert_pem;
};

static bool is_dns_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

    return *name != '\0' && strlen(name) <= NAME_MAX_DNS && name[strspn(name, allowed)] == '\0';
}

static int add_name(gnutls_x509_crt_t cert, const char *name)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, name, &v4) == 1)
        return gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, &v4, sizeof(v4),
                                                    GNUTLS_FSAN_APPEND);
    if (inet_pton(AF_INET6, name, &v6) == 1)
        return gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, &v6, sizeof(v6),
                                                    GNUTLS_FSAN_APPEND);
    return gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, name,
                                                (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
}

static int add_names(gnutls_x509_crt_t cert, const char *host)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    char own[NAME_MAX_DNS + 1] = "";
    int rc = 0;

    for (size_t i = 0; rc >= 0 && i < sizeof(always) / sizeof(always[0]); i++) {
        rc = add_name(cert, always[i]);
        if (host && strcmp(host, always[i]) == 0)
            host = NULL;
    }
    if (host && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0))
        host = gethostname(own, sizeof(own) - 1) == 0 && is_dns_name(own) ? own : NULL;
    if (rc >= 0 && host)
        rc = add_name(cert, host);
    return rc;
}

/* Stops at the first error of GnuTLS, which is negative. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc = (call);                                                                       \
        if (try_rc < 0)                                                                            \
            return try_rc;                                                                         \
    } while (0)

/* A certificate that is its own CA and a server's at once, with all that strict verifiers want to
 * see. */
static int fill(const struct pair *p, const char *host)
{
    gnutls_x509_crt_t cert = p->cert;
    unsigned char serial[16], id[32];
    size_t id_size = sizeof(id);
    time_t now = time(NULL);

    TRY(gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial)));
    serial[0] = (unsigned char)((serial[0] & 0x3f) | 0x40); /* positive and of full length */
    TRY(gnutls_x509_crt_set_version(cert, 3));
    TRY(gnutls_x509_crt_set_serial(cert, serial, sizeof(serial)));
    TRY(gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, COMMON_NAME,
                                      sizeof(COMMON_NAME) - 1));
    TRY(gnutls_x509_crt_set_activation_time(cert, now - BACKDATE_S));
    TRY(gnutls_x509_crt_set_expiration_time(cert, now + LIFE_S));
    TRY(gnutls_x509_crt_set_key(cert, p->key));
    TRY(add_names(cert, host));
    TRY(gnutls_x509_crt_set_basic_constraints(cert, 1, -1));
    TRY(gnutls_x509_crt_set_key_usage(cert,
                                      GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_CERT_SIGN));
    TRY(gnutls_x509_crt_set_key_purpose_oid(cert, GNUTLS_KP_TLS_WWW_SERVER, 0));
    TRY(gnutls_x509_crt_get_key_id(cert, GNUTLS_KEYID_USE_SHA1, id, &id_size));
    TRY(gnutls_x509_crt_set_subject_key_id(cert, id, id_size));
    TRY(gnutls_x509_crt_set_authority_key_id(cert, id, id_size));
    return 0;
}

static int make(struct pair *p, const char *host)
{
    TRY(gnutls_x509_privkey_init(&p->key));
    TRY(gnutls_x509_crt_init(&p->cert));
    TRY(gnutls_x509_privkey_generate(p->key, GNUTLS_PK_ECDSA,
                                     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    TRY(fill(p, host));
    TRY(gnutls_x509_crt_sign2(p->cert, p->cert, p->key, GNUTLS_DIG_SHA256, 0));
    TRY(gnutls_x509_privkey_export2_pkcs8(p->key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                          &p->key_pem));
    TRY(gnutls_x509_crt_export2(p->cert, GNUTLS_X509_FMT_PEM, &p->cert_pem));
    return 0;
}

static int write_pair(const struct pair *p, const char *cert_path, const char *key_path)
{
    int rc;

    /* An old certificate must not stand beside a new key. */
    if (unlink(cert_path) != 0 && errno != ENOENT)
        rc = -errno;
    else if ((rc = fs_write_atomic(key_path, p->key_pem.data, p->key_pem.size, 0600)) == 0)
        rc = fs_write_atomic(cert_path, p->cert_pem.data, p->cert_pem.size, 0644);
    if (rc != 0)
        log_error("cannot write %s and %s: %s", cert_path, key_path, strerror(-rc));
    return rc;
}

int tls_make_self_signed(const char *host, const char *cert_path, const char *key_path)
{
    struct pair p = {0};
    struct in6_addr v6;
    int rc;

    if (host && inet_pton(AF_INET6, host, &v6) != 1 && !is_dns_name(host)) {
        log_error("cannot make a certificate for \"%s\": neither an address nor a name", host);
        return -EINVAL;
    }
    rc = make(&p, host);
    if (rc < 0) {
        log_error("cannot make a certificate: %s", gnutls_strerror(rc));
        rc = -EIO;
    } else {
        rc = write_pair(&p, cert_path, key_path);
    }
    if (p.key_pem.data)
        gnutls_memset(p.key_pem.data, 0, p.key_pem.size);
    gnutls_free(p.key_pem.data);
    gnutls_free(p.cert_pem.data);
    gnutls_x509_crt_deinit(p.cert);
    gnutls_x509_privkey_deinit(p.key);
    return rc;
}
