/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>

#include "wire/codec.h"
#include "wire/egress.h"

/* The messages, in this order (integers little endian, strings as in codec.h, a bool is one byte, ports are u32):
 *
 *   WardenSpec   u32 magic, run, policy, digest, unit, invocation_id, u32 caller_uid
 *                u32 n, n times (u8 kind, text, name, bool wildcard, u8 family, 16 bytes, u8 prefix_length, u32 port,
 *                                bool ech_allow, private_allow, peer_first)
 *                u64 egress_bytes, u32 connections, bool record_allowed, record_calls, kill_on_denied, proxy_host, u32 proxy_port
 *                bool has_nat64, 16 bytes, u8 nat64_length, 16 bytes seed
 *   WardenHello  u32 magic, uid, gid, u64 capabilities, bool no_new_privileges, u8 seccomp_mode
 *                u64 netns_inode, userns_inode, mntns_inode, u32 n_fds, canary_loopback, canary_metadata
 *                u64 memory_limit, open_files_limit
 *   WardenReady  u32 magic, error, 32 bytes stage */

#define ID_MAX 255u   /* of a run, a policy, a digest, a unit */
#define HOST_NAME_SIZE 253u
#define TEXT_MAX 511u /* of a rule: a name, a port and options */
#define ERRNO_MAX 4095 /* the kernel's end there */
/* An element on the wire, at the least. */
#define RULE_SIZE (1u + 4 + 4 + 1 + 1 + 16 + 1 + 4 + 3)

void wardenspec_done(WardenSpec *s)
{
        for (uint32_t i = 0; s->rules && i < s->n_rules; i++) {
                free(s->rules[i].text);
                free(s->rules[i].name);
        }
        free(s->rules);
        free(s->run);
        free(s->policy);
        free(s->digest);
        free(s->unit);
        free(s->invocation_id);
        free(s->proxy_host);
        *s = (WardenSpec){};
}

/* ---- the rules of the header, for what is sent and for what was received */

/* What goes into records as it stands: printable ASCII. 0, -EINVAL or -E2BIG. */
static int check_text(const char *s, size_t max)
{
        if (!s)
                return -EINVAL;
        if (strlen(s) > max)
                return -E2BIG;
        for (const char *c = s; *c; c++)
                if ((unsigned char) *c < 0x20 || (unsigned char) *c > 0x7e)
                        return -EINVAL;
        return 0;
}

/* Whatever ends in a number, decimal or hexadecimal, is an address to some resolver. */
static bool label_is_number(const char *label)
{
        size_t hex = label[0] == '0' && label[1] == 'x' ? 2 : 0;

        return hex > 0 ? strspn(label + hex, "0123456789abcdef") == strlen(label + hex)
                       : strspn(label, "0123456789") == strlen(label);
}

/* Lower case, labels of letters, digits and hyphens, no final dot. */
static bool name_valid(const char *name)
{
        if (strlen(name) > HOST_NAME_SIZE)
                return false;
        for (const char *label = name;;) {
                size_t n = strcspn(label, ".");

                if (n == 0 || n > 63 || label[0] == '-' || label[n - 1] == '-' ||
                                strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
                        return false;
                if (!label[n])
                        return !label_is_number(label);
                label += n + 1;
        }
}

/* Bits from length on are zero. */
static bool bits_clear(const uint8_t bytes[static 16], unsigned length)
{
        for (unsigned i = length; i < 128; i++)
                if (bytes[i / 8] & 0x80 >> i % 8)
                        return false;
        return true;
}

static bool rule_address_valid(const EgressRule *r)
{
        unsigned max = r->address.family == AF_INET ? 32 : 128;

        return (r->address.family == AF_INET || r->address.family == AF_INET6) && r->prefix_length <= max &&
               bits_clear(r->address.bytes, r->prefix_length);
}

static int rule_check(const EgressRule *r)
{
        bool by_address = r->kind == EGRESS_RULE_TCP_ADDRESS;
        int k = check_text(r->text, TEXT_MAX);

        if (k < 0)
                return k;
        if ((unsigned) r->kind >= _EGRESS_RULE_KIND_MAX || !r->name || r->port == 0)
                return -EINVAL;
        if (by_address ? (r->name[0] || r->wildcard || r->private_allow || !rule_address_valid(r))
                       : (!name_valid(r->name) || r->address.family != 0 || r->prefix_length != 0 ||
                                         !bits_clear(r->address.bytes, 0)))
                return -EINVAL;
        if ((r->ech_allow && r->kind != EGRESS_RULE_TLS) ||
                        (r->peer_first && r->kind != EGRESS_RULE_TCP && !by_address))
                return -EINVAL;
        return 0;
}

/* A name or an address, as text. */
static bool proxy_valid(const WardenSpec *s)
{
        uint8_t address[16];

        if (!s->proxy_host[0])
                return s->proxy_port == 0;
        return s->proxy_port != 0 && (name_valid(s->proxy_host) || inet_pton(AF_INET, s->proxy_host, address) == 1 ||
                                                     inet_pton(AF_INET6, s->proxy_host, address) == 1);
}

/* RFC 6052, 2.2: six lengths, and bits 64 to 71 are zero in each. */
static bool nat64_valid(const WardenSpec *s)
{
        if (!s->has_nat64)
                return s->nat64_length == 0 && bits_clear(s->nat64, 0);
        return ((s->nat64_length >= 32 && s->nat64_length <= 64 && s->nat64_length % 8 == 0) ||
                               s->nat64_length == 96) &&
               s->nat64[8] == 0 && bits_clear(s->nat64, s->nat64_length);
}

static int wardenspec_check(const WardenSpec *s)
{
        const char *const ids[] = { s->run, s->policy, s->digest, s->unit, s->invocation_id };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                r = check_text(ids[i], ID_MAX);
                if (r < 0)
                        return r;
        }
        r = check_text(s->proxy_host, ID_MAX);
        if (r < 0)
                return r;
        if (!s->run[0] || s->connections == 0 || (s->kill_on_denied && !s->record_calls) || !proxy_valid(s) || !nat64_valid(s))
                return -EINVAL;
        if (s->n_rules > WARDENSPEC_RULES_MAX)
                return -E2BIG;
        for (uint32_t i = 0; i < s->n_rules; i++) {
                r = rule_check(s->rules + i);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- broker → warden */

static void encode_rule(const EgressRule *r, Buf *out)
{
        buf_u8(out, (uint8_t) r->kind);
        buf_blob(out, r->text, strlen(r->text));
        buf_blob(out, r->name, strlen(r->name));
        buf_u8(out, r->wildcard);
        buf_u8(out, r->address.family);
        buf_append(out, r->address.bytes, sizeof(r->address.bytes));
        buf_u8(out, r->prefix_length);
        buf_u32(out, r->port);
        buf_u8(out, r->ech_allow);
        buf_u8(out, r->private_allow);
        buf_u8(out, r->peer_first);
}

int wardenspec_encode(const WardenSpec *s, Buf *out)
{
        int r = wardenspec_check(s);

        if (r < 0)
                return r;
        buf_u32(out, WARDENSPEC_MAGIC);
        buf_blob(out, s->run, strlen(s->run));
        buf_blob(out, s->policy, strlen(s->policy));
        buf_blob(out, s->digest, strlen(s->digest));
        buf_blob(out, s->unit, strlen(s->unit));
        buf_blob(out, s->invocation_id, strlen(s->invocation_id));
        buf_u32(out, s->caller_uid);
        buf_u32(out, s->n_rules);
        for (uint32_t i = 0; i < s->n_rules; i++)
                encode_rule(s->rules + i, out);
        buf_u64(out, s->egress_bytes);
        buf_u32(out, s->connections);
        buf_u8(out, s->record_allowed);
        buf_u8(out, s->record_calls);
        buf_u8(out, s->kill_on_denied);
        buf_blob(out, s->proxy_host, strlen(s->proxy_host));
        buf_u32(out, s->proxy_port);
        buf_u8(out, s->has_nat64);
        buf_append(out, s->nat64, sizeof(s->nat64));
        buf_u8(out, s->nat64_length);
        buf_append(out, s->seed, sizeof(s->seed));
        if (out->error == 0 && out->size > WARDENSPEC_SIZE_MAX)
                out->error = -E2BIG;
        return out->error;
}

static void read_bytes(Reader *r, uint8_t *ret, size_t n)
{
        for (size_t i = 0; i < n; i++)
                ret[i] = read_u8(r);
}

static uint16_t read_port(Reader *r)
{
        uint32_t port = read_u32(r);

        if (port > UINT16_MAX)
                r->error = -EBADMSG;
        return (uint16_t) port;
}

static void read_rule(Reader *r, EgressRule *rule)
{
        rule->kind = (EgressRuleKind) read_u8(r);
        rule->text = read_string(r, TEXT_MAX);
        rule->name = read_string(r, HOST_NAME_SIZE);
        rule->wildcard = read_bool(r);
        rule->address.family = read_u8(r);
        read_bytes(r, rule->address.bytes, sizeof(rule->address.bytes));
        rule->prefix_length = read_u8(r);
        rule->port = read_port(r);
        rule->ech_allow = read_bool(r);
        rule->private_allow = read_bool(r);
        rule->peer_first = read_bool(r);
}

static void read_rules(Reader *r, WardenSpec *s)
{
        uint32_t n = read_count(r, WARDENSPEC_RULES_MAX, RULE_SIZE);

        if (n == 0)
                return;
        s->rules = calloc(n, sizeof(*s->rules));
        if (!s->rules) {
                r->error = -ENOMEM;
                return;
        }
        s->n_rules = n;
        for (uint32_t i = 0; i < n && r->error == 0; i++)
                read_rule(r, s->rules + i);
}

int wardenspec_decode(const void *p, size_t n, WardenSpec *ret)
{
        Reader reader = { .data = p, .size = n };
        _cleanup_(wardenspec_done) WardenSpec s = {};
        int r;

        if (n > WARDENSPEC_SIZE_MAX || read_u32(&reader) != WARDENSPEC_MAGIC)
                return -EBADMSG;
        s.run = read_string(&reader, ID_MAX);
        s.policy = read_string(&reader, ID_MAX);
        s.digest = read_string(&reader, ID_MAX);
        s.unit = read_string(&reader, ID_MAX);
        s.invocation_id = read_string(&reader, ID_MAX);
        s.caller_uid = read_u32(&reader);
        read_rules(&reader, &s);
        s.egress_bytes = read_u64(&reader);
        s.connections = read_u32(&reader);
        s.record_allowed = read_bool(&reader);
        s.record_calls = read_bool(&reader);
        s.kill_on_denied = read_bool(&reader);
        s.proxy_host = read_string(&reader, ID_MAX);
        s.proxy_port = read_port(&reader);
        s.has_nat64 = read_bool(&reader);
        read_bytes(&reader, s.nat64, sizeof(s.nat64));
        s.nat64_length = read_u8(&reader);
        read_bytes(&reader, s.seed, sizeof(s.seed));
        r = read_end(&reader);
        if (r < 0)
                return r;
        if (wardenspec_check(&s) < 0)
                return -EBADMSG;
        *ret = s;
        s = (WardenSpec){};
        return 0;
}

/* ---- warden → broker */

int wardenhello_encode(const WardenHello *h, Buf *out)
{
        buf_u32(out, WARDENHELLO_MAGIC);
        buf_u32(out, h->uid);
        buf_u32(out, h->gid);
        buf_u64(out, h->capabilities);
        buf_u8(out, h->no_new_privileges);
        buf_u8(out, h->seccomp_mode);
        buf_u64(out, h->netns_inode);
        buf_u64(out, h->userns_inode);
        buf_u64(out, h->mntns_inode);
        buf_u32(out, h->n_fds);
        buf_u32(out, h->canary_loopback);
        buf_u32(out, h->canary_metadata);
        buf_u64(out, h->memory_limit);
        return buf_u64(out, h->open_files_limit);
}

int wardenhello_decode(const void *p, size_t n, WardenHello *ret)
{
        Reader reader = { .data = p, .size = n };
        WardenHello h = {};

        if (read_u32(&reader) != WARDENHELLO_MAGIC)
                return -EBADMSG;
        h.uid = read_u32(&reader);
        h.gid = read_u32(&reader);
        h.capabilities = read_u64(&reader);
        h.no_new_privileges = read_bool(&reader);
        h.seccomp_mode = read_u8(&reader);
        h.netns_inode = read_u64(&reader);
        h.userns_inode = read_u64(&reader);
        h.mntns_inode = read_u64(&reader);
        h.n_fds = read_u32(&reader);
        h.canary_loopback = read_u32(&reader);
        h.canary_metadata = read_u32(&reader);
        h.memory_limit = read_u64(&reader);
        h.open_files_limit = read_u64(&reader);
        if (read_end(&reader) < 0)
                return -EBADMSG;
        *ret = h;
        return 0;
}

/* Success has no stage; nothing but zeroes follows the first one. */
static bool wardenready_valid(const WardenReady *r)
{
        size_t n = strnlen(r->stage, sizeof(r->stage));

        if (r->error < 0 || r->error > ERRNO_MAX || n == sizeof(r->stage) || (r->error == 0 && n > 0))
                return false;
        for (size_t i = 0; i < sizeof(r->stage); i++)
                if (i < n ? !isascii((unsigned char) r->stage[i]) || !isprint((unsigned char) r->stage[i])
                          : r->stage[i] != 0)
                        return false;
        return true;
}

int wardenready_encode(const WardenReady *r, Buf *out)
{
        if (!wardenready_valid(r))
                return -EINVAL;
        buf_u32(out, WARDENREADY_MAGIC);
        buf_u32(out, (uint32_t) r->error);
        return buf_append(out, r->stage, sizeof(r->stage));
}

int wardenready_decode(const void *p, size_t n, WardenReady *ret)
{
        Reader reader = { .data = p, .size = n };
        WardenReady r = {};

        if (read_u32(&reader) != WARDENREADY_MAGIC)
                return -EBADMSG;
        r.error = (int32_t) read_u32(&reader);
        read_bytes(&reader, (uint8_t *) r.stage, sizeof(r.stage));
        if (read_end(&reader) < 0 || !wardenready_valid(&r))
                return -EBADMSG;
        *ret = r;
        return 0;
}

/* ---- what of the records is in the journal */

uint64_t journal_proof_check(const JournalProof *p)
{
        return ~(p->arrived + 3 * p->missing_to + 5 * p->looked_at);
}
