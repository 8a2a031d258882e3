/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"

/* PURE. Reads a ClientHello (RFC 8446, 6066) from the first bytes of a connection, however they are cut into segments and
 * records. */

#define TLS_HELLO_MAX (16u << 10)

/* p[0..n): everything that came so far. name: what the SNI must be. EGRESS_OK with *ret_complete: false, more bytes are
 * needed (n is below TLS_HELLO_MAX plus record headers); true, the hello is complete and good. Anything else is final.
 * ret_sni (256 bytes): what was asked for, escaped, "" where unknown, for the record. */
EgressReason tls_hello_check(const uint8_t *p, size_t n, const char *name, bool ech_allow, bool *ret_complete,
                bool *ret_has_ech, char ret_sni[static 256]);

/* A fatal access_denied alert as a server sends it in answer to a hello. */
extern const uint8_t tls_alert_access_denied[7];
