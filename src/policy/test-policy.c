/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/policy-checks.h"
#include "policy/policy-explain.h"
#include "policy/policy-keys.h"
#include "policy/policy-suggest.h"
#include "policy/policy.h"
#include "policy/prefix-set.h"

static int parse(const char *text, Policy **ret, Error **reterr)
{
        static const char *const nowhere[] = { NULL };

        return policy_load_text("t.policy", text, strlen(text), nowhere, "/nonexistent", ret, reterr);
}

static Policy *parsed(const char *text)
{
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (parse(text, &p, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        return p;
}

static void refused(const char *text, const char *says)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_policy_ Policy *p = NULL;

        if (parse(text, &p, &e) != -EINVAL)
                fail_msg("accepted: %s", text);
        assert_null(p);
        if (!strstr(e->message, says))
                fail_msg("%s\nsays: %s\nwanted: %s", text, e->message, says);
}

static void test_table(void **state)
{
        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                const PolicyKeyInfo *i = policy_keys + k;

                assert_non_null(i->section);
                assert_non_null(i->name);
                assert_true(policy_section_known(i->section));
                assert_int_equal(policy_key_find(i->section, i->name), k);
                assert_true(strlen(i->doc) > 20);
                assert_true(i->by != 0);
                assert_int_equal(i->type == POLICY_TYPE_ENUM, i->n_names > 0);
                assert_int_equal(i->type == POLICY_TYPE_LIST, i->merge == POLICY_MERGE_APPEND);
                if (i->type == POLICY_TYPE_LIST || i->type == POLICY_TYPE_STRING)
                        assert_true(i->max > 0);
                if (i->type == POLICY_TYPE_LIST)
                        assert_null(i->fallback); /* the printer leaves empty lists out */
                else if (i->order == POLICY_ORDER_SUBSET || i->order == POLICY_ORDER_SUPERSET)
                        fail_msg("%s", i->name);
        }
}

static void test_defaults(void **state)
{
        _cleanup_policy_ Policy *p = parsed("");

        assert_string_equal(policy_string(p, FILES_ROOT), "host-usr");
        assert_string_equal(policy_string(p, FILES_WORKSPACE), "/workspace");
        assert_int_equal(policy_u64(p, FILES_WORKSPACE_SIZE), 256 << 20);
        assert_int_equal(policy_u64(p, FILES_WORKSPACE_INODES), 64 << 10);
        assert_int_equal(policy_u64(p, NETWORK_EGRESS), EGRESS_FILTERED);
        assert_int_equal(policy_u64(p, LIMITS_CPU_QUOTA), 100);
        assert_int_equal(policy_u64(p, LIMITS_MEMORY), 256 << 20);
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 64);
        assert_int_equal(policy_u64(p, LIMITS_RUNTIME), 60000000);
        assert_int_equal(policy_u64(p, LIMITS_OPEN_FILES), 1024);
        assert_int_equal(policy_u64(p, LIMITS_OUTPUT), 64 << 20);
        assert_int_equal(policy_u64(p, AUDIT_ARGUMENTS), ARGUMENTS_FIRST);
        assert_int_equal(policy_u64(p, ACCESS_TIGHTEN), 1);
        assert_true(policy_is_set(p, LIMITS_CORE_SIZE));
        assert_false(policy_is_set(p, LIMITS_FILE_SIZE));
        assert_false(policy_is_set(p, NETWORK_EGRESS_BYTES));
        assert_int_equal(policy_u64(p, NETWORK_CONNECTIONS), 1024);
        assert_false(policy_is_set(p, NETWORK_ALLOW));
        assert_null(policy_list(p, NETWORK_ALLOW));
        assert_int_equal(policy_check_enforceable(p, false, NULL), 0);
}

static void test_form(void **state)
{
        _cleanup_policy_ Policy *p = parsed("\n"
                                            "  # comment\n"
                                            "; another [Files]\n"
                                            "\t[Limits]\t\n"
                                            "  Memory \t = \t 1G  \n"
                                            "Tasks=5\n"
                                            "Tasks=6\n"
                                            "Runtime=5s\n"
                                            "Runtime=\n"
                                            "[Environment]\n"
                                            "Set=A=one # no comment\n"
                                            "Set=B=two=3 \\\n"
                                            "# a comment between continued lines\n"
                                            "    and more\n"
                                            "Set=A=last\n"
                                            "Pass=X Y\tZ\n"
                                            "Pass=\n"
                                            "Pass=Q Q\n"
                                            "[Limits]\n"
                                            "OpenFiles=20");

        assert_int_equal(policy_u64(p, LIMITS_MEMORY), 1 << 30);
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 6);
        assert_int_equal(policy_u64(p, LIMITS_RUNTIME), 60000000);
        assert_int_equal(policy_u64(p, LIMITS_OPEN_FILES), 20);
        assert_int_equal(strv_length(policy_list(p, ENVIRONMENT_SET)), 2);
        assert_string_equal(policy_list(p, ENVIRONMENT_SET)[0], "A=last");
        assert_string_equal(policy_list(p, ENVIRONMENT_SET)[1], "B=two=3  and more");
        assert_int_equal(strv_length(policy_list(p, ENVIRONMENT_PASS)), 1);
        assert_string_equal(policy_list(p, ENVIRONMENT_PASS)[0], "Q");
        /* Where each came from. */
        assert_string_equal(p->values[LIMITS_MEMORY].source.file, "t.policy");
        assert_int_equal(p->values[LIMITS_MEMORY].source.line, 5);
        assert_null(p->values[LIMITS_OUTPUT].source.file);
        assert_string_equal(p->values[ENVIRONMENT_SET].from[1], "t.policy:12:5");
}

static void test_refused_forms(void **state)
{
        static const char *const rows[][2] = {
                { "[Limits]\nMemory\n", "t.policy:2:1: neither" },
                { "[Limits]\n=5\n", "t.policy:2:1: the key is missing" },
                { "[Limits\nTasks=5\n", "t.policy:1:1: a section is written" },
                { "[Limits] x\n", "t.policy:1:1: a section is written" },
                { "[]\n", "t.policy:1:1: a section is written" },
                { "[limits]\n", "t.policy:1:2: unknown section [limits]; did you mean [Limits]?" },
                { "Tasks=5\n", "t.policy:1:1: Tasks= stands before" },
                { "[Limits]\ntasks=5\n",
                                "t.policy:2:1: unknown key tasks= in [Limits]; did you mean Tasks=?" },
                { "[Network]\nTasks=5\n", "t.policy:2:1: Tasks= belongs in section [Limits]" },
                { "[Network]\nTask=5\n", "did you mean Tasks= in section [Limits]?" },
                { "[Limits]\nTasks=5\\", "t.policy:2:1: the last line is continued" },
                { "[Limits]\nTasks=5\r\n", "t.policy:2:8: carriage return" },
                { "[Limits]\nTasks=\033[31m\n", "t.policy:2:7: control character 0x1b" },
                { "[Policy]\nDescription=\xc0\x80\n", "t.policy:2:13: not valid UTF-8" },
                { "[Policy]\nDescription=\xc2\x9b\n", "t.policy:2:13: not valid UTF-8, or a control" },
                { "[Policy]\nDescription=a\xe2\x80\xae\n", "t.policy:2:14: not valid UTF-8, or a control" },
                { "[Policy]\nDescription=\xed\xa0\x80\n", "t.policy:2:13: not valid UTF-8" },
                { "[Policy]\nDescription=x\\ \n", "t.policy:2:14: a value cannot end in a backslash" },
                { "\xef\xbb\xbf[Limits]\n", "t.policy:1:1: a byte order mark" },
                { "[Limits]\nRuntime=infinity\n", "cannot be without limit" },
                { "[Limits]\nRuntime=8d\n", "out of range" },
                { "[Limits]\nRuntime=-5\n", "is not a time" },
                { "[Limits]\nMemory=4095K\n", "out of range: from 4M" },
                { "[Limits]\nMemory=1.5G\n", "is not a size" },
                { "[Limits]\nMemory=0\n", "out of range" },
                { "[Limits]\nTasks=0\n", "out of range" },
                { "[Limits]\nTasks=18446744073709551616\n", "out of range" },
                { "[Limits]\nOpenFiles=15\n", "out of range" },
                { "[Limits]\nCPUQuota=100\n", "is not a percentage" },
                { "[Limits]\nIOWeight=0\n", "out of range" },
                { "[Files]\nTmpSize=0\n", "out of range" }, /* without limit, for tmpfs */
                { "[Files]\nWorkspaceInodes=0\n", "out of range" },
                { "[Files]\nRoot=relative\n", "neither host-usr nor" },
                { "[Files]\nRoot=/srv/../etc\n", "without \".\" and \"..\"" },
                { "[Files]\nCredential=token\n", "NAME:PATH" },
                { "[Files]\nCredential=:/etc/x\n", "no name of a credential" },
                { "[Files]\nCredential=../x:/etc/x\n", "no name of a credential" },
                { "[Files]\nCredential=a/b:/etc/x\n", "no name of a credential" },
                { "[Files]\nCredential=token:x\n", "not an absolute path" },
                { "[Files]\nCredential=token:/\n", "no file" },
                { "[Files]\nCredential=token:/etc/../x\n", "\"..\"" },
                { "[Files]\nCredential=token:/etc/x:y\n", "\":\"" },
                { "[Files]\nCredential=token:/etc/100%n\n", "letters, digits" },
                { "[Files]\nCredential=token:/etc/\"x\n", "letters, digits" },
                { "[Files]\nCredential=token:/proc/1/environ\n", "beneath /proc" },
                { "[Files]\nCredential=token:/tmp/x\n", "beneath /tmp" },
                { "[Files]\nCredential=a:/etc/x b:/etc/y\nCredential=a:/etc/y\n",
                                "the name is taken by a:/etc/x" },
                { "[Files]\nView=srv\n", "not an absolute path" },
                { "[Files]\nView=/\n", "everything" },
                { "[Files]\nView=/srv/\n", "at its end" },
                { "[Files]\nView=/srv/../etc\n", "\"..\"" },
                { "[Files]\nView=/proc\n", "/proc is the kernel" },
                { "[Files]\nView=/dev/shm/x\n", "/dev is the kernel" },
                { "[Files]\nView=/run/user/1000\n", "sockets" },
                { "[Files]\nExpose=srv\n", "not an absolute path" },
                { "[Files]\nExpose=/\n", "everything" },
                { "[Files]\nExpose=/srv/\n", "at its end" },
                { "[Files]\nExpose=//srv\n", "//" },
                { "[Files]\nExpose=/srv/./a\n", "\".\"" },
                { "[Files]\nExpose=/srv:/etc\n", "\":\"" },
                { "[Files]\nExpose=/etc\n", "/etc/shadow" },
                { "[Files]\nExpose=/var\n", "cannot be exposed" },
                { "[Files]\nExpose=/etc/shadow\n", "secrets" },
                { "[Files]\nExpose=/root/.ssh\n", "/root" },
                { "[Files]\nExpose=/home\n", "/home" },
                { "[Files]\nExpose=/run/docker.sock\n", "/run" },
                { "[Files]\nExpose=/var/run/x\n", "/var/run" },
                { "[Files]\nExpose=/proc/1/root\n", "/proc" },
                { "[Files]\nExpose=/dev/mem\n", "/dev" },
                { "[Files]\nExpose=/workspace/x\n", "lie in one another" },
                { "[Files]\nWorkspaceStore=disk\nWorkspaceSize=8M\nWorkspaceInodes=1K\n", "16M or more" },
                { "[Files]\nWorkspaceStore=disk\nWorkspaceInodes=1M\n", "half a KiB for each" },
                { "[Files]\nWorkspaceStore=disk\nWorkspaceSize=1T\n", "for each 4M" },
                { "[Files]\nWorkspaceStore=tape\n", "disk" },
                { "[Files]\nWorkspace=/\n", "root itself" },
                { "[Files]\nWorkspace=/usr/x\n", "/usr is taken" },
                { "[Files]\nWorkspace=/tmp\n", "/tmp is taken" },
                { "[Files]\nWorkspace=/a:b\n", "\":\"" },
                { "[Environment]\nSet=A\n", "\"=\" is missing" },
                { "[Environment]\nSet==x\n", "name of the variable is missing" },
                { "[Environment]\nSet=1A=x\n", "no digit first" },
                { "[Environment]\nSet=A-B=x\n", "no name of a variable" },
                { "[Environment]\nSet=AGENTBOX_X=1\n", "agentbox's own" },
                { "[Environment]\nSet=A=b\tc\n", "tab" },
                { "[Environment]\nPass=A=b\n", "names only" },
                { "[Environment]\nSet=A=1\nPass=A\n", "t.policy:3:6: Pass=A" },
                { "[Access]\nUsers=-rf\n", "no name of a user" },
                { "[Access]\nUsers=a,b\n", "no name of a user" },
                { "[Access]\nUsers=4294967295\n", "no user or group number" },
                { "[Syscalls]\nAllow=mount\n", "cannot be allowed" },
                { "[Syscalls]\nDeny=opnat\n", "did you mean openat?" },
                { "[Policy]\nBoundary=vm\n", "no value of Boundary=; there is kernel" },
                { "[Network]\nConnections=0\n", "Connections=0 is out of range: from 1 to 8192" },
                { "[Network]\nConnections=8193\n", "out of range" },
                { "[Network]\nEgress=open\nEgressBytes=5\n",
                                "t.policy:3:1: EgressBytes= cannot be enforced with Egress=open" },
                { "[Network]\nEgress=addresses\nConnections=5\n",
                                "t.policy:3:1: Connections= cannot be enforced with Egress=addresses" },
                { "[Policy]\nExtends=../x\n", "no name of a policy" },
                { "[Policy]\nExtends=none\n",
                                "t.policy:2:9: Extends=none: there is no policy of that name" },
                { "[Policy]\nExtends=t\n", "goes in a circle: t -> t" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                refused(rows[i][0], rows[i][1]);
}

static void test_nul_and_bounds(void **state)
{
        static const char nul[] = "[Limits]\nTasks=5\0000\n";
        static const char *const nowhere[] = { NULL };
        _cleanup_free_ char *large = malloc(300000);
        _cleanup_error_ Error *e = NULL, *e2 = NULL, *e3 = NULL;
        _cleanup_policy_ Policy *p = NULL;

        assert_int_equal(policy_load_text("t", nul, sizeof(nul) - 1, nowhere, NULL, &p, &e), -EINVAL);
        assert_string_equal(e->message, "t:2:8: NUL byte");
        memset(large, '#', 300000);
        assert_int_equal(policy_load_text("t", large, 300000, nowhere, NULL, &p, &e2), -EINVAL);
        assert_non_null(strstr(e2->message, "larger than"));
        assert_int_equal(policy_load_text("t", large, 5000, nowhere, NULL, &p, &e3), -EINVAL);
        assert_non_null(strstr(e3->message, "longer than"));
}

static void test_all_at_once(void **state)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_policy_ Policy *p = NULL;

        assert_int_equal(parse("[Limits]\nTasks=x\nMemory=y\n[Nonsense]\nA=1\nB=2\n[Files]\nExpose=/etc "
                               "/srv /root\n",
                                         &p, &e),
                        -EINVAL);
        assert_string_equal(e->message,
                        "t.policy:2:7: \"x\" is not a number\n"
                        "t.policy:3:8: \"y\" is not a size such as 64K, 256M or 2G\n"
                        "t.policy:4:2: unknown section [Nonsense]\n"
                        "t.policy:8:8: /etc cannot be exposed: it contains /etc/shadow, which holds secrets "
                        "of the host\n"
                        "t.policy:8:18: /root cannot be exposed: /root holds the users' own files");
}

static void test_print_parse_print(void **state)
{
        _cleanup_policy_ Policy *p = parsed(
                        "[Policy]\nDescription=Größe \\\\ # and\n[Files]\nRoot=/\nExpose=/srv/a /srv/b\n"
                        "Credential=a:/etc/x b:/etc/y@1\n[Environment]\nSet=A= b \\\\\nPass=X "
                        "Y\n[Network]\nEgress=addresses\n"
                        "Allow=192.0.2.0/24 "
                        "2001:db8::/32\n[Limits]\nFileSize=1G\n"
                        "IOWeight=3\nRuntime=1h "
                        "30min\nCPUQuota=150%\n[Syscalls]\nAllow=ptrace\nDeny=@network\n"
                        "OnDenied=kill\n[Audit]\nAllowedEgress=no\n[Access]\nUsers=alice 1000\nGroups=dev\n"
                        "Tighten=no\n");
        _cleanup_free_ char *text = policy_to_text(p), *second = NULL;
        _cleanup_policy_ Policy *again = parsed(text);

        second = policy_to_text(again);
        assert_string_equal(text, second);
        assert_non_null(strstr(text, "\nRuntime=90min\n"));
        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                assert_int_equal(p->values[k].set, again->values[k].set);
                assert_int_equal(p->values[k].u, again->values[k].u);
                assert_int_equal(strv_length(p->values[k].l), strv_length(again->values[k].l));
        }
}

static void test_enforceable(void **state)
{
        static const char *const rows[][2] = {
                { "[Files]\nRoot=/\n", "Files.Root=/" },
                { "[Network]\nEgress=none\n[Audit]\nDeniedSyscalls=yes\n", "Audit.DeniedSyscalls=yes" },
                { "[Syscalls]\nDeny=sendmsg\n[Audit]\nDeniedSyscalls=yes\n", "Audit.DeniedSyscalls=yes" },
        };
        _cleanup_policy_ Policy *none = parsed("[Network]\nEgress=none\nAllow=tls example.org\nEgressBytes=1\n"
                                               "Connections=1\n");
        _cleanup_policy_ Policy *rules = parsed("[Network]\nAllow=tls example.org\nAllow=tcp 192.0.2.1:22\n"
                                                "EgressBytes=0\nConnections=8192\n[Audit]\nAllowedEgress=no\n");
        _cleanup_policy_ Policy *tree = parsed("[Files]\nRoot=/srv/tree\n");
        _cleanup_policy_ Policy *same = parsed("[Files]\nCopyOutSize=1M\nCopyOutFiles=1\n[Audit]\nDeniedSyscalls=yes\n");

        _cleanup_policy_ Policy *unrecorded = parsed("[Syscalls]\nDeny=@network\n");

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ Policy *p = parsed(rows[i][0]);
                _cleanup_error_ Error *e = NULL;

                assert_int_equal(policy_check_enforceable(p, false, &e), -EOPNOTSUPP);
                if (!startswith(e->message, rows[i][1]))
                        fail_msg("%s: %s", rows[i][0], e->message);
        }
        assert_int_equal(policy_check_enforceable(none, false, NULL), 0);
        assert_int_equal(policy_check_enforceable(rules, false, NULL), 0);
        assert_int_equal(policy_check_enforceable(tree, false, NULL), 0);
        assert_int_equal(policy_check_enforceable(same, false, NULL), 0);
        assert_int_equal(policy_check_enforceable(unrecorded, false, NULL), 0);
        assert_true(policy_records_denied_calls(same));
        assert_false(policy_records_denied_calls(none) || policy_records_denied_calls(unrecorded));
}

/* Each key of [Network] and what it is enforced by, as "policy explain" says it. */
static void test_explain_network(void **state)
{
        static const struct {
                const char *text;
                PolicyKey key;
                const char *enforced; /* the lines, or how they begin */
        } rows[] = {
                { "", NETWORK_ALLOW, "" },
                { "", NETWORK_EGRESS_BYTES, "" },
                { "", NETWORK_CONNECTIONS, "the run's warden" },
                { "", AUDIT_ALLOWED_EGRESS, "the run's warden" },
                { "", AUDIT_DENIED_SYSCALLS, "the run's warden" },
                { "[Audit]\nDeniedSyscalls=no\n", AUDIT_DENIED_SYSCALLS, "nothing: they are refused without a record" },
                { "[Network]\nEgress=none\n", AUDIT_DENIED_SYSCALLS, "nothing: they are refused without a record, which" },
                { "[Network]\nEgressBytes=1M\n", NETWORK_EGRESS_BYTES, "the run's warden, which counts" },
                { "[Network]\nEgress=none\n", NETWORK_CONNECTIONS, "nothing is needed" },
                { "[Network]\nEgress=open\n", NETWORK_CONNECTIONS, "nothing: the host's network" },
                { "[Network]\nEgress=open\n", AUDIT_ALLOWED_EGRESS, "nothing: the host's network" },
                { "[Network]\nAllow=tls *.example.org:8443 private=allow\nAllow=http example.net\n"
                  "Allow=tcp db.example.org:5432\nAllow=tcp [2001:db8::]/32:22\n",
                                NETWORK_ALLOW,
                                "warden rule tls *.example.org:8443 private=allow: the ClientHello must name it; "
                                "resolved by the host, to public or private addresses\n"
                                "warden rule http example.net: the Host of every request must be it; resolved by "
                                "the host, to public addresses alone\n"
                                "warden rule tcp db.example.org:5432: to the addresses of this name, any bytes; "
                                "resolved by the host, to public addresses alone\n"
                                "warden rule tcp [2001:db8::]/32:22: to this address, any bytes; never metadata or "
                                "this host" },
                { "[Network]\nEgress=none\nAllow=tls example.org\n", NETWORK_ALLOW, "nothing is needed" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ Policy *p = parsed(rows[i].text);
                _cleanup_explanation_ PolicyExplanation x = {};
                _cleanup_(unit_props_done) UnitProps props = {};
                _cleanup_free_ char *got = NULL;

                assert_int_equal(policy_explain_props(p, &props, NULL), 0);
                assert_int_equal(policy_explain_key(p, rows[i].key, &props, &x), 0);
                got = strv_join(x.enforced, "\n");
                if (*rows[i].enforced ? !startswith(got, rows[i].enforced) : *got != 0)
                        fail_msg("%s%s: %s", rows[i].text, policy_keys[rows[i].key].name, got);
        }
}

/* What is mounted by the broker is no property of the unit. */
static void test_explain_disk(void **state)
{
        static const PolicyKey keys[] = { FILES_WORKSPACE, FILES_WORKSPACE_STORE, FILES_WORKSPACE_SIZE, FILES_WORKSPACE_INODES };
        _cleanup_policy_ Policy *disk = parsed("[Files]\nWorkspaceStore=disk\n"), *memory = parsed("");
        const Policy *const both[] = { disk, memory };

        for (size_t i = 0; i < ELEMENTSOF(both) * ELEMENTSOF(keys); i++) {
                const Policy *p = both[i % 2];
                _cleanup_(unit_props_done) UnitProps props = {};
                _cleanup_explanation_ PolicyExplanation x = {};
                _cleanup_free_ char *got = NULL;

                assert_int_equal(policy_explain_props(p, &props, NULL), 0);
                assert_int_equal(policy_explain_key(p, keys[i / 2], &props, &x), 0);
                got = strv_join(x.enforced, "\n");
                assert_int_equal(strstr(got, "TemporaryFileSystem=/workspace:mode") != NULL, p == memory);
                assert_int_equal(strstr(got, "agentboxd makes on a disk") != NULL, p == disk);
                assert_non_null(strstr(got, "verified as workspace"));
        }
}

static void test_scope(void **state)
{
        _cleanup_policy_ Policy *service = parsed(""),
                                *scope = parsed("[Files]\nRoot=/\n[Network]\nEgress=addresses\n"),
                                *both = parsed("[Files]\nRoot=/\nTmpSize=1M\n[Network]\nEgress=open\n"),
                                *memory = parsed("[Files]\nRoot=/\nWorkspaceStore=memory\n[Network]\nEgress=open\n"),
                                *disk = parsed("[Files]\nRoot=/\nWorkspaceStore=disk\n[Network]\nEgress=open\n");
        _cleanup_error_ Error *e = NULL, *e2 = NULL, *e3 = NULL;

        assert_int_equal(policy_check_enforceable(service, true, &e), -EOPNOTSUPP);
        assert_non_null(strstr(e->message, "Files.Root=host-usr"));
        assert_non_null(strstr(e->message, "Files.TmpSize=64M"));
        assert_null(strstr(e->message, "Files.WorkspaceSize="));
        assert_non_null(strstr(e->message, "Network.Egress=filtered"));
        assert_null(strstr(e->message, "Limits."));
        assert_int_equal(policy_check_enforceable(scope, true, NULL), 0);
        assert_int_equal(policy_check_enforceable(both, true, &e2), -EOPNOTSUPP);
        assert_non_null(strstr(e2->message, "Files.TmpSize=1M"));
        assert_null(strchr(e2->message, '\n'));
        assert_int_equal(policy_check_enforceable(memory, true, NULL), 0);
        assert_int_equal(policy_check_enforceable(disk, true, &e3), -EOPNOTSUPP);
        assert_string_equal(e3->message, "Files.WorkspaceStore=disk: a scope's workspace is in memory");
}

static void test_ip_allow_list(void **state)
{
        _cleanup_policy_ Policy *addresses = parsed("[Network]\nEgress=addresses\nAllow=192.0.2.0/25 "
                                                    "192.0.2.128/25 192.0.2.7\n"
                                                    "Allow=168.63.129.16/31\nAllow=2001:db8::/32\n"),
                                *open = parsed("[Network]\nEgress=open\n"),
                                *empty = parsed("[Network]\nEgress=addresses\n"), *filtered = parsed("");
        _cleanup_strv_ char **l = NULL, **all = NULL, **none = NULL;
        _cleanup_error_ Error *e = NULL;

        assert_int_equal(policy_ip_allow_list(addresses, &l, &e), 0);
        assert_int_equal(strv_length(l), 3);
        assert_string_equal(l[0], "168.63.129.17/32");
        assert_string_equal(l[1], "192.0.2.0/24");
        assert_string_equal(l[2], "2001:db8::/32");
        assert_int_equal(policy_ip_allow_list(open, &all, &e), 0);
        assert_true(strv_length(all) > 100);
        assert_int_equal(policy_ip_allow_list(empty, &none, &e), 0);
        assert_null(none);
        assert_int_equal(policy_ip_allow_list(filtered, &none, &e), -EINVAL);
}

static void test_env(void **state)
{
        _cleanup_policy_ Policy *p = parsed("[Environment]\nPass=PYTHONPATH\nSet=LD_LIBRARY_PATH=/x\n");

        assert_int_equal(policy_check_env(p, "FOO", NULL), 0);
        assert_int_equal(policy_check_env(p, "FOO=\nbar", NULL), 0);
        assert_int_equal(policy_check_env(p, "PYTHONPATH=/x", NULL), 0);
        assert_int_equal(policy_check_env(p, "LD_LIBRARY_PATH=/x", NULL), 0);
        assert_int_equal(policy_check_env(p, "LD_PRELOAD=/x", NULL), -EPERM);
        assert_int_equal(policy_check_env(p, "LD_LIBRARY", NULL), -EPERM);
        assert_int_equal(policy_check_env(p, "FOO_PRELOAD", NULL), -EPERM);
        assert_int_equal(policy_check_env(p, "BASH_ENV=x", NULL), -EPERM);
        assert_int_equal(policy_check_env(p, "=x", NULL), -EINVAL);
        assert_int_equal(policy_check_env(p, "", NULL), -EINVAL);
        assert_int_equal(policy_check_env(p, "A B=x", NULL), -EINVAL);
        assert_int_equal(policy_check_env(p, "AGENTBOX_RUN=x", NULL), -EINVAL);
        assert_int_equal(policy_check_env(p, "CREDENTIALS_DIRECTORY=/x", NULL), -EINVAL);
        assert_int_equal(policy_check_env(p, "CREDENTIALS_DIR=/x", NULL), 0);
}

/* One or two of each reader; and what looks alike and only chooses a language, a cache, a destination. */
static void test_env_injects(void **state)
{
        static const char *const refused_names[] = { "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "LIBFOO_PRELOAD",
                "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "PS4", "ZDOTDIR",
                "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "PERL5OPT", "PERL5LIB", "RUBYOPT", "GEM_PATH",
                "NODE_OPTIONS", "NODE_PATH", "npm_config_script_shell", "NPM_CONFIG_NODE_OPTIONS",
                "npm_config_userconfig", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "DOTNET_STARTUP_HOOKS",
                "CORECLR_PROFILER", "LUA_PATH_5_4", "LUA_INIT", "PHPRC", "R_PROFILE_USER", "JULIA_LOAD_PATH",
                "ERL_AFLAGS", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CPATH", "MAKEFILES", "RUSTC_WRAPPER",
                "CARGO_BUILD_RUSTC_WRAPPER", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "GOFLAGS",
                "GIT_SSH_COMMAND", "GIT_CONFIG_KEY_0", "GIT_EXTERNAL_DIFF", "GIT_DIR", "LESSOPEN", "SSH_ASKPASS",
                "OPENSSL_CONF", "GTK_MODULES", "QT_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0" };
        static const char *const fine[] = { "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "EDITOR", "CC",
                "CFLAGS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "NODE_ENV",
                "npm_config_registry", "npm_config_loglevel", "CARGO_TARGET_DIR", "CARGO_HOME", "GOPATH",
                "GIT_AUTHOR_NAME", "GIT_TERMINAL_PROMPT", "RUST_BACKTRACE", "env", "OLD_PATH", "MY_LD_PATH",
                "HTTPS_PROXY", "SSL_CERT_FILE", "CI", "PRELOAD", "JAVA_HOME" };

        for (size_t i = 0; i < ELEMENTSOF(refused_names); i++)
                if (!policy_env_name_injects(refused_names[i]))
                        fail_msg("%s is let through", refused_names[i]);
        for (size_t i = 0; i < ELEMENTSOF(fine); i++)
                if (policy_env_name_injects(fine[i]))
                        fail_msg("%s is refused", fine[i]);
}

static void test_suggest(void **state)
{
        static const char *const words[] = { "Memory", "Tasks", "Runtime", "none", "no" };

        assert_string_equal(policy_suggest("memory", words, 5), "Memory");
        assert_string_equal(policy_suggest("Meomry", words, 5), "Memory");
        assert_string_equal(policy_suggest("Runtme", words, 5), "Runtime");
        assert_string_equal(policy_suggest("nome", words, 5), "none");
        assert_null(policy_suggest("x", words, 5));
        assert_null(policy_suggest("", words, 5));
        assert_null(policy_suggest("entirely", words, 5));
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_form),
                cmocka_unit_test(test_refused_forms),
                cmocka_unit_test(test_nul_and_bounds),
                cmocka_unit_test(test_all_at_once),
                cmocka_unit_test(test_print_parse_print),
                cmocka_unit_test(test_enforceable),
                cmocka_unit_test(test_explain_network),
                cmocka_unit_test(test_explain_disk),
                cmocka_unit_test(test_scope),
                cmocka_unit_test(test_ip_allow_list),
                cmocka_unit_test(test_env),
                cmocka_unit_test(test_env_injects),
                cmocka_unit_test(test_suggest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
