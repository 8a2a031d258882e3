/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "policy/allow-rule.h"
#include "policy/filter-compile.h"
#include "policy/policy-checks.h"
#include "policy/policy-suggest.h"

/* As systemd.exec(5) has it. */
#define CREDENTIALS_VARIABLE "CREDENTIALS_DIRECTORY"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

/* Of a sequence that starts with a byte of 0x80 or more. */
static size_t multibyte_sequence(const uint8_t *p, size_t n)
{
        size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
        uint32_t c = p[0] & (0x7fu >> length);

        if (p[0] < 0xc2 || p[0] > 0xf4 || length > n)
                return 0;
        for (size_t i = 1; i < length; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if ((length == 3 && c < 0x800) || (length == 4 && c < 0x10000) || c > 0x10ffff ||
                        (c >= 0xd800 && c <= 0xdfff))
                return 0;
        /* C1 controls, and what hides or turns around the text that a person reads. */
        if (c < 0xa0 || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                        (c >= 0x2060 && c <= 0x2069) || c == 0xfeff)
                return 0;
        return length;
}

size_t policy_text_sequence(const char *s, size_t n)
{
        uint8_t c = (uint8_t) s[0];

        if (n == 0)
                return 0;
        if (c < 0x80)
                return c >= 0x20 && c != 0x7f;
        return multibyte_sequence((const uint8_t *) s, n);
}

int policy_check_text(const char *s, size_t *ret_offset, Error **reterr)
{
        size_t n = strlen(s), backslashes = 0;

        for (size_t i = 0; i < n;) {
                size_t length = s[i] == '\t' ? 1 : policy_text_sequence(s + i, n - i);

                if (length == 0) {
                        *ret_offset = i;
                        return error_set(reterr, -EINVAL,
                                        "control characters and invalid UTF-8 cannot be part of a value");
                }
                i += length;
        }
        while (backslashes < n && s[n - 1 - backslashes] == '\\')
                backslashes++;
        if (backslashes % 2 == 1) {
                *ret_offset = n - 1;
                return error_set(reterr, -EINVAL,
                                "a value cannot end in a backslash, which continues the line");
        }
        return 0;
}

int policy_check_policy_name(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        size_t n = strlen(s);

        if (n == 0 || n > 64 || s[0] == '.' || s[0] == '-' || strspn(s, NAME_CHARACTERS) != n) {
                *ret_offset = 0;
                return error_set(reterr, -EINVAL,
                                "\"%s\" is no name of a policy: up to 64 letters, digits, \"_\", \"-\" and "
                                "\".\", not starting with \".\" or \"-\"",
                                s);
        }
        return 0;
}

bool policy_path_beneath(const char *path, const char *directory)
{
        const char *rest = startswith(path, directory);

        if (streq(directory, "/"))
                return path[0] == '/';
        return rest && (rest[0] == 0 || rest[0] == '/');
}

/* Absolute, in its shortest spelling, without bytes that a list or a bind would read as something else. */
static int check_path(const char *s, size_t *ret_offset, Error **reterr)
{
        if (s[0] != '/') {
                *ret_offset = 0;
                return error_set(reterr, -EINVAL, "\"%s\" is not an absolute path", s);
        }
        for (const char *c = s; *c; c++) {
                size_t n;

                *ret_offset = (size_t) (c - s);
                if (*c == ':' || isspace((unsigned char) *c))
                        return error_set(reterr, -EINVAL, "a path here cannot contain blanks or \":\"");
                if (*c != '/')
                        continue;
                n = strcspn(c + 1, "/");
                if (n == 0 && (c[1] == '/' || c > s))
                        return error_set(reterr, -EINVAL,
                                        "a path is written without \"//\" and without \"/\" at its end");
                if ((n == 1 && c[1] == '.') || (n == 2 && c[1] == '.' && c[2] == '.'))
                        return error_set(reterr, -EINVAL, "a path is written without \".\" and \"..\"");
                if (n > 255)
                        return error_set(reterr, -EINVAL, "a part of a path has at most 255 bytes");
        }
        return 0;
}

int policy_check_root(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        if (streq(s, "host-usr"))
                return 0;
        if (s[0] != '/') {
                *ret_offset = 0;
                return error_set(reterr, -EINVAL, "\"%s\" is neither host-usr nor an absolute path%s", s,
                                policy_suggest(s, (const char *const[]){ "host-usr" }, 1)
                                                ? "; did you mean host-usr?"
                                                : "");
        }
        return check_path(s, ret_offset, reterr);
}

typedef struct ClosedPath {
        const char *path, *why;
} ClosedPath;

static const char secrets[] = "holds secrets of the host";
static const char private_files[] = "holds the users' own files";
static const char sockets[] = "holds sockets and state of the host's services";
static const char own[] = "is made anew for each run";
static const char kernel[] = "is the kernel's; the sandbox has its own";

/* What nothing may expose: neither the path, nor what lies beneath it, nor a directory that contains it. */
static const ClosedPath closed[] = {
        { "/proc", kernel },
        { "/sys", kernel },
        { "/dev", kernel },
        { "/run", sockets },
        { "/var/run", sockets },
        { "/var/lock", sockets },
        { "/tmp", own },
        { "/var/tmp", own },
        { "/root", private_files },
        { "/home", private_files },
        { "/var/mail", private_files },
        { "/var/spool", private_files },
        { "/boot", secrets },
        { "/etc/shadow", secrets },
        { "/etc/shadow-", secrets },
        { "/etc/gshadow", secrets },
        { "/etc/gshadow-", secrets },
        { "/etc/sudoers", secrets },
        { "/etc/sudoers.d", secrets },
        { "/etc/ssh", secrets },
        { "/etc/ssl/private", secrets },
        { "/etc/pki/private", secrets },
        { "/etc/pki/tls/private", secrets },
        { "/etc/letsencrypt", secrets },
        { "/etc/wireguard", secrets },
        { "/etc/NetworkManager", secrets },
        { "/etc/netplan", secrets },
        { "/etc/krb5.keytab", secrets },
        { "/etc/security", secrets },
        { "/etc/pam.d", secrets },
        { "/etc/polkit-1", secrets },
        { "/etc/kubernetes", secrets },
        { "/etc/docker", secrets },
        { "/etc/credstore", secrets },
        { "/etc/credstore.encrypted", secrets },
        { "/etc/machine-id", secrets },
        { "/etc/agentbox", "holds agentbox's own policies" },
        { "/etc/passwd", own },
        { "/etc/group", own },
        { "/etc/hosts", own },
        { "/etc/hostname", own },
        { "/etc/resolv.conf", own },
        { "/etc/nsswitch.conf", own },
        { "/var/log", secrets },
        { "/var/backups", secrets },
        { "/var/lib/agentbox", secrets },
        { "/var/lib/systemd", secrets },
        { "/var/lib/private", secrets },
        { "/var/lib/dbus", secrets },
        { "/var/lib/sss", secrets },
        { "/var/lib/docker", secrets },
        { "/var/lib/containers", secrets },
        { "/var/lib/containerd", secrets },
        { "/var/lib/kubelet", secrets },
        { "/var/lib/libvirt", secrets },
        { "/var/lib/lxc", secrets },
        { "/var/lib/machines", secrets },
        { "/var/lib/cloud", secrets },
        { "/var/lib/NetworkManager", secrets },
        { "/var/lib/mysql", secrets },
        { "/var/lib/postgresql", secrets },
        { "/var/lib/polkit-1", secrets },
};

int policy_check_expose(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        int r = check_path(s, ret_offset, reterr);

        if (r < 0)
                return r;
        *ret_offset = 0;
        if (streq(s, "/"))
                return error_set(reterr, -EINVAL, "/ would expose everything that the host has");
        for (size_t i = 0; i < ELEMENTSOF(closed); i++) {
                if (policy_path_beneath(s, closed[i].path))
                        return error_set(reterr, -EINVAL, "%s cannot be exposed: %s %s", s, closed[i].path,
                                        closed[i].why);
                if (policy_path_beneath(closed[i].path, s))
                        return error_set(reterr, -EINVAL, "%s cannot be exposed: it contains %s, which %s",
                                        s, closed[i].path, closed[i].why);
        }
        return 0;
}

/* Who may read what is in it, the caller's own rights say; this is for what no caller should have to think of. */
int policy_check_view(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        static const ClosedPath never[] = {
                { "/proc", kernel }, { "/sys", kernel }, { "/dev", kernel }, { "/run", sockets }, { "/var/run", sockets }
        };
        int r = check_path(s, ret_offset, reterr);

        if (r < 0)
                return r;
        *ret_offset = 0;
        if (streq(s, "/"))
                return error_set(reterr, -EINVAL, "/ would open everything that the host has to views");
        for (size_t i = 0; i < ELEMENTSOF(never); i++)
                if (policy_path_beneath(s, never[i].path))
                        return error_set(reterr, -EINVAL, "%s cannot be viewed: %s %s", s, never[i].path, never[i].why);
        return 0;
}

const char *policy_credential_path(const char *item)
{
        return strchr(item, ':') + 1;
}

/* The name becomes a file's, the path a word of a unit's file, in which PID 1 looks for quotes and
 * specifiers. */
int policy_check_credential(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        static const char *const never[] = { "/proc", "/sys", "/dev", "/tmp", "/var/tmp" };
        size_t n = strcspn(s, ":");
        int r;

        *ret_offset = 0;
        if (s[n] != ':')
                return error_set(reterr, -EINVAL,
                                "\"%s\" is not of the form NAME:PATH, such as "
                                "api-token:/etc/agentbox/credentials/api-token",
                                s);
        if (n == 0 || n > 64 || s[0] == '.' || s[0] == '-' || strspn(s, NAME_CHARACTERS) != n)
                return error_set(reterr, -EINVAL,
                                "\"%.*s\" is no name of a credential: up to 64 letters, digits, \"_\", "
                                "\"-\" "
                                "and \".\", not starting with \".\" or \"-\"",
                                (int) MIN2(n, (size_t) 80), s);
        r = check_path(s + n + 1, ret_offset, reterr);
        *ret_offset += n + 1;
        if (r < 0)
                return r;
        *ret_offset = n + 1 + strspn(s + n + 1, NAME_CHARACTERS "/@+=,");
        if (s[*ret_offset])
                return error_set(reterr, -EINVAL,
                                "the path of a credential has letters, digits and \"/_.-@+=,\" alone");
        *ret_offset = n + 1;
        if (streq(s + n + 1, "/"))
                return error_set(reterr, -EINVAL, "/ is no file");
        for (size_t i = 0; i < ELEMENTSOF(never); i++)
                if (policy_path_beneath(s + n + 1, never[i]))
                        return error_set(reterr, -EINVAL, "no credential lies beneath %s", never[i]);
        return 0;
}

/* Where a workspace would hide what the sandbox needs, or be hidden by it. */
int policy_check_workspace(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        static const char *const taken[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
                "/etc", "/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/boot", "/root", "/home" };
        int r = check_path(s, ret_offset, reterr);

        if (r < 0)
                return r;
        *ret_offset = 0;
        if (streq(s, "/"))
                return error_set(reterr, -EINVAL, "the root itself cannot be the workspace");
        /* It stands in ExecStart= of the run's unit. */
        *ret_offset = strcspn(s, "$");
        if (s[*ret_offset])
                return error_set(reterr, -EINVAL, "PID 1 would take what follows \"$\" for a variable");
        *ret_offset = 0;
        for (size_t i = 0; i < ELEMENTSOF(taken); i++)
                if (policy_path_beneath(s, taken[i]))
                        return error_set(reterr, -EINVAL,
                                        "%s is taken: the workspace needs a place of its own, such as "
                                        "/workspace or /srv/work",
                                        taken[i]);
        return 0;
}

static int check_env_name(const char *s, size_t n, size_t *ret_offset, Error **reterr)
{
        *ret_offset = 0;
        if (n == 0)
                return error_set(reterr, -EINVAL, "the name of the variable is missing");
        for (size_t i = 0; i < n; i++)
                if (!isascii((unsigned char) s[i]) || !(isalnum((unsigned char) s[i]) || s[i] == '_') ||
                                (i == 0 && isdigit((unsigned char) s[i]))) {
                        *ret_offset = i;
                        return error_set(reterr, -EINVAL,
                                        "\"%.*s\" is no name of a variable: letters, digits and \"_\", no "
                                        "digit "
                                        "first%s",
                                        (int) MIN2(n, (size_t) 64), s,
                                        s[i] == '"' || s[i] == '\''
                                                        ? " (quotes are not needed and not taken away)"
                                                        : "");
                }
        if (strncmp(s, "AGENTBOX_", 9) == 0)
                return error_set(reterr, -EINVAL, "names that start with AGENTBOX_ are agentbox's own");
        if (n == strlen(CREDENTIALS_VARIABLE) && memcmp(s, CREDENTIALS_VARIABLE, n) == 0)
                return error_set(reterr, -EINVAL,
                                CREDENTIALS_VARIABLE " is agentbox's own: it says where the files of "
                                                     "[Files] Credential= are");
        return 0;
}

int policy_check_set(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        const char *equals = strchr(s, '=');
        size_t n = equals ? (size_t) (equals - s) : strlen(s);
        int r = check_env_name(s, n, ret_offset, reterr);

        if (r < 0)
                return r;
        if (!equals)
                return error_set(reterr, -EINVAL,
                                "\"=\" is missing: Set=NAME=VALUE (Pass=NAME takes the caller's value)");
        if (n > 128)
                return error_set(reterr, -EINVAL, "the name of a variable has at most 128 bytes");
        if (strchr(s, '\t')) {
                *ret_offset = (size_t) (strchr(s, '\t') - s);
                return error_set(reterr, -EINVAL, "a tab cannot be part of a variable's value");
        }
        return 0;
}

int policy_check_pass(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        if (strchr(s, '=')) {
                *ret_offset = (size_t) (strchr(s, '=') - s);
                return error_set(reterr, -EINVAL, "Pass= takes names only; Set=NAME=VALUE gives a value");
        }
        return check_env_name(s, strlen(s), ret_offset, reterr);
}

int policy_check_allow(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        AllowRule rule;
        char *text;
        int r = allow_rule_parse(s, &rule, ret_offset, reterr);

        if (r < 0)
                return r;
        text = allow_rule_format(&rule);
        if (!text)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret_canonical = text;
        return 0;
}

static int check_syscall(const char *s, size_t *ret_offset, Error **reterr)
{
        const char *const *names = filter_known_names();
        const char *near;
        size_t n = 0;

        if (filter_name_known(s))
                return 0;
        while (names[n])
                n++;
        near = policy_suggest(s, names, n);
        *ret_offset = 0;
        return error_set(reterr, -EINVAL, "unknown system call%s \"%s\"%s%s%s", s[0] == '@' ? " group" : "",
                        s, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int policy_check_syscall_allow(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        int r = check_syscall(s, ret_offset, reterr);

        if (r < 0)
                return r;
        if (!filter_name_allowable(s)) {
                *ret_offset = 0;
                return error_set(reterr, -EINVAL, "%s cannot be allowed: it opens a way around the sandbox",
                                s);
        }
        return 0;
}

int policy_check_syscall_deny(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        return check_syscall(s, ret_offset, reterr);
}

/* A user or group by name or number; whether there is one is the broker's to find out. */
int policy_check_account(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        size_t n = strlen(s);

        *ret_offset = 0;
        if (strspn(s, "0123456789") == n) {
                if (n > 10 || (s[0] == '0' && n > 1) || strtoul(s, NULL, 10) > UINT32_MAX - 1)
                        return error_set(reterr, -EINVAL, "%s is no user or group number", s);
                return 0;
        }
        if (s[0] == '-' || s[0] == '.' || isdigit((unsigned char) s[0]) ||
                        strspn(s, NAME_CHARACTERS "$@+") != n)
                return error_set(reterr, -EINVAL, "\"%s\" is no name of a user or group", s);
        return 0;
}
