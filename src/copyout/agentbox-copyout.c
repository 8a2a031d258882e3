/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-copyout
 *
 * Reads what a run has left in its workspace, once all processes of the run are dead, and writes it to the
 * pipe of the run's caller. Started by the broker for one run; a client of agentbox writes the files.
 *
 * uid            starts as root with the broker's capabilities; becomes the run's uid, without any, before
 * it looks at the workspace, which is then its root descriptors    those of wire/copyout.h, and no other
 * system calls   while it copies: read, close, fstat, newfstatat, getdents64, readlinkat, lseek, poll,
 * ppoll, restart_syscall, exit_group; write to its two pipes; openat for reading that follows no link trusts
 * the kernel, and the spec of the broker must           be confined completely or read nothing; stop where
 * the broker says how much is enough must not       write anywhere but to its pipes; follow a link; believe
 * what a directory said about a name once the name is opened; outlive the broker
 *
 * Stages: spec, identity, landlock, seccomp, copy. */

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/io.h"
#include "copyout/copyout.h"
#include "wire/copyout.h"
#include "wire/tree-send.h"

static CopyoutSpec spec;
static TreeSender sender;

static _noreturn_ void finish(CopyoutOutcome outcome, int error)
{
        const TreeState *s = &sender.encoder.state;
        uint8_t space[COPYOUT_REPORT_SIZE + 1];
        Buf b = { .data = space, .allocated = sizeof(space) };
        CopyoutReport r = {
                .outcome = outcome,
                .error = error,
                .entries = s->entries,
                .bytes = s->bytes,
                .left = s->left,
        };

        /* The buffer is large enough: nothing is allocated, which the filter would not let pass. */
        if (copyout_report_encode(&r, &b) >= 0)
                (void) write_full(COPYOUT_FD_REPORT, b.data, b.size);
        _exit(outcome == COPYOUT_SENT ? 0 : 1);
}

static int receive_spec(void)
{
        _cleanup_free_ void *data = NULL;
        size_t n;
        int r = memfd_read_sealed(COPYOUT_FD_SPEC, COPYOUT_SPEC_SIZE_MAX, &data, &n);

        if (r >= 0)
                r = copyout_spec_decode(data, n, &spec);
        return r;
}

static int prepare(void)
{
        int r = receive_spec();

        sender = TREE_SENDER_NONE;
        if (r < 0)
                return r;
        /* A caller that goes away is an error to be reported. */
        if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
                return -errno;
        r = fd_set_nonblock(COPYOUT_FD_STREAM, true);
        if (r >= 0)
                r = tree_sender_init(&sender);
        if (r < 0)
                return r;
        sender.fd = COPYOUT_FD_STREAM;
        sender.timeout_msec = COPYOUT_STALL_MSEC;
        sender.one_device = true;
        sender.is_layer = spec.has_view;
        sender.max_entries = spec.max_entries;
        sender.max_bytes = spec.max_bytes;
        return 0;
}

static int confine(void)
{
        static const int directories[] = { COPYOUT_FD_WORKSPACE, COPYOUT_FD_VIEW };
        int r = copyout_confine_identity(COPYOUT_FD_WORKSPACE, spec.uid, spec.gid);

        if (r >= 0)
                r = copyout_confine_landlock(directories, ELEMENTSOF(directories));
        if (r >= 0)
                r = copyout_confine_seccomp();
        return r;
}

/* Among the changes it is not: whether the view has it all the same. */
static TreeLeft why_missing(const char *path)
{
        TreeLeft left;
        int fd = spec.has_view ? tree_open_beneath(COPYOUT_FD_VIEW, path, &left) : -ENOENT;

        closep(&fd);
        return fd == -ENOENT || fd == -ENOTDIR ? TREE_LEFT_MISSING : TREE_LEFT_UNCHANGED;
}

/* What the view has at a path that is being sent. */
static int open_beside(const char *path)
{
        TreeLeft left;

        return spec.has_view ? tree_open_beneath(COPYOUT_FD_VIEW, path, &left) : -1;
}

/* What cannot be opened is told in the stream, like what is left out further down. */
static int copy_one(const char *path)
{
        TreeLeft left = TREE_LEFT_CHANGED;
        int fd = tree_open_beneath(COPYOUT_FD_WORKSPACE, path, &left);

        switch (fd) {
        case -ENOENT:
        case -ENOTDIR:
                return tree_send_left(&sender, path, why_missing(path));
        case -ELOOP:
                return tree_send_left(&sender, path, TREE_LEFT_LINK);
        case -EACCES:
        case -EPERM:
                return tree_send_left(&sender, path, TREE_LEFT_UNREADABLE);
        case -ENXIO:
                if (left == TREE_LEFT_DEVICE && spec.has_view && why_missing(path) == TREE_LEFT_MISSING)
                        left = TREE_LEFT_WHITEOUT;
                return tree_send_left(&sender, path, left);
        default:
                return fd < 0 ? fd : tree_send_layer(&sender, path, fd, open_beside(path));
        }
}

static CopyoutOutcome outcome_of_fail(void)
{
        static const CopyoutOutcome outcomes[_TREE_FAIL_MAX] = {
                [TREE_FAIL_FILES] = COPYOUT_FILES,
                [TREE_FAIL_BYTES] = COPYOUT_BYTES,
                [TREE_FAIL_DEPTH] = COPYOUT_DEPTH,
                [TREE_FAIL_ERROR] = COPYOUT_BROKEN,
        };

        return outcomes[sender.item.reason];
}

int main(int argc, char *argv[])
{
        struct stat st;
        int r = 0;

        (void) argv;
        if (argc != 1 || fstat(COPYOUT_FD_WORKSPACE, &st) < 0 || !S_ISDIR(st.st_mode)) {
                static const char text[] = "agentbox-copyout: started by agentboxd for a run, not by hand\n";

                (void) write_full(STDERR_FILENO, text, strlen(text));
                return EXIT_FAILURE;
        }
        r = prepare();
        if (r >= 0)
                r = confine();
        if (r < 0)
                finish(COPYOUT_CONFINED, -r);
        for (char **i = spec.paths; r >= 0 && *i; i++)
                r = copy_one(*i);
        if (r >= 0)
                r = tree_send_end(&sender);
        if (r >= 0)
                finish(COPYOUT_SENT, 0);
        if (r == -E2BIG) {
                CopyoutOutcome o = outcome_of_fail();

                finish(o, o == COPYOUT_BROKEN ? (int) sender.item.error : 0);
        }
        if (r == -EPIPE || r == -ETIMEDOUT)
                finish(COPYOUT_UNREAD, 0);
        finish(COPYOUT_BROKEN, -r);
}
