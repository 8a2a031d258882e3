/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "policy/allow-rule.h"

/* The addresses and names under which clouds hand out credentials to whoever asks. */
static const char *const addresses[] = {
        "169.254.0.0/16",  /* link-local: 169.254.169.254 of most clouds, 169.254.170.2 and .23 of containers
                              there */
        "100.100.100.200", /* out of the shared range of carriers */
        "168.63.129.16",   /* a public address that is answered by the host */
        "192.0.0.192",     /* out of the protocol assignments */
        "fe80::/10",       /* link-local */
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        /* The IPv4 ones again, as a translator (NAT64) or a tunnel (6to4) of the host's network would take
           them. */
        "64:ff9b::a9fe:0/112",
        "64:ff9b::6464:64c8",
        "64:ff9b::a83f:8110",
        "64:ff9b::c000:c0",
        "2002:a9fe::/32",
        "2002:6464:64c8::/48",
        "2002:a83f:8110::/48",
        "2002:c000:c0::/48",
};

/* Each with everything below it. */
static const char *const names[] = {
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
};

bool metadata_name(const char *name)
{
        size_t n = strlen(name);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t m = strlen(names[i]);

                if (n >= m && streq(name + n - m, names[i]) && (n == m || name[n - m - 1] == '.'))
                        return true;
        }
        return false;
}

int metadata_prefixes(PrefixSet *ret)
{
        _cleanup_prefix_set_ PrefixSet set = {};

        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                Prefix p;

                if (prefix_parse(addresses[i], &p) < 0)
                        return -EINVAL;
                if (prefix_set_add(&set, &p) < 0)
                        return -ENOMEM;
        }
        *ret = set;
        set = (PrefixSet){};
        return 0;
}

bool metadata_only(const Prefix *p)
{
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                Prefix m;

                if (prefix_parse(addresses[i], &m) >= 0 && prefix_covers(&m, p))
                        return true;
        }
        return false;
}
