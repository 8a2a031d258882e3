/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "base/parse.h"
#include "warden/warden-http.h"
#include "warden/warden-name.h"

#define CHUNK_DIGITS_MAX 8u
#define CHUNK_SIZE_MAX UINT64_C(0x7fffffff)
#define LENGTH_DIGITS_MAX 19u

void http_reader_init(HttpReader *h, const char *name, uint16_t port)
{
        *h = (HttpReader){ .name = name, .port = port, .state = HTTP_HEAD };
}

static size_t fail(HttpReader *h, HttpVerdict *v, EgressReason reason, unsigned status)
{
        h->state = HTTP_FAILED;
        v->reason = reason;
        v->status = status;
        return 0;
}

static size_t fail_bad(HttpReader *h, HttpVerdict *v)
{
        return fail(h, v, EGRESS_BAD_REQUEST, 400);
}

/* ---- bytes and pieces of a line */

/* RFC 9110, 5.6.2. */
static bool is_token_byte(uint8_t c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (c != 0 && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(ByteSpan s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!is_token_byte(s.p[i]))
                        return false;
        return s.n > 0;
}

/* That no line may hold, besides its end. */
static bool is_control(uint8_t c)
{
        return (c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
}

static bool is_blank(uint8_t c)
{
        return c == ' ' || c == '\t';
}

static ByteSpan trim(ByteSpan s)
{
        while (s.n > 0 && is_blank(s.p[0]))
                s.p++, s.n--;
        while (s.n > 0 && is_blank(s.p[s.n - 1]))
                s.n--;
        return s;
}

static bool same(ByteSpan s, const char *text)
{
        return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* Everything up to the first c into *ret, and *s behind that; false: there is none. */
static bool cut(ByteSpan *s, uint8_t c, ByteSpan *ret)
{
        const uint8_t *at = s->n > 0 ? memchr(s->p, c, s->n) : NULL;

        if (!at)
                return false;
        *ret = (ByteSpan){ s->p, (size_t) (at - s->p) };
        s->n -= ret->n + 1;
        s->p = at + 1;
        return true;
}

/* The next line of a section that was scanned, without its CRLF. The last one is empty. */
static ByteSpan take_line(ByteSpan *section)
{
        ByteSpan line = *section;

        if (!cut(section, '\n', &line))
                section->n = 0;
        if (line.n > 0)
                line.n--;
        return line;
}

/* ---- the request line */

typedef struct Head {
        bool version_1_0, trace;
        ByteSpan authority; /* of an absolute-form target; p is NULL: another form */
        ByteSpan host;
        unsigned n_hosts, n_lengths, n_codings, n_expects;
        uint64_t length;
} Head;

static bool target_read(ByteSpan target, bool options, Head *head)
{
        static const char scheme[] = "http://";

        for (size_t i = 0; i < target.n; i++)
                if (target.p[i] <= ' ' || target.p[i] >= 0x7f || target.p[i] == '#')
                        return false;
        if (target.n == 0)
                return false;
        if (target.p[0] == '/')
                return true;
        if (same(target, "*"))
                return options;
        if (target.n < strlen(scheme) || !span_is((ByteSpan){ target.p, strlen(scheme) }, scheme))
                return false;
        head->authority = (ByteSpan){ target.p + strlen(scheme), 0 };
        while (strlen(scheme) + head->authority.n < target.n &&
                        !strchr("/?", head->authority.p[head->authority.n]))
                head->authority.n++;
        return true;
}

static bool request_line_read(ByteSpan line, Head *head)
{
        ByteSpan method, target;

        if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target))
                return false;
        /* Methods are told apart by case, but not by everybody. */
        if (!is_token(method) || span_is(method, "connect") || span_is(method, "pri"))
                return false;
        head->trace = span_is(method, "trace");
        head->version_1_0 = same(line, "HTTP/1.0");
        if (!head->version_1_0 && !same(line, "HTTP/1.1"))
                return false;
        return target_read(target, same(method, "OPTIONS"), head);
}

/* ---- the fields that frame or route a request */

/* For what the framing hangs on: one blank is what every client sends and every reader trims. The rest of
 * the value must then be what is wanted, byte for byte. */
static ByteSpan without_blank(ByteSpan value)
{
        if (value.n > 0 && value.p[0] == ' ')
                value.p++, value.n--;
        return value;
}

static bool take_host(Head *head, ByteSpan value)
{
        head->host = trim(value);
        return ++head->n_hosts == 1;
}

static bool take_length(Head *head, ByteSpan value)
{
        char digits[LENGTH_DIGITS_MAX + 1] = {};

        value = without_blank(value);
        if (value.n > LENGTH_DIGITS_MAX || (value.n > 1 && value.p[0] == '0'))
                return false;
        memcpy(digits, value.p, value.n);
        return parse_u64(digits, &head->length) >= 0 && head->length <= INT64_MAX && ++head->n_lengths == 1;
}

static bool take_coding(Head *head, ByteSpan value)
{
        return same(without_blank(value), "chunked") && ++head->n_codings == 1;
}

static bool take_expect(Head *head, ByteSpan value)
{
        return same(without_blank(value), "100-continue") && ++head->n_expects == 1;
}

static bool take_connection(Head *head, ByteSpan value);

typedef struct FieldRule {
        const char *name;
        bool (*take)(Head *head, ByteSpan value); /* NULL: refused */
} FieldRule;

static const FieldRule field_rules[] = {
        { "host", take_host },
        { "content-length", take_length },
        { "transfer-encoding", take_coding },
        { "expect", take_expect },
        { "connection", take_connection },
        { "upgrade", NULL },
        { "http2-settings", NULL },
};

/* CGI and its kin take "_" and "-" for the same: *ret_exact tells. NULL: none of these. */
static const FieldRule *field_rule_find(ByteSpan name, bool *ret_exact)
{
        char text[32];

        if (name.n >= sizeof(text))
                return NULL;
        for (size_t i = 0; i < name.n; i++)
                text[i] = (char) (name.p[i] == '_' ? '-' : name.p[i]);
        for (size_t i = 0; i < ELEMENTSOF(field_rules); i++)
                if (span_is((ByteSpan){ (const uint8_t *) text, name.n }, field_rules[i].name)) {
                        *ret_exact = !memchr(name.p, '_', name.n);
                        return field_rules + i;
                }
        return NULL;
}

/* What Connection names a proxy takes out of the request: that must be nothing of importance. */
static bool take_connection(Head *head, ByteSpan value)
{
        for (bool more = true; more;) {
                ByteSpan option = value;
                bool exact;

                more = cut(&value, ',', &option);
                option = trim(option);
                if (!is_token(option) || field_rule_find(option, &exact))
                        return false;
        }
        return true;
}

/* head is NULL: in a trailer section, where none of these has a place. */
static bool field_read(ByteSpan line, Head *head)
{
        const FieldRule *rule;
        ByteSpan name;
        bool exact;

        if (!cut(&line, ':', &name) || !is_token(name))
                return false;
        rule = field_rule_find(name, &exact);
        return !rule || (head && exact && rule->take && rule->take(head, line));
}

static bool fields_read(ByteSpan section, Head *head)
{
        while (section.n > 0) {
                ByteSpan line = take_line(&section);

                if (section.n > 0 && !field_read(line, head))
                        return false;
        }
        return true;
}

/* ---- a head */

/* RFC 9112, 6: whether one body follows, and which, is beyond doubt. */
static bool framing_good(const Head *head)
{
        bool body = head->n_codings > 0 || head->length > 0;

        if (head->n_codings > 0 && (head->n_lengths > 0 || head->version_1_0))
                return false;
        if (head->n_expects > 0 && (!body || head->version_1_0))
                return false;
        return !head->trace || !body;
}

static bool authority_is(ByteSpan s, const char *name, uint16_t port)
{
        char text[8];
        size_t n = strlen(name);

        if (span_is(s, name))
                return true;
        snprintf(text, sizeof(text), ":%u", port);
        return s.n > n && span_is((ByteSpan){ s.p, n }, name) && same((ByteSpan){ s.p + n, s.n - n }, text);
}

/* What the record says that a refused request was for: of two authorities the one that is not the name. */
static void name_host(const HttpReader *h, const Head *head, HttpVerdict *v)
{
        bool target = head->authority.p && !authority_is(head->authority, h->name, h->port);

        span_escape(target ? head->authority : head->host, v->host, sizeof(v->host));
}

/* Takes a head that was scanned: it passes as a whole or not at all. */
static size_t head_take(HttpReader *h, ByteSpan section, HttpVerdict *v)
{
        ByteSpan rest = section;
        Head head = {};

        if (!request_line_read(take_line(&rest), &head) || !fields_read(rest, &head) || head.n_hosts == 0 ||
                        !framing_good(&head)) {
                name_host(h, &head, v);
                return fail_bad(h, v);
        }
        if (!authority_is(head.host, h->name, h->port) ||
                        (head.authority.p && !authority_is(head.authority, h->name, h->port))) {
                name_host(h, &head, v);
                return fail(h, v, EGRESS_HOST_MISMATCH, 400);
        }
        h->left = head.length;
        h->state = head.n_codings > 0 ? HTTP_CHUNK_SIZE : head.length > 0 ? HTTP_BODY : HTTP_HEAD;
        h->n_requests++;
        return section.n;
}

/* ---- where a head or a trailer section ends */

/* A line of it ends at p[i], a line feed. 1: the section too; 0: more is to come; negative: it failed. */
static int section_line_end(HttpReader *h, const uint8_t *p, size_t i, HttpVerdict *v)
{
        bool in_head = h->state == HTTP_HEAD;
        Head head = {};

        /* At once: who speaks another protocol, and waits for an answer to its first line, gets one. */
        if (in_head && h->n_lines == 0 && !request_line_read((ByteSpan){ p, i - 1 }, &head)) {
                fail_bad(h, v);
                return -1;
        }
        if (i == 1 || p[i - 2] == '\n')
                return 1;
        if (++h->n_lines > HTTP_FIELDS_MAX + in_head) {
                fail(h, v, EGRESS_TOO_LARGE, 431);
                return -1;
        }
        return 0;
}

/* Goes on where the last call ended, and stops at the first byte that decides. Returns the length of a
 * section that is there as a whole and holds no byte that it may not, else 0. */
static size_t section_scan(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v)
{
        for (; h->seen < n; h->seen++) {
                size_t i = h->seen;
                uint8_t c = p[i];
                bool after_cr = i > 0 && p[i - 1] == '\r';

                if ((c == '\n') != after_cr || is_control(c))
                        return fail_bad(h, v);
                if (c == '\n') {
                        int r = section_line_end(h, p, i, v);

                        if (r != 0)
                                return r > 0 ? i + 1 : 0;
                } else if (h->state == HTTP_HEAD && h->n_lines == 0 && i >= HTTP_LINE_MAX && c != '\r')
                        return fail(h, v, EGRESS_TOO_LARGE, 414);
                if (i + 1 >= HTTP_HEAD_MAX)
                        return fail(h, v, EGRESS_TOO_LARGE, 431);
        }
        return 0;
}

static size_t step_section(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v)
{
        ByteSpan section = { p, section_scan(h, p, n, v) };

        if (section.n == 0)
                return 0;
        h->seen = h->n_lines = 0;
        if (h->state == HTTP_HEAD)
                return head_take(h, section, v);
        if (!fields_read(section, NULL))
                return fail_bad(h, v);
        h->state = HTTP_HEAD;
        return section.n;
}

/* ---- bodies */

static size_t step_data(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v)
{
        size_t taken = h->left < n ? (size_t) h->left : n;

        h->left -= taken;
        if (h->left == 0)
                h->state = h->state == HTTP_BODY ? HTTP_HEAD : HTTP_CHUNK_END;
        return taken;
}

/* CRLF at p[i], as far as it is there. 1: all of it is; 0: not yet; negative: it is something else. */
static int line_end_at(const uint8_t *p, size_t n, size_t i)
{
        if ((i < n && p[i] != '\r') || (i + 1 < n && p[i + 1] != '\n'))
                return -1;
        return i + 1 < n;
}

/* Negative: no hexadecimal digit. */
static int hex_value(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t step_chunk_size(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v)
{
        uint64_t size = 0;
        size_t i;
        int r;

        for (i = 0; i < n && i <= CHUNK_DIGITS_MAX && hex_value(p[i]) >= 0; i++)
                size = size << 4 | (uint64_t) hex_value(p[i]);
        if (i > CHUNK_DIGITS_MAX || size > CHUNK_SIZE_MAX || (i == 0 && n > 0))
                return fail_bad(h, v);
        r = line_end_at(p, n, i);
        if (r < 0)
                return fail_bad(h, v);
        if (r == 0)
                return 0;
        h->left = size;
        h->state = size > 0 ? HTTP_CHUNK_DATA : HTTP_TRAILER;
        return i + 2;
}

static size_t step_chunk_end(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v)
{
        int r = line_end_at(p, n, 0);

        if (r < 0)
                return fail_bad(h, v);
        if (r == 0)
                return 0;
        h->state = HTTP_CHUNK_SIZE;
        return 2;
}

/* Each returns how many bytes may go out; 0: more are needed, or it failed. */
static size_t (*const steps[])(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *v) = {
        [HTTP_HEAD] = step_section,
        [HTTP_BODY] = step_data,
        [HTTP_CHUNK_SIZE] = step_chunk_size,
        [HTTP_CHUNK_DATA] = step_data,
        [HTTP_CHUNK_END] = step_chunk_end,
        [HTTP_TRAILER] = step_section,
};
_Static_assert(ELEMENTSOF(steps) == HTTP_FAILED, "each state but the last has a step");

void http_reader_feed(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *ret)
{
        *ret = (HttpVerdict){};
        if (h->state == HTTP_FAILED)
                fail_bad(h, ret);
        while (h->state != HTTP_FAILED && ret->pass < n) {
                size_t taken = steps[h->state](h, p + ret->pass, n - ret->pass, ret);

                if (taken == 0)
                        break;
                ret->pass += taken;
        }
}

/* ---- what the sandbox is told */

typedef struct StatusText {
        unsigned status;
        const char *phrase;
} StatusText;

static const StatusText status_texts[] = {
        { 400, "Bad Request" },
        { 408, "Request Timeout" },
        { 414, "URI Too Long" },
        { 431, "Request Header Fields Too Large" },
};

static const char *refusal(EgressReason reason)
{
        switch (reason) {
        case EGRESS_HOST_MISMATCH:
                return "it is for another host than the rule of this connection names";
        case EGRESS_TOO_LARGE:
                return "its head is too large";
        case EGRESS_TIMEOUT:
                return "its head did not come in time";
        case EGRESS_BAD_REQUEST:
                return "it is not plain HTTP/1.1, or two readers could read it differently";
        default:
                return "the policy does not allow it";
        }
}

size_t http_error_response(unsigned status, EgressReason reason, char *buf, size_t size)
{
        const StatusText *text = status_texts;
        char body[256];
        int n;

        for (size_t i = 0; i < ELEMENTSOF(status_texts); i++)
                if (status_texts[i].status == status)
                        text = status_texts + i;
        n = snprintf(body, sizeof(body),
                        "agentbox refused this request: %s (%s). \"agentbox why\" shows the record.\n",
                        refusal(reason), egress_reason_to_string(reason));
        n = snprintf(buf, size,
                        "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=us-ascii\r\n"
                        "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                        text->status, text->phrase, n, body);
        return n > 0 && (size_t) n < size ? (size_t) n : 0;
}
