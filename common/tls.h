/* The certificate that the control plane makes for itself at its first start. */
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

/*
 * Makes an ECDSA P-256 key and a self-signed certificate for it, valid for ten years, and writes
 * both as PEM: the key with mode 0600, the certificate 0644 and last, so that a certificate file
 * means a whole pair, wherever the program was stopped. Replaces what is there.
 *
 * It names localhost, 127.0.0.1, ::1 and `host` (an address or a DNS name without port; for an
 * any-address the machine's own name instead; NULL: nothing more). Clients trust it by taking the
 * certificate file as their CA file (curl --cacert, Python cafile, Node ca, spillway-agent
 * --cacert).
 *
 * 0, -EINVAL for a host that is neither address nor name, or -errno; the reason is logged.
 */
int tls_make_self_signed(const char *host, const char *cert_path, const char *key_path);

#endif
