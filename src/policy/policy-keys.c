/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "policy/filter-compile.h"
#include "policy/policy-checks.h"
#include "policy/policy-keys.h"
#include "policy/policy-suggest.h"

#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)
#define TIB(n) (UINT64_C(n) << 40)
#define USEC(seconds) (UINT64_C(seconds) * 1000000)

static const char *const boundary_names[] = { [BOUNDARY_KERNEL] = "kernel" };
static const char *const egress_names[] = {
        [EGRESS_OPEN] = "open",
        [EGRESS_ADDRESSES] = "addresses",
        [EGRESS_FILTERED] = "filtered",
        [EGRESS_NONE] = "none",
};
/* What is in memory counts against Memory=, what is on disk does not. */
static const char *const store_names[] = { [STORE_DISK] = "disk", [STORE_MEMORY] = "memory" };
static const char *const on_denied_names[] = { [ON_DENIED_ERRNO] = "errno", [ON_DENIED_KILL] = "kill" };
static const char *const arguments_names[] = {
        [ARGUMENTS_NONE] = "none",
        [ARGUMENTS_FIRST] = "first",
        [ARGUMENTS_ALL] = "all",
};
const char *const policy_on_tripwire_names[_ON_TRIPWIRE_MAX] = {
        [ON_TRIPWIRE_LOG] = "log",
        [ON_TRIPWIRE_FREEZE] = "freeze",
        [ON_TRIPWIRE_KILL] = "kill",
};

const char *const policy_order_texts[_POLICY_ORDER_MAX] = {
        [POLICY_ORDER_FIXED] = "A caller cannot change it.",
        [POLICY_ORDER_LOWER] = "A caller may ask for less.",
        [POLICY_ORDER_HIGHER] = "A caller may ask for a later name of the list.",
        [POLICY_ORDER_SUBSET] = "A caller may leave items out.",
        [POLICY_ORDER_SUPERSET] = "A caller may add items.",
};

/* Zero is nowhere a valid size of a file system or a count of inodes: tmpfs takes it for "without limit". */
/* clang-format off */
const PolicyKeyInfo policy_keys[_POLICY_KEY_MAX] = {
        [POLICY_DESCRIPTION] = {
                .section = "Policy", .name = "Description", .type = POLICY_TYPE_STRING,
                .order = POLICY_ORDER_FIXED, .merge = POLICY_MERGE_OWN,
                .by = POLICY_BY_BROKER | POLICY_BY_SCOPE,
                .max = 256, .syntax = "TEXT",
                .doc = "One line that says what the policy is for; \"agentbox policy list\" shows it.",
        },
        [POLICY_EXTENDS] = {
                .section = "Policy", .name = "Extends", .type = POLICY_TYPE_STRING,
                .order = POLICY_ORDER_FIXED, .merge = POLICY_MERGE_OWN,
                .by = POLICY_BY_BROKER | POLICY_BY_SCOPE,
                .max = 64, .check = policy_check_policy_name, .syntax = "POLICY",
                .doc = "The policy that this one starts from, with that policy's own Extends= and "
                       "drop-ins. Single values given here replace inherited ones, lists grow; an empty "
                       "value goes back to the default.",
        },
        [POLICY_BOUNDARY] = {
                .section = "Policy", .name = "Boundary", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_FIXED, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE | POLICY_BY_SHIM,
                .fallback = "kernel", .names = boundary_names, .n_names = ELEMENTSOF(boundary_names),
                .doc = "What stands between the workload and the host: the shared kernel's own walls.",
        },

        [FILES_ROOT] = {
                .section = "Files", .name = "Root", .type = POLICY_TYPE_STRING,
                .order = POLICY_ORDER_FIXED, .by = POLICY_BY_SERVICE,
                .fallback = "host-usr", .max = 4095, .check = policy_check_root, .syntax = "host-usr|PATH",
                .doc = "What the workload sees as its file tree. host-usr: an empty root with the host's "
                       "programs and libraries (/usr and its usual links), the loader's cache, CA "
                       "certificates and time zones, read-only, and a synthetic /etc. A path: a directory "
                       "with the file tree of another system, of which the workload sees usr, bin, sbin, "
                       "lib and the like as it sees the host's otherwise; nobody but root may be able to "
                       "change it. A disk image is not supported in this version. \"/\" stands for the "
                       "host's own tree, readable as the caller may read it, writable nowhere but in the "
                       "workspace: for --unit=scope alone, which can have no other.",
        },
        [FILES_EXPOSE] = {
                .section = "Files", .name = "Expose", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_SERVICE, .max = 4095, .check = policy_check_expose, .syntax = "PATH...",
                .doc = "Paths of the host that the workload may read besides what Root= brings. A symbolic link "
                       "shows what it leads to. Never "
                       "writable; but a socket beneath such a path can be connected to. Paths that hold "
                       "secrets or the host's own sockets, and their parents, are refused.",
        },
        [FILES_CREDENTIAL] = {
                .section = "Files", .name = "Credential", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_SERVICE | POLICY_BY_BROKER | POLICY_BY_SHIM, .max = 4095,
                .check = policy_check_credential, .syntax = "NAME:PATH...",
                .doc = "Secrets that the workload cannot do without: the content of a file of the host is the "
                       "read-only file NAME in the directory that CREDENTIALS_DIRECTORY names in its "
                       "environment. PID 1 reads it (LoadCredential=); it is in no command line, environment, "
                       "property or record. The file and all directories that it is in must be root's, and it "
                       "must be readable by root alone. What the workload is given it can pass on to wherever "
                       "[Network] lets it.",
        },
        [FILES_VIEW] = {
                .section = "Files", .name = "View", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_BROKER, .max = 4095,
                .check = policy_check_view, .syntax = "PATH...",
                .doc = "Directories of the host of which, and of everything beneath which, a caller may have the "
                       "workload see a copy-on-write view (--view). It reads there what belongs to its caller and "
                       "what everybody may read; what it writes goes into the workspace. None: no views.",
        },
        [FILES_WORKSPACE] = {
                .section = "Files", .name = "Workspace", .type = POLICY_TYPE_STRING,
                .order = POLICY_ORDER_FIXED, .by = POLICY_BY_SERVICE,
                .fallback = "/workspace", .max = 255, .check = policy_check_workspace, .syntax = "PATH",
                .doc = "The writable directory in which the workload starts; gone when the run "
                       "ends. A scope has one of its own beneath /run/agentbox.",
        },
        [FILES_WORKSPACE_STORE] = {
                .section = "Files", .name = "WorkspaceStore", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "memory", .names = store_names, .n_names = ELEMENTSOF(store_names),
                .doc = "Where the workspace is. memory: what is written there counts against Memory=. disk: a "
                       "file system of its own on a disk of the host (beneath /var/lib/agentbox), for what is larger "
                       "than memory; all of WorkspaceSize= is taken there before the run starts, and given back "
                       "when it ends, however it ends. Such a run is refused where the host lacks the room (a tenth of "
                       "that disk, at most 4G, stays free), loop devices or mke2fs. A scope's is in memory.",
        },
        [FILES_WORKSPACE_SIZE] = {
                .section = "Files", .name = "WorkspaceSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "256M", .min = KIB(64), .max = TIB(1),
                .doc = "Bytes that the workspace can hold. In memory, what is written there counts against Memory= "
                       "too. On disk, the file system's own records are among them: a quarter of a KiB for each "
                       "of WorkspaceInodes=, and a little.",
        },
        [FILES_WORKSPACE_INODES] = {
                .section = "Files", .name = "WorkspaceInodes", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "64K", .min = 16, .max = MIB(64), .syntax = "COUNT",
                .doc = "Files and directories that the workspace can hold.",
        },
        [FILES_TMP_SIZE] = {
                .section = "Files", .name = "TmpSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE,
                .fallback = "64M", .min = KIB(64), .max = TIB(1),
                .doc = "Bytes that /tmp and /var/tmp can hold, each. Counts against Memory= too.",
        },
        [FILES_SHM_SIZE] = {
                .section = "Files", .name = "ShmSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE,
                .fallback = "64M", .min = KIB(64), .max = TIB(1),
                .doc = "Bytes of shared memory files (/dev/shm). Counts against Memory= too.",
        },
        [FILES_COPY_OUT_SIZE] = {
                .section = "Files", .name = "CopyOutSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_BROKER | POLICY_BY_CLI | POLICY_BY_SCOPE,
                .fallback = "256M", .min = 0, .max = TIB(1),
                .doc = "Bytes that --out may copy out of the workspace in all.",
        },
        [FILES_COPY_OUT_FILES] = {
                .section = "Files", .name = "CopyOutFiles", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_BROKER | POLICY_BY_CLI | POLICY_BY_SCOPE,
                .fallback = "64K", .min = 0, .max = MIB(64), .syntax = "COUNT",
                .doc = "Files and directories that --out may copy out of the workspace in all.",
        },

        [ENVIRONMENT_SET] = {
                .section = "Environment", .name = "Set", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_FIXED, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_NEVER,
                .by = POLICY_BY_SHIM | POLICY_BY_SCOPE, .max = 32768, .check = policy_check_set,
                .syntax = "NAME=VALUE",
                .doc = "A variable of the workload's environment, one a line, no quotes. PATH, HOME, "
                       "USER, LOGNAME, SHELL, LANG, TMPDIR and on a terminal TERM are always there; Set= "
                       "overrides them.",
        },
        [ENVIRONMENT_PASS] = {
                .section = "Environment", .name = "Pass", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_CLI | POLICY_BY_SHIM | POLICY_BY_SCOPE, .max = 128,
                .check = policy_check_pass,
                .syntax = "NAME...",
                .doc = "Variables that are taken over from the caller's environment where they are set "
                       "there. Nothing else of it gets in.",
        },

        [NETWORK_EGRESS] = {
                .section = "Network", .name = "Egress", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_SERVICE | POLICY_BY_BROKER,
                .fallback = "filtered", .names = egress_names, .n_names = ELEMENTSOF(egress_names),
                .doc = "Where the workload's packets may go. filtered: only where a rule of Allow= says, "
                       "by name or address. none: nowhere, there is no network but its own loopback. "
                       "addresses: the host's network, to the addresses of Allow=. open: the host's "
                       "network, everywhere. The cloud metadata addresses can be reached under none of "
                       "them.",
        },
        [NETWORK_ALLOW] = {
                .section = "Network", .name = "Allow", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_RULES,
                .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE | POLICY_BY_WARDEN, .max = 512,
                .check = policy_check_allow,
                .syntax = "RULE",
                .doc = "One destination that may be reached. With Egress=filtered: \"tls NAME[:PORT]\", "
                       "\"http NAME[:PORT]\", \"tcp NAME:PORT\", \"tcp ADDRESS[/LEN]:PORT\", or \"@SET\" "
                       "for the rules of /etc/agentbox/allow.d/SET.list. NAME may start with \"*.\". "
                       "Options behind a rule: ech=allow (tls), private=allow (names), peer-first "
                       "(tcp: the server speaks first, as it may under every tcp rule). "
                       "With Egress=addresses: addresses and prefixes without ports, or \"@SET\".",
        },
        [NETWORK_EGRESS_BYTES] = {
                .section = "Network", .name = "EgressBytes", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_WARDEN,
                .min = 0, .max = UINT64_MAX >> 1,
                .doc = "Bytes that the workload may send out in all, over all of its connections; where it "
                       "would send more, they are closed. With Egress=filtered only, which is what counts.",
        },
        [NETWORK_CONNECTIONS] = {
                .section = "Network", .name = "Connections", .type = POLICY_TYPE_NUMBER,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_WARDEN,
                .fallback = "1024", .min = 1, .max = 8192,
                .doc = "Connections to the outside that may be open at a time; further ones are refused. "
                       "With Egress=filtered only.",
        },

        [LIMITS_CPU_QUOTA] = {
                .section = "Limits", .name = "CPUQuota", .type = POLICY_TYPE_PERCENT,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "100%", .min = 1, .max = 819200,
                .doc = "Processor time, in percent of one processor. The warden of a filtered run may use as much again, from 50% to 200%.",
        },
        [LIMITS_MEMORY] = {
                .section = "Limits", .name = "Memory", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "256M", .min = MIB(4), .max = TIB(64),
                .doc = "Memory of all processes together, with the files of workspace, /tmp and /dev/shm. "
                       "No swap. The run is killed as a whole where it needs more.",
        },
        [LIMITS_TASKS] = {
                .section = "Limits", .name = "Tasks", .type = POLICY_TYPE_NUMBER,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "64", .min = 1, .max = 4194304,
                .doc = "Processes and threads at a time.",
        },
        [LIMITS_RUNTIME] = {
                .section = "Limits", .name = "Runtime", .type = POLICY_TYPE_TIME,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "60s", .min = 1000, .max = USEC(604800),
                .doc = "How long the run may take; then it is killed and its exit status is 124. There is "
                       "no way to say \"without limit\": a week is the most.",
        },
        [LIMITS_OPEN_FILES] = {
                .section = "Limits", .name = "OpenFiles", .type = POLICY_TYPE_NUMBER,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "1024", .min = 16, .max = MIB(1), .syntax = "COUNT",
                .doc = "File descriptors of each process.",
        },
        [LIMITS_FILE_SIZE] = {
                .section = "Limits", .name = "FileSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .min = KIB(4), .max = TIB(64),
                .doc = "Bytes of the largest file that can be written. Below 256M some linkers fail.",
        },
        [LIMITS_OUTPUT] = {
                .section = "Limits", .name = "Output", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_CLI | POLICY_BY_BROKER | POLICY_BY_SCOPE,
                .fallback = "64M", .min = KIB(1), .max = TIB(1),
                .doc = "Bytes of standard output and standard error together. The run is killed where it "
                       "prints more.",
        },
        [LIMITS_IO_WEIGHT] = {
                .section = "Limits", .name = "IOWeight", .type = POLICY_TYPE_NUMBER,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .min = 1, .max = 10000, .unset = 100,
                .doc = "Share of the disks' time against other units, which have 100.",
        },
        [LIMITS_CORE_SIZE] = {
                .section = "Limits", .name = "CoreSize", .type = POLICY_TYPE_SIZE,
                .order = POLICY_ORDER_LOWER, .by = POLICY_BY_SERVICE | POLICY_BY_SCOPE,
                .fallback = "0", .min = 0, .max = TIB(1),
                .doc = "Bytes of a core dump that a crash may leave. With 0, no crash handler of the host "
                       "(systemd-coredump, apport) sees the run's crashes either; with more, it sees them all.",
        },

        [SYSCALLS_PROFILE] = {
                .section = "Syscalls", .name = "Profile", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_SERVICE | POLICY_BY_SHIM | POLICY_BY_SCOPE,
                .fallback = "default", .names = filter_profile_names, .n_names = _FILTER_PROFILE_MAX,
                .doc = "The set of system calls to start from. jit: for runtimes that compile while they "
                       "run. build: for compilers and their tools. default: for programs and scripts. "
                       "strict: the smallest set; nothing that the run has written can be executed.",
        },
        [SYSCALLS_ALLOW] = {
                .section = "Syscalls", .name = "Allow", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUBSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_SERVICE | POLICY_BY_SHIM | POLICY_BY_SCOPE, .max = 64,
                .check = policy_check_syscall_allow, .syntax = "NAME|@GROUP...",
                .doc = "System calls allowed on top of the profile. Those that open a way out of every "
                       "sandbox cannot be named.",
        },
        [SYSCALLS_DENY] = {
                .section = "Syscalls", .name = "Deny", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_SUPERSET, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_SERVICE | POLICY_BY_SHIM | POLICY_BY_SCOPE, .max = 64,
                .check = policy_check_syscall_deny, .syntax = "NAME|@GROUP...",
                .doc = "System calls refused, whatever the profile and Allow= say.",
        },
        [SYSCALLS_ON_DENIED] = {
                .section = "Syscalls", .name = "OnDenied", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_SERVICE | POLICY_BY_SHIM | POLICY_BY_SCOPE,
                .fallback = "errno", .names = on_denied_names, .n_names = ELEMENTSOF(on_denied_names),
                .doc = "What a refused system call gets: an error number, or the death of its process.",
        },

        [AUDIT_ARGUMENTS] = {
                .section = "Audit", .name = "Arguments", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_BROKER | POLICY_BY_SCOPE,
                .fallback = "first", .names = arguments_names, .n_names = ELEMENTSOF(arguments_names),
                .doc = "How much of the command line the journal keeps: nothing, the program's name, or "
                       "all of it.",
        },
        [AUDIT_ALLOWED_EGRESS] = {
                .section = "Audit", .name = "AllowedEgress", .type = POLICY_TYPE_BOOL,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_WARDEN | POLICY_BY_SCOPE,
                .fallback = "yes", .max = 1,
                .doc = "Whether connections that were allowed are recorded too, with what went over them. "
                       "Denied ones always are.",
        },
        [AUDIT_DENIED_SYSCALLS] = {
                .section = "Audit", .name = "DeniedSyscalls", .type = POLICY_TYPE_BOOL,
                .order = POLICY_ORDER_FIXED, .by = POLICY_BY_WARDEN | POLICY_BY_SCOPE,
                .fallback = "yes", .max = 1,
                .doc = "Whether refused system calls that point to an attack (namespaces, mounts, ptrace, bpf, "
                       "keys, io_uring, modules, foreign socket families and their like) are recorded, with "
                       "their arguments, process and number. Takes Egress=filtered, and sendmsg(), by which the "
                       "listener is handed out; with any other, or where Deny= refuses that, the default means no. These calls are then refused by agentbox's own filter alone, whose listener "
                       "writes the record: PID 1's filter, a second wall, has to let them through to it. "
                       "\"no\" keeps both walls, and no record.",
        },
        [AUDIT_DECOYS] = {
                .section = "Audit", .name = "Decoys", .type = POLICY_TYPE_BOOL,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_SERVICE | POLICY_BY_BROKER,
                .fallback = "no", .max = 1,
                .doc = "Whether worthless look-alike credentials stand where thieves look first: .aws/credentials, "
                       ".config/gcloud/application_default_credentials.json, .env, .kube/config and "
                       ".ssh/id_ed25519 of the home directory, and Kubernetes' service-account token beneath "
                       "/var/run/secrets. Who opens one is recorded (tripwire). The home directory is then "
                       "/home/agent, of TmpSize=, and no longer the workspace: so no decoy is among the files "
                       "that the workload works on, or that are copied out.",
        },
        [AUDIT_ON_TRIPWIRE] = {
                .section = "Audit", .name = "OnTripwire", .type = POLICY_TYPE_ENUM,
                .order = POLICY_ORDER_HIGHER, .by = POLICY_BY_BROKER,
                .fallback = "log", .names = policy_on_tripwire_names, .n_names = _ON_TRIPWIRE_MAX,
                .doc = "What happens when a decoy is opened, or the metadata service of a cloud is tried under "
                       "Egress=filtered: a record alone; besides it the run is frozen, to be looked at and "
                       "thawed or killed; or it is killed, and what it opened is not opened.",
        },

        [ACCESS_USERS] = {
                .section = "Access", .name = "Users", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_FIXED, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_BROKER | POLICY_BY_SCOPE, .max = 64, .check = policy_check_account,
                .syntax = "USER...",
                .doc = "Users who may ask for this policy. Without Users= and Groups=: the members of the "
                       "group agentbox. root always may.",
        },
        [ACCESS_GROUPS] = {
                .section = "Access", .name = "Groups", .type = POLICY_TYPE_LIST,
                .order = POLICY_ORDER_FIXED, .merge = POLICY_MERGE_APPEND, .split = POLICY_SPLIT_WORDS,
                .by = POLICY_BY_BROKER | POLICY_BY_SCOPE, .max = 64, .check = policy_check_account,
                .syntax = "GROUP...",
                .doc = "Groups whose members may ask for this policy; see Users=.",
        },
        [ACCESS_TIGHTEN] = {
                .section = "Access", .name = "Tighten", .type = POLICY_TYPE_BOOL,
                .order = POLICY_ORDER_FIXED, .by = POLICY_BY_BROKER | POLICY_BY_SCOPE,
                .fallback = "yes", .max = 1,
                .doc = "Whether a caller may make limits smaller and lists shorter for one run (--set, "
                       "--timeout).",
        },
};

/* clang-format on */

static_assert(ELEMENTSOF(policy_keys) == _POLICY_KEY_MAX, "a row for each key");
static_assert(_POLICY_KEY_MAX == 42,
                "a key was added or dropped: look at its row, the shipped policies and the golden files");

static const char *const sections[] = { "Policy", "Files", "Environment", "Network", "Limits", "Syscalls",
        "Audit", "Access" };

int policy_key_find(const char *section, const char *name)
{
        for (int k = 0; k < _POLICY_KEY_MAX; k++)
                if (streq(policy_keys[k].section, section) && streq(policy_keys[k].name, name))
                        return k;
        return -ENOENT;
}

bool policy_section_known(const char *section)
{
        for (size_t i = 0; i < ELEMENTSOF(sections); i++)
                if (streq(sections[i], section))
                        return true;
        return false;
}

const char *policy_section_suggest(const char *section)
{
        return policy_suggest(section, sections, ELEMENTSOF(sections));
}

const char *policy_key_suggest(const char *section, const char *name)
{
        const char *names[_POLICY_KEY_MAX];
        size_t n = 0;

        for (int k = 0; k < _POLICY_KEY_MAX; k++)
                if (streq(policy_keys[k].section, section))
                        names[n++] = policy_keys[k].name;
        return policy_suggest(name, names, n);
}
