/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "warden/decide.h"

/* The tables behind address_gate(), metadata_address() and metadata_host_name() (decide.h), for these and their tests. */

/* From harmless to forbidden: of the several addresses that one may carry, the highest decides. */
typedef enum AddressClass {
        ADDRESS_GLOBAL,   /* may be dialled; an IPv4 address that it carries must be one that may as well */
        ADDRESS_SPECIAL,  /* only where the policy wants it: private=allow, or a rule for the address itself */
        ADDRESS_NEVER,
        ADDRESS_METADATA, /* never, and with a reason of its own */
} AddressClass;

typedef struct AddressRow {
        uint8_t family;
        uint8_t prefix[16];
        uint8_t length;
        AddressClass class; /* of the longest prefix that holds the address */
        const char *source;
} AddressRow;
extern const AddressRow address_rows[];
extern const size_t n_address_rows;

/* Each with everything below it. */
extern const char *const metadata_host_names[];
extern const size_t n_metadata_host_names;

bool address_has_prefix(const EgressAddress *a, uint8_t family, const uint8_t prefix[static 16], unsigned length);

/* ::ffff:192.0.2.1 is 192.0.2.1, to the kernel as well; any other is itself. */
EgressAddress address_unmapped(const EgressAddress *a);
