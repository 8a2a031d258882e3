/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>

#include "base/macro.h"
#include "warden/address-gate.h"

/* Rules stand in three arrays, sorted so that everything is found by binary search: nothing in here hashes what the
 * sandbox has chosen, and nothing is allocated after decider_new(). Names have an index each:
 *
 *   0 … n_exact-1             the different names of the rules without wildcard, ascending
 *   n_exact … +POOL_SIZE-1    names under a wildcard, in the order in which they were first asked for
 *
 * and an index has an address in 198.18.0.0/15 and one in a ULA /96: base + index, both bases different in each run. The
 * address counts only once it was given out. */

#define POOL_SIZE 4096u
#define NAME_SIZE 254u /* with its end */
#define SYNTHETIC_IPV4 0xc6120000u /* 198.18.0.0 */
#define SYNTHETIC_IPV4_BITS 17u

typedef struct Ruleset {
        const EgressRule **rules;
        size_t n;
} Ruleset;

/* The address rules of one prefix length. */
typedef struct AddressRun {
        uint8_t family, length;
        Ruleset set; /* within Decider.addresses */
} AddressRun;

struct Decider {
        const WardenSpec *spec;
        Ruleset exact, wildcard;  /* by name, port */
        unsigned wildcard_labels; /* of the longest wildcard */
        Ruleset addresses;        /* by family, length (longest first), address, port */
        AddressRun *runs;
        size_t n_runs;

        const char **names; /* by index; of exact names the rule's own text */
        bool *given;        /* by index */
        uint32_t n_exact, n_names;
        uint16_t *pool_order; /* the pool's names ascending: indices less n_exact */
        char *pool_text;
        size_t pool_used;

        uint32_t base;   /* of index 0, within the 17 bits */
        uint8_t ula[16]; /* the last four bytes zero */
};

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

/* ---- the order of rules */

/* For one destination: by port, then as the policy has them, so that it is always the same one that is found first. */
static int compare_rest(const EgressRule *a, const EgressRule *b)
{
        if (a->port != b->port)
                return a->port < b->port ? -1 : 1;
        return a < b ? -1 : a > b;
}

static int compare_names(const void *x, const void *y)
{
        const EgressRule *a = *(const EgressRule *const *) x, *b = *(const EgressRule *const *) y;
        int r = strcmp(a->name, b->name);

        return r != 0 ? r : compare_rest(a, b);
}

static int compare_addresses(const void *x, const void *y)
{
        const EgressRule *a = *(const EgressRule *const *) x, *b = *(const EgressRule *const *) y;
        int r;

        if (a->address.family != b->address.family)
                return a->address.family < b->address.family ? -1 : 1;
        if (a->prefix_length != b->prefix_length)
                return a->prefix_length > b->prefix_length ? -1 : 1;
        r = memcmp(a->address.bytes, b->address.bytes, sizeof(a->address.bytes));
        return r != 0 ? r : compare_rest(a, b);
}

/* The first rule of the set for this name and at least this port, or where it would stand. */
static size_t find_name(const Ruleset *set, const char *name, uint16_t port)
{
        size_t low = 0, high = set->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = strcmp(set->rules[middle]->name, name);

                if (r < 0 || (r == 0 && set->rules[middle]->port < port))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The same for an address; the rules of the set have one prefix length. */
static size_t find_address(const Ruleset *set, const uint8_t bytes[static 16], uint16_t port)
{
        size_t low = 0, high = set->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = memcmp(set->rules[middle]->address.bytes, bytes, 16);

                if (r < 0 || (r == 0 && set->rules[middle]->port < port))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static bool has_name(const Ruleset *set, const char *name)
{
        size_t i = find_name(set, name, 0);

        return i < set->n && streq(set->rules[i]->name, name);
}

/* ---- making */

static unsigned count_labels(const char *name)
{
        unsigned n = 1;

        for (const char *c = name; *c; c++)
                n += *c == '.';
        return n;
}

static int collect_rules(Decider *d)
{
        Ruleset *const sets[] = { &d->exact, &d->wildcard, &d->addresses };

        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                sets[i]->rules = calloc((size_t) d->spec->n_rules + 1, sizeof(*sets[i]->rules));
                if (!sets[i]->rules)
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < d->spec->n_rules; i++) {
                const EgressRule *r = d->spec->rules + i;
                Ruleset *set = r->kind == EGRESS_RULE_TCP_ADDRESS ? &d->addresses : r->wildcard ? &d->wildcard : &d->exact;

                set->rules[set->n++] = r;
                if (r->wildcard)
                        d->wildcard_labels = MAX2(d->wildcard_labels, count_labels(r->name));
        }
        qsort(d->exact.rules, d->exact.n, sizeof(*d->exact.rules), compare_names);
        qsort(d->wildcard.rules, d->wildcard.n, sizeof(*d->wildcard.rules), compare_names);
        qsort(d->addresses.rules, d->addresses.n, sizeof(*d->addresses.rules), compare_addresses);
        return 0;
}

static int collect_runs(Decider *d)
{
        d->runs = calloc(33 + 129, sizeof(*d->runs));
        if (!d->runs)
                return -ENOMEM;
        for (size_t i = 0; i < d->addresses.n; i++) {
                const EgressRule *r = d->addresses.rules[i];
                AddressRun *last = d->runs + d->n_runs - (d->n_runs > 0);

                if (d->n_runs == 0 || last->family != r->address.family || last->length != r->prefix_length) {
                        last = d->runs + d->n_runs++;
                        *last = (AddressRun){ r->address.family, r->prefix_length, { d->addresses.rules + i, 0 } };
                }
                last->set.n++;
        }
        return 0;
}

static int collect_names(Decider *d)
{
        size_t pool = d->wildcard.n > 0 ? POOL_SIZE : 0;

        d->names = calloc(d->exact.n + pool + 1, sizeof(*d->names));
        d->given = calloc(d->exact.n + pool + 1, sizeof(*d->given));
        d->pool_order = calloc(pool + 1, sizeof(*d->pool_order));
        d->pool_text = calloc(pool + 1, NAME_SIZE); /* the kernel's zero pages until it is needed */
        if (!d->names || !d->given || !d->pool_order || !d->pool_text)
                return -ENOMEM;
        for (size_t i = 0; i < d->exact.n; i++)
                if (i == 0 || !streq(d->exact.rules[i]->name, d->exact.rules[i - 1]->name))
                        d->names[d->n_exact++] = d->exact.rules[i]->name;
        d->n_names = d->n_exact;
        return 0;
}

static void choose_bases(Decider *d)
{
        uint64_t random = 0;

        for (size_t i = 11; i < WARDENSPEC_SEED_SIZE; i++)
                random = random << 8 | d->spec->seed[i];
        /* Neither the first address of the range nor the last. */
        d->base = 1 + (uint32_t) (random % ((1u << SYNTHETIC_IPV4_BITS) - 2 - d->n_exact - POOL_SIZE));
        d->ula[0] = 0xfd;
        memcpy(d->ula + 1, d->spec->seed, 11);
        d->ula[1] |= 0x80; /* not the sandbox's own fd00:ab::, not the metadata services of fd00:: and fd20:: */
}

int decider_new(const WardenSpec *spec, Decider **ret)
{
        _cleanup_(decider_freep) Decider *d = calloc(1, sizeof(*d));
        int r;

        if (!d)
                return -ENOMEM;
        if (spec->n_rules > WARDENSPEC_RULES_MAX)
                return -EINVAL;
        d->spec = spec;
        r = collect_rules(d);
        if (r >= 0)
                r = collect_runs(d);
        if (r >= 0)
                r = collect_names(d);
        if (r < 0)
                return r;
        choose_bases(d);
        *ret = TAKE_PTR(d);
        return 0;
}

Decider *decider_free(Decider *d)
{
        if (!d)
                return NULL;
        free(d->exact.rules);
        free(d->wildcard.rules);
        free(d->addresses.rules);
        free(d->runs);
        free(d->names);
        free(d->given);
        free(d->pool_order);
        free(d->pool_text);
        free(d);
        return NULL;
}

/* ---- names */

/* The next wildcard that name lies under, the longest first: NULL at first, then the last one found. */
static const char *next_wildcard(const Decider *d, const char *name, const char *last)
{
        unsigned labels = count_labels(last ? last : name);

        for (const char *c = strchr(last ? last : name, '.'); c; c = strchr(c + 1, '.'))
                if (--labels <= d->wildcard_labels && has_name(&d->wildcard, c + 1))
                        return c + 1;
        return NULL;
}

static int64_t find_exact(const Decider *d, const char *name)
{
        size_t low = 0, high = d->n_exact;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = strcmp(d->names[middle], name);

                if (r == 0)
                        return (int64_t) middle;
                if (r < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return -1;
}

/* The place in pool_order where the name stands (true) or would. */
static bool find_pool(const Decider *d, const char *name, size_t *ret_place)
{
        size_t low = 0, high = d->n_names - d->n_exact;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = strcmp(d->names[d->n_exact + d->pool_order[middle]], name);

                if (r == 0) {
                        *ret_place = middle;
                        return true;
                }
                if (r < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret_place = low;
        return false;
}

/* The index of a name under a wildcard, a new one at need; -1: none is left. */
static int64_t pool_index(Decider *d, const char *name)
{
        size_t place, n = d->n_names - d->n_exact, size = strlen(name) + 1;
        char *text = d->pool_text + d->pool_used;

        if (find_pool(d, name, &place))
                return d->n_exact + d->pool_order[place];
        if (n == POOL_SIZE)
                return -1;
        memcpy(text, name, size);
        d->pool_used += size;
        memmove(d->pool_order + place + 1, d->pool_order + place, (n - place) * sizeof(*d->pool_order));
        d->pool_order[place] = (uint16_t) n;
        d->names[d->n_names] = text;
        return d->n_names++;
}

static void put_u32(uint8_t *p, uint32_t v)
{
        for (unsigned i = 0; i < 4; i++)
                p[i] = (uint8_t) (v >> (24 - 8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
        return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

EgressReason decider_name(Decider *d, const char *name, EgressAddress *ret_ipv4, EgressAddress *ret_ipv6)
{
        int64_t index;

        if (strlen(name) >= NAME_SIZE)
                return EGRESS_NO_RULE;
        if (metadata_host_name(name))
                return EGRESS_METADATA;
        index = find_exact(d, name);
        if (index < 0 && !next_wildcard(d, name, NULL))
                return EGRESS_NO_RULE;
        if (!ret_ipv4 && !ret_ipv6)
                return EGRESS_OK;
        if (index < 0)
                index = pool_index(d, name);
        if (index < 0)
                return EGRESS_LIMIT;
        d->given[index] = true;
        if (ret_ipv4) {
                *ret_ipv4 = (EgressAddress){ .family = AF_INET };
                put_u32(ret_ipv4->bytes, SYNTHETIC_IPV4 + d->base + (uint32_t) index);
        }
        if (ret_ipv6) {
                *ret_ipv6 = (EgressAddress){ .family = AF_INET6 };
                memcpy(ret_ipv6->bytes, d->ula, sizeof(d->ula));
                put_u32(ret_ipv6->bytes + 12, d->base + (uint32_t) index);
        }
        return EGRESS_OK;
}

/* ---- connections */

static unsigned rule_options(const EgressRule *r)
{
        return (unsigned) r->ech_allow + r->private_allow + r->peer_first;
}

/* Into its kind's place, where nothing at least as good is there already. */
static void consider(EgressDecision *decision, const EgressRule *r)
{
        const EgressRule **place = r->kind == EGRESS_RULE_TLS    ? &decision->tls
                                   : r->kind == EGRESS_RULE_HTTP ? &decision->http
                                                                 : &decision->tcp;

        if (!*place || rule_options(r) > rule_options(*place))
                *place = r;
        decision->reason = EGRESS_OK;
}

static void consider_name(const Ruleset *set, const char *name, uint16_t port, EgressDecision *decision)
{
        for (size_t i = find_name(set, name, port); i < set->n; i++) {
                const EgressRule *r = set->rules[i];

                if (r->port != port || !streq(r->name, name))
                        return;
                consider(decision, r);
        }
}

static void decide_name(const Decider *d, const char *name, uint16_t port, EgressDecision *decision)
{
        /* It would have no address if no rule named it. */
        decision->reason = EGRESS_PORT;
        decision->name = name;
        consider_name(&d->exact, name, port, decision);
        for (const char *w = next_wildcard(d, name, NULL); w; w = next_wildcard(d, name, w))
                consider_name(&d->wildcard, w, port, decision);
}

static void mask_address(const EgressAddress *a, unsigned length, uint8_t ret[static 16])
{
        memset(ret, 0, 16);
        memcpy(ret, a->bytes, length / 8);
        if (length % 8 != 0)
                ret[length / 8] = (uint8_t) (a->bytes[length / 8] & 0xff00u >> length % 8);
}

static void decide_address(const Decider *d, const EgressAddress *a, uint16_t port, EgressDecision *decision)
{
        EgressReason gate;

        decision->reason = EGRESS_NO_RULE;
        for (size_t k = 0; k < d->n_runs; k++) {
                const Ruleset *set = &d->runs[k].set;
                uint8_t masked[16];
                size_t i;

                if (d->runs[k].family != a->family)
                        continue;
                mask_address(a, d->runs[k].length, masked);
                i = find_address(set, masked, 0);
                if (i == set->n || memcmp(set->rules[i]->address.bytes, masked, 16) != 0)
                        continue;
                if (decision->reason == EGRESS_NO_RULE)
                        decision->reason = EGRESS_PORT;
                for (i = find_address(set, masked, port); i < set->n && set->rules[i]->port == port &&
                                                          memcmp(set->rules[i]->address.bytes, masked, 16) == 0;
                                i++)
                        consider(decision, set->rules[i]);
        }
        /* A wide prefix covers what is no destination. */
        gate = decision->reason == EGRESS_OK ? address_gate(a, true, d->spec) : EGRESS_OK;
        if (gate != EGRESS_OK)
                *decision = (EgressDecision){ .reason = gate };
}

/* Whether it is in the ranges of synthetic addresses; ret: the index, perhaps of no name. */
static bool is_synthetic(const Decider *d, const EgressAddress *a, uint32_t *ret)
{
        static const uint8_t range[16] = { 198, 18 };

        if (address_has_prefix(a, AF_INET, range, 32 - SYNTHETIC_IPV4_BITS))
                *ret = get_u32(a->bytes) - SYNTHETIC_IPV4 - d->base;
        else if (address_has_prefix(a, AF_INET6, d->ula, 96))
                *ret = get_u32(a->bytes + 12) - d->base;
        else
                return false;
        return true;
}

void decider_connection(Decider *d, const EgressAddress *dest, uint16_t port, EgressDecision *ret)
{
        EgressAddress a = address_unmapped(dest);
        EgressDecision decision = {};
        uint32_t index;

        if (metadata_address(&a, d->spec))
                decision.reason = EGRESS_METADATA;
        else if (!is_synthetic(d, &a, &index))
                decide_address(d, &a, port, &decision);
        else if (index < d->n_names && d->given[index])
                decide_name(d, d->names[index], port, &decision);
        else
                decision.reason = EGRESS_NO_MAPPING;
        *ret = decision;
}
