/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "warden/denied-call.h"

/* Numbers and names are the kernel's; headers that are older than it lack the last ones. */

typedef struct Value {
        uint64_t value;
        const char *name;
} Value;

/* Several of them together: a|b. */
static const Value clone_flags[] = {
        { 0x00000080, "CLONE_NEWTIME" }, { 0x00000100, "CLONE_VM" }, { 0x00000200, "CLONE_FS" }, { 0x00000400, "CLONE_FILES" },
        { 0x00000800, "CLONE_SIGHAND" }, { 0x00001000, "CLONE_PIDFD" }, { 0x00002000, "CLONE_PTRACE" },
        { 0x00004000, "CLONE_VFORK" }, { 0x00008000, "CLONE_PARENT" }, { 0x00010000, "CLONE_THREAD" },
        { 0x00020000, "CLONE_NEWNS" }, { 0x00040000, "CLONE_SYSVSEM" }, { 0x00080000, "CLONE_SETTLS" },
        { 0x00100000, "CLONE_PARENT_SETTID" }, { 0x00200000, "CLONE_CHILD_CLEARTID" }, { 0x00800000, "CLONE_UNTRACED" },
        { 0x01000000, "CLONE_CHILD_SETTID" }, { 0x02000000, "CLONE_NEWCGROUP" }, { 0x04000000, "CLONE_NEWUTS" },
        { 0x08000000, "CLONE_NEWIPC" }, { 0x10000000, "CLONE_NEWUSER" }, { 0x20000000, "CLONE_NEWPID" },
        { 0x40000000, "CLONE_NEWNET" }, { 0x80000000, "CLONE_IO" },
};
static const Value mount_flags[] = {
        { 1, "MS_RDONLY" }, { 2, "MS_NOSUID" }, { 4, "MS_NODEV" }, { 8, "MS_NOEXEC" }, { 16, "MS_SYNCHRONOUS" },
        { 32, "MS_REMOUNT" }, { 64, "MS_MANDLOCK" }, { 128, "MS_DIRSYNC" }, { 256, "MS_NOSYMFOLLOW" }, { 1024, "MS_NOATIME" },
        { 2048, "MS_NODIRATIME" }, { 4096, "MS_BIND" }, { 8192, "MS_MOVE" }, { 16384, "MS_REC" }, { 32768, "MS_SILENT" },
        { 1 << 17, "MS_UNBINDABLE" }, { 1 << 18, "MS_PRIVATE" }, { 1 << 19, "MS_SLAVE" }, { 1 << 20, "MS_SHARED" },
        { 1 << 21, "MS_RELATIME" }, { 1 << 24, "MS_STRICTATIME" }, { 1 << 25, "MS_LAZYTIME" },
};
static const Value umount_flags[] = { { 1, "MNT_FORCE" }, { 2, "MNT_DETACH" }, { 4, "MNT_EXPIRE" }, { 8, "UMOUNT_NOFOLLOW" } };
static const Value socket_flags[] = { { 02000000, "SOCK_CLOEXEC" }, { 04000, "SOCK_NONBLOCK" } };
static const Value userfault_flags[] = { { 02000000, "O_CLOEXEC" }, { 04000, "O_NONBLOCK" }, { 1, "UFFD_USER_MODE_ONLY" } };
static const Value personality_flags[] = {
        { 0x0020000, "UNAME26" }, { 0x0040000, "ADDR_NO_RANDOMIZE" }, { 0x0080000, "FDPIC_FUNCPTRS" },
        { 0x0100000, "MMAP_PAGE_ZERO" }, { 0x0200000, "ADDR_COMPAT_LAYOUT" }, { 0x0400000, "READ_IMPLIES_EXEC" },
        { 0x0800000, "ADDR_LIMIT_32BIT" }, { 0x1000000, "SHORT_INODE" }, { 0x2000000, "WHOLE_SECONDS" },
        { 0x4000000, "STICKY_TIMEOUTS" }, { 0x8000000, "ADDR_LIMIT_3GB" },
};

/* One of them. */
static const Value families[] = {
        { 0, "AF_UNSPEC" }, { 1, "AF_UNIX" }, { 2, "AF_INET" }, { 3, "AF_AX25" }, { 4, "AF_IPX" }, { 5, "AF_APPLETALK" },
        { 6, "AF_NETROM" }, { 7, "AF_BRIDGE" }, { 8, "AF_ATMPVC" }, { 9, "AF_X25" }, { 10, "AF_INET6" }, { 11, "AF_ROSE" },
        { 12, "AF_DECnet" }, { 13, "AF_NETBEUI" }, { 14, "AF_SECURITY" }, { 15, "AF_KEY" }, { 16, "AF_NETLINK" },
        { 17, "AF_PACKET" }, { 18, "AF_ASH" }, { 19, "AF_ECONET" }, { 20, "AF_ATMSVC" }, { 21, "AF_RDS" }, { 22, "AF_SNA" },
        { 23, "AF_IRDA" }, { 24, "AF_PPPOX" }, { 25, "AF_WANPIPE" }, { 26, "AF_LLC" }, { 27, "AF_IB" }, { 28, "AF_MPLS" },
        { 29, "AF_CAN" }, { 30, "AF_TIPC" }, { 31, "AF_BLUETOOTH" }, { 32, "AF_IUCV" }, { 33, "AF_RXRPC" }, { 34, "AF_ISDN" },
        { 35, "AF_PHONET" }, { 36, "AF_IEEE802154" }, { 37, "AF_CAIF" }, { 38, "AF_ALG" }, { 39, "AF_NFC" }, { 40, "AF_VSOCK" },
        { 41, "AF_KCM" }, { 42, "AF_QIPCRTR" }, { 43, "AF_SMC" }, { 44, "AF_XDP" }, { 45, "AF_MCTP" },
};
static const Value socket_types[] = {
        { 1, "SOCK_STREAM" }, { 2, "SOCK_DGRAM" }, { 3, "SOCK_RAW" }, { 4, "SOCK_RDM" }, { 5, "SOCK_SEQPACKET" },
        { 6, "SOCK_DCCP" }, { 10, "SOCK_PACKET" },
};
static const Value ptrace_requests[] = {
        { 0, "PTRACE_TRACEME" }, { 1, "PTRACE_PEEKTEXT" }, { 2, "PTRACE_PEEKDATA" }, { 3, "PTRACE_PEEKUSER" },
        { 4, "PTRACE_POKETEXT" }, { 5, "PTRACE_POKEDATA" }, { 6, "PTRACE_POKEUSER" }, { 7, "PTRACE_CONT" },
        { 8, "PTRACE_KILL" }, { 9, "PTRACE_SINGLESTEP" }, { 16, "PTRACE_ATTACH" }, { 17, "PTRACE_DETACH" },
        { 24, "PTRACE_SYSCALL" }, { 0x4200, "PTRACE_SETOPTIONS" }, { 0x4201, "PTRACE_GETEVENTMSG" },
        { 0x4202, "PTRACE_GETSIGINFO" }, { 0x4204, "PTRACE_GETREGSET" }, { 0x4205, "PTRACE_SETREGSET" },
        { 0x4206, "PTRACE_SEIZE" }, { 0x4207, "PTRACE_INTERRUPT" }, { 0x4208, "PTRACE_LISTEN" },
};
static const Value keyctl_operations[] = {
        { 0, "KEYCTL_GET_KEYRING_ID" }, { 1, "KEYCTL_JOIN_SESSION_KEYRING" }, { 2, "KEYCTL_UPDATE" }, { 3, "KEYCTL_REVOKE" },
        { 4, "KEYCTL_CHOWN" }, { 5, "KEYCTL_SETPERM" }, { 6, "KEYCTL_DESCRIBE" }, { 7, "KEYCTL_CLEAR" }, { 8, "KEYCTL_LINK" },
        { 9, "KEYCTL_UNLINK" }, { 10, "KEYCTL_SEARCH" }, { 11, "KEYCTL_READ" }, { 12, "KEYCTL_INSTANTIATE" },
        { 13, "KEYCTL_NEGATE" }, { 14, "KEYCTL_SET_REQKEY_KEYRING" }, { 15, "KEYCTL_SET_TIMEOUT" },
        { 16, "KEYCTL_ASSUME_AUTHORITY" }, { 17, "KEYCTL_GET_SECURITY" }, { 18, "KEYCTL_SESSION_TO_PARENT" },
        { 19, "KEYCTL_REJECT" }, { 20, "KEYCTL_INSTANTIATE_IOV" }, { 21, "KEYCTL_INVALIDATE" },
        { 22, "KEYCTL_GET_PERSISTENT" }, { 23, "KEYCTL_DH_COMPUTE" }, { 24, "KEYCTL_PKEY_QUERY" },
        { 29, "KEYCTL_RESTRICT_KEYRING" }, { 30, "KEYCTL_MOVE" }, { 31, "KEYCTL_CAPABILITIES" }, { 32, "KEYCTL_WATCH_KEY" },
};
static const Value bpf_commands[] = {
        { 0, "BPF_MAP_CREATE" }, { 1, "BPF_MAP_LOOKUP_ELEM" }, { 2, "BPF_MAP_UPDATE_ELEM" }, { 3, "BPF_MAP_DELETE_ELEM" },
        { 4, "BPF_MAP_GET_NEXT_KEY" }, { 5, "BPF_PROG_LOAD" }, { 6, "BPF_OBJ_PIN" }, { 7, "BPF_OBJ_GET" },
        { 8, "BPF_PROG_ATTACH" }, { 9, "BPF_PROG_DETACH" }, { 10, "BPF_PROG_TEST_RUN" }, { 11, "BPF_PROG_GET_NEXT_ID" },
        { 12, "BPF_MAP_GET_NEXT_ID" }, { 13, "BPF_PROG_GET_FD_BY_ID" }, { 14, "BPF_MAP_GET_FD_BY_ID" },
        { 15, "BPF_OBJ_GET_INFO_BY_FD" }, { 16, "BPF_PROG_QUERY" }, { 17, "BPF_RAW_TRACEPOINT_OPEN" }, { 18, "BPF_BTF_LOAD" },
        { 28, "BPF_LINK_CREATE" }, { 36, "BPF_TOKEN_CREATE" },
};
static const Value reboot_commands[] = {
        { 0x01234567, "RB_AUTOBOOT" }, { 0xcdef0123, "RB_HALT_SYSTEM" }, { 0x4321fedc, "RB_POWER_OFF" },
        { 0x45584543, "RB_KEXEC" }, { 0xd000fce2, "RB_SW_SUSPEND" }, { 0x89abcdef, "RB_ENABLE_CAD" }, { 0, "RB_DISABLE_CAD" },
};
static const Value directory_fds[] = { { (uint32_t) -100, "AT_FDCWD" } };

#define LIST(l) l, ELEMENTSOF(l)

/* How an argument is shown. */
typedef enum Kind {
        NOTHING, /* and none after it */
        INT,     /* signed, 32 bits */
        HEX,     /* 32 bits */
        POINTER, /* 64 bits */
        FLAGS,   /* 32 bits; of the table */
        WHICH,   /* likewise, one value */
} Kind;

typedef struct Form {
        Kind kind;
        const Value *values;
        size_t n;
        const Value *flags; /* WHICH: besides */
        size_t n_flags;
        uint32_t mask; /* WHICH, with flags: the bits of the value */
} Form;

#define I { .kind = INT }
#define X { .kind = HEX }
#define P { .kind = POINTER }
#define F(list) { FLAGS, LIST(list), NULL, 0, 0 }
#define W(list) { WHICH, LIST(list), NULL, 0, 0 }
#define TYPE { WHICH, LIST(socket_types), LIST(socket_flags), 0xf }
#define PERSONA { WHICH, NULL, 0, LIST(personality_flags), 0xff }

/* clang-format off */
static const struct {
        int number;
        const char *name;
        Form args[6];
} calls[] = {
        { SYS_unshare, "unshare", { F(clone_flags) } },
        { SYS_setns, "setns", { I, F(clone_flags) } },
        { SYS_clone, "clone", { F(clone_flags), P, P, P, P } },
        { SYS_chroot, "chroot", { P } },
        { SYS_mount, "mount", { P, P, P, F(mount_flags), P } },
        { SYS_umount2, "umount2", { P, F(umount_flags) } },
        { SYS_pivot_root, "pivot_root", { P, P } },
        { SYS_fsopen, "fsopen", { P, X } },
        { SYS_fsconfig, "fsconfig", { I, I, P, P, I } },
        { SYS_fsmount, "fsmount", { I, X, X } },
        { SYS_fspick, "fspick", { W(directory_fds), P, X } },
        { SYS_move_mount, "move_mount", { W(directory_fds), P, W(directory_fds), P, X } },
        { SYS_open_tree, "open_tree", { W(directory_fds), P, X } },
        { 442, "mount_setattr", { W(directory_fds), P, X, P, I } },
        { 467, "open_tree_attr", { W(directory_fds), P, X, P, I } },
        { SYS_ptrace, "ptrace", { W(ptrace_requests), I, P, P } },
        { SYS_process_vm_readv, "process_vm_readv", { I, P, I, P, I, X } },
        { SYS_process_vm_writev, "process_vm_writev", { I, P, I, P, I, X } },
        { SYS_kcmp, "kcmp", { I, I, I, I, I } },
        { 438, "pidfd_getfd", { I, I, X } },
        { SYS_io_uring_setup, "io_uring_setup", { I, P } },
        { SYS_io_uring_enter, "io_uring_enter", { I, I, I, X, P } },
        { SYS_io_uring_register, "io_uring_register", { I, I, P, I } },
        { SYS_add_key, "add_key", { P, P, P, I, I } },
        { SYS_request_key, "request_key", { P, P, P, I } },
        { SYS_keyctl, "keyctl", { W(keyctl_operations), P, P, P, P } },
        { SYS_bpf, "bpf", { W(bpf_commands), P, I } },
        { SYS_perf_event_open, "perf_event_open", { P, I, I, I, X } },
        { SYS_userfaultfd, "userfaultfd", { F(userfault_flags) } },
        { SYS_name_to_handle_at, "name_to_handle_at", { W(directory_fds), P, P, P, X } },
        { SYS_open_by_handle_at, "open_by_handle_at", { W(directory_fds), P, X } },
        { SYS_init_module, "init_module", { P, I, P } },
        { SYS_finit_module, "finit_module", { I, P, X } },
        { SYS_delete_module, "delete_module", { P, X } },
        { SYS_kexec_load, "kexec_load", { P, I, P, X } },
#ifdef SYS_kexec_file_load
        { SYS_kexec_file_load, "kexec_file_load", { I, I, I, P, X } },
#endif
        { SYS_reboot, "reboot", { X, X, W(reboot_commands), P } },
        { SYS_swapon, "swapon", { P, X } },
        { SYS_swapoff, "swapoff", { P } },
#ifdef SYS_modify_ldt
        { SYS_modify_ldt, "modify_ldt", { I, P, I } },
#endif
        { SYS_acct, "acct", { P } },
        { SYS_fanotify_init, "fanotify_init", { X, X } },
        { SYS_fanotify_mark, "fanotify_mark", { I, X, X, W(directory_fds), P } },
        { SYS_quotactl, "quotactl", { X, P, I, P } },
        { 443, "quotactl_fd", { I, X, I, P } },
        { SYS_vhangup, "vhangup", { { .kind = NOTHING } } },
        { SYS_personality, "personality", { PERSONA } },
        { SYS_socket, "socket", { W(families), TYPE, I } },
};
/* clang-format on */

void denied_call_name(int number, char ret[static DENIED_CALL_NAME_MAX])
{
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (calls[i].number == number) {
                        snprintf(ret, DENIED_CALL_NAME_MAX, "%s", calls[i].name);
                        return;
                }
        snprintf(ret, DENIED_CALL_NAME_MAX, "syscall_%i", number);
}

typedef struct Text {
        char *p;
        size_t n; /* so far; never beyond DENIED_CALL_ARGS_MAX - 1 */
} Text;

_printf_(2, 3) static void add(Text *t, const char *format, ...)
{
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(t->p + t->n, DENIED_CALL_ARGS_MAX - t->n, format, ap);
        va_end(ap);
        if (n > 0)
                t->n = MIN2(t->n + (size_t) n, (size_t) DENIED_CALL_ARGS_MAX - 1);
}

/* Those that are set, then what is left of it. */
static void add_flags(Text *t, uint32_t v, const Value *flags, size_t n, const char *separator)
{
        for (size_t i = 0; i < n; i++)
                if (v & flags[i].value) {
                        add(t, "%s%s", separator, flags[i].name);
                        separator = "|";
                        v &= (uint32_t) ~flags[i].value;
                }
        if (v != 0 || !*separator)
                add(t, "%s%#" PRIx32, separator, v);
}

static void add_which(Text *t, uint32_t v, const Form *f)
{
        uint32_t mask = f->n_flags > 0 ? f->mask : UINT32_MAX, bits = v & ~mask;
        const char *name = NULL;

        for (size_t i = 0; i < f->n; i++)
                if (f->values[i].value == (v & mask))
                        name = f->values[i].name;
        if (name)
                add(t, "%s", name);
        else
                add(t, "%" PRIi32, (int32_t) (v & mask));
        if (bits != 0)
                add_flags(t, bits, f->flags, f->n_flags, "|");
}

static void add_argument(Text *t, uint64_t v, const Form *f)
{
        switch (f->kind) {
        case INT:
                add(t, "%" PRIi32, (int32_t) v);
                break;
        case HEX:
                add(t, "%#" PRIx32, (uint32_t) v);
                break;
        case FLAGS:
                add_flags(t, (uint32_t) v, f->values, f->n, "");
                break;
        case WHICH:
                add_which(t, (uint32_t) v, f);
                break;
        default:
                add(t, "0x%" PRIx64, v);
        }
}

void denied_call_args(const struct seccomp_data *d, char ret[static DENIED_CALL_ARGS_MAX])
{
        static const Form unknown = { .kind = POINTER };
        Text t = { .p = ret };
        size_t row = 0;

        while (row < ELEMENTSOF(calls) && calls[row].number != d->nr)
                row++;
        ret[0] = 0;
        for (size_t i = 0; i < ELEMENTSOF(d->args); i++) {
                const Form *f = row < ELEMENTSOF(calls) ? calls[row].args + i : &unknown;

                if (f->kind == NOTHING)
                        break;
                if (i > 0)
                        add(&t, ", ");
                add_argument(&t, d->args[i], f);
        }
}
