/* systemd's sd_notify protocol (sd_notify(3)), spoken directly: one datagram to NOTIFY_SOCKET. */
#ifndef COMMON_NOTIFY_H
#define COMMON_NOTIFY_H

/* Sends e.g. "READY=1" or "STOPPING=1"; does nothing when the program was not started by systemd.
 */
void notify_systemd(const char *state);

#endif
