/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "warden/decide.h"

/* PURE. Reads a ClientHello (RFC 8446, 6066) from the first bytes of a connection, however they are cut into segments and
 * records, and refuses whatever another reader could take for something else.
 *
 * not-tls: the first byte that cannot begin a ClientHello decides; SSLv2, HTTP and SSH are told by their first one. Later:
 * records of another type or version, empty or over 2^14 bytes, another handshake message, bytes behind the hello in its
 * record, a length that does not fit exactly, an extension that is there twice (but for server_name).
 * sni-bad: no server_name, two of them, or not exactly one host_name in it; no valid name. sni-mismatch: another name.
 * ech: Encrypted ClientHello in the form of RFC 9849 or of its drafts, and ESNI; the outer name is looked at first.
 * too-large: over the bounds below.
 *
 * The verdict depends on the bytes alone, not on how many calls they came in: what is final for some bytes is the same for
 * more. A second hello (after HelloRetryRequest) and all that is encrypted are not looked at: the peer is the one that the
 * name resolved to, and what it does with another name later on is fronting inside TLS. */

/* Of the handshake message, its own header included. */
#define TLS_HELLO_MAX (16u << 10)
/* Of the bytes that come until the hello is complete, the records' headers included: a hello of 16 KiB in 800 records, or
 * one of 3,400 bytes in as many. A caller's buffer of this size is never full without a verdict. */
#define TLS_HELLO_WIRE_MAX (TLS_HELLO_MAX + (4u << 10))

/* How far the records were followed; all zero at the beginning of a connection. Nobody else's business. */
typedef struct TlsReader {
        size_t seen;  /* up to here there are whole records */
        size_t have;  /* bytes of the message in them */
        size_t total; /* of the message with its header; 0: not known yet */
        uint8_t header[4];
} TlsReader;

/* p[0..n): everything that came so far, the same bytes as in the call before and more. name: what the SNI must be (a rule's
 * name, lower case). EGRESS_OK with *ret_complete: false, more bytes are needed (n is below TLS_HELLO_WIRE_MAX); true, the
 * hello is complete and good, and whatever came behind it may go out with it. Anything else is final. ret_sni: what was asked
 * for, escaped, "" where unknown, for the record. Each record is looked at once, and the hello parsed once it is there. */
EgressReason tls_hello_check(TlsReader *t, const uint8_t *p, size_t n, const char *name, bool ech_allow, bool *ret_complete,
                bool *ret_has_ech, char ret_sni[static 256]);

/* A fatal access_denied alert as a server sends it in answer to a hello. */
extern const uint8_t tls_alert_access_denied[7];
