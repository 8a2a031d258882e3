/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/strv.h"

/* Shim → broker, once, as its first message on the SOCK_SEQPACKET pair, before anything untrusted exists:
 * what the kernel says of the process that will become the workload. Raw facts; the broker judges. Bounded
 * and versioned. */

#define ATTEST_SIZE_MAX (160u << 10)
#define ATTEST_MAGIC 0x32414241u /* "ABA2" */
/* Each text; where the truth is longer, the shim fails in stage "attest". */
#define ATTEST_TEXT_MAX (128u << 10)
/* The target of a descriptor, a variable of the environment; longer ones fail in the same way. */
#define ATTEST_NAME_MAX 4096u
/* Lists that should be (nearly) empty are cut here by the shim: 256 wrong entries are as wrong as more. */
#define ATTEST_LIST_MAX 256u

enum {
        ATTEST_NS_MNT,
        ATTEST_NS_NET,
        ATTEST_NS_PID,
        ATTEST_NS_USER,
        ATTEST_NS_UTS,
        ATTEST_NS_IPC,
        ATTEST_NS_CGROUP,
        _ATTEST_NS_MAX
};
extern const char *const attest_ns_names[_ATTEST_NS_MAX];

/* Probes: each is tried by the shim, right there; result 0 = it worked (bad for most), else positive errno.
 * Whatever a probe creates, it removes again. Calls that a filter may answer with death are tried in a
 * child; its death counts as EPERM. */
typedef enum AttestProbe {
        PROBE_METADATA_SEND,  /* send a UDP packet to 169.254.169.254, port 9: 0 where it left, or where
                                 somebody in this network took it */
        PROBE_ELSEWHERE_SEND, /* to 192.0.2.1 (TEST-NET-1), the same */
        PROBE_LOOPBACK,       /* send one over 127.0.0.1 to oneself, and have it arrive (ETIMEDOUT) */
        PROBE_WRITE_ROOT,        /* create a file in / */
        PROBE_WRITE_USR,
        PROBE_WRITE_ETC,
        PROBE_WRITE_WORKSPACE,  /* must work */
        PROBE_WRITE_TMP,        /* must work */
        PROBE_WRITE_SHM,        /* must work */
        PROBE_OPEN_RUN_SYSTEMD, /* is any of systemd's, D-Bus's or the journal's sockets to be seen at all
                                   (O_PATH)? 0: one is */
        PROBE_OPEN_PROC_1,      /* open /proc/1/environ */
        PROBE_OPEN_KMSG,        /* open /dev/kmsg */
        PROBE_OPEN_PTMX,        /* open /dev/ptmx for reading and writing */
        PROBE_OPEN_SYS,         /* open the directory /sys/kernel or /sys/fs: 0 where one opens */
        PROBE_ABSTRACT_UNIX, /* stream connect to the abstract name in the shim's argv[2]; -1 where none was
                                given */
        PROBE_UNSHARE_USER,  /* unshare(CLONE_NEWUSER) in a forked child */
        PROBE_MOUNT,         /* mount tmpfs on /tmp in a forked child */
        PROBE_SETUID_0,      /* setresuid(0,0,0) in a forked child */
        PROBE_MPROTECT_EXEC, /* mmap RW then mprotect RX: refused only with MemoryDenyWriteExecute */
        _PROBE_MAX,
} AttestProbe;
extern const char *const attest_probe_names[_PROBE_MAX];

typedef struct AttestFs { /* statfs + mountinfo facts of a path */
        uint64_t type;    /* f_type */
        uint64_t flags;   /* f_flags (ST_RDONLY, ST_NOEXEC, ST_NODEV, ST_NOSUID) */
        uint64_t bytes;   /* total size */
        uint64_t inodes;  /* total inodes */
        int32_t error;    /* positive errno: path absent */
} AttestFs;
enum {
        ATTEST_FS_ROOT,
        ATTEST_FS_USR,
        ATTEST_FS_ETC,
        ATTEST_FS_WORKSPACE,
        ATTEST_FS_TMP,
        ATTEST_FS_VAR_TMP,
        ATTEST_FS_SHM,
        ATTEST_FS_DEV,
        ATTEST_FS_PROC,
        ATTEST_FS_SYS,
        ATTEST_FS_RUN,
        _ATTEST_FS_MAX
};
/* ATTEST_FS_WORKSPACE: "/workspace"; the shim takes its argv[1] instead. */
extern const char *const attest_fs_paths[_ATTEST_FS_MAX];

typedef struct AttestFd {
        int32_t fd;
        char *target; /* readlink of /proc/self/fd/N, e.g. "socket:[123]", "/dev/null" */
} AttestFd;

typedef struct AttestLimit {
        int32_t resource; /* RLIMIT_* */
        uint64_t soft, hard;
} AttestLimit;

typedef struct Attest {
        int32_t pid;
        uint32_t uid[4], gid[4]; /* real, effective, saved, file system */
        uint32_t *groups;        /* supplementary */
        uint32_t n_groups;
        uint64_t cap_inheritable, cap_permitted, cap_effective, cap_bounding, cap_ambient;
        bool no_new_privs;
        uint32_t securebits;
        uint32_t seccomp_mode, seccomp_filters;
        uint32_t dumpable;           /* after the shim made itself undumpable: 0 */
        uint64_t ns[_ATTEST_NS_MAX]; /* inode numbers of /proc/self/ns/ */
        AttestFs fs[_ATTEST_FS_MAX];
        char *mountinfo; /* /proc/self/mountinfo, whole */
        char *cgroup;    /* /proc/self/cgroup, whole */
        char *netdev;    /* /proc/self/net/dev, whole; "" where not readable */
        AttestFd *fds;   /* open when the shim started, 0 (the socket), 1 and 2 among them */
        uint32_t n_fds;
        AttestLimit *limits;
        uint32_t n_limits;
        char **environ_; /* the environment that systemd gave the shim */
        char *keyring;   /* KEYCTL_DESCRIBE of the session keyring, "" and keyring_error where refused */
        int32_t keyring_error;
        int32_t landlock_abi; /* ≥ 1, or negative errno */
        int32_t oom_score_adj;
        uint32_t umask;
        char *hostname;
        int32_t probes[_PROBE_MAX]; /* 0 worked, positive errno, or -1 not tried */
} Attest;

void attest_done(Attest *a);
/* -EINVAL, -E2BIG: over a bound. */
int attest_encode(const Attest *a, Buf *out);
/* -EBADMSG: not well-formed, over a bound, or of another version. ret is filled completely or untouched.
 * Says nothing about what the facts mean: strings hold any byte but NUL. */
int attest_decode(const void *p, size_t n, Attest *ret);
