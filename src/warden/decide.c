/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>

#include "base/macro.h"
#include "warden/decide.h"

static const char *const reason_names[] = {
        [EGRESS_OK] = "",
        [EGRESS_NO_RULE] = "no-rule",
        [EGRESS_METADATA] = "metadata",
        [EGRESS_ADDR_BLOCKED] = "addr-blocked",
        [EGRESS_HOST_LOCAL] = "host-local",
        [EGRESS_NO_MAPPING] = "no-mapping",
        [EGRESS_PORT] = "port",
        [EGRESS_SNI_MISMATCH] = "sni-mismatch",
        [EGRESS_SNI_BAD] = "sni-bad",
        [EGRESS_ECH] = "ech",
        [EGRESS_NOT_TLS] = "not-tls",
        [EGRESS_HOST_MISMATCH] = "host-mismatch",
        [EGRESS_BAD_REQUEST] = "bad-request",
        [EGRESS_TOO_LARGE] = "too-large",
        [EGRESS_TIMEOUT] = "timeout",
        [EGRESS_RESOLVE_FAILED] = "resolve-failed",
        [EGRESS_CONNECT_FAILED] = "connect-failed",
        [EGRESS_PROXY_FAILED] = "proxy-failed",
        [EGRESS_LIMIT] = "limit",
        [EGRESS_BYTES_LIMIT] = "bytes-limit",
        [EGRESS_NO_JOURNAL] = "no-journal",
        [EGRESS_MALFORMED] = "malformed",
        [EGRESS_DNS_TYPE] = "dns-type",
};
_Static_assert(ELEMENTSOF(reason_names) == _EGRESS_REASON_MAX, "each reason has a name");

const char *egress_reason_to_string(EgressReason reason)
{
        return (unsigned) reason < _EGRESS_REASON_MAX ? reason_names[reason] : "unknown";
}

void egress_address_format(const EgressAddress *a, char ret[static EGRESS_ADDRESS_TEXT_MAX])
{
        if (!inet_ntop(a->family, a->bytes, ret, EGRESS_ADDRESS_TEXT_MAX))
                ret[0] = 0;
}
