/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "broker/tripwire.h"

#define FDINFO_MAX (1024u * 1024)
#define READ_FDS_MAX 65536u

/* What one event takes up, with the descriptor of its process. */
typedef struct Record {
        struct fanotify_event_metadata metadata;
        struct fanotify_event_info_pidfd who;
} Record;

void tripwire_event_done(TripwireEvent *e)
{
        closep(&e->fd);
        closep(&e->pidfd);
        e->fd = e->pidfd = -1;
}

int tripwire_open(void)
{
        int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_REPORT_PIDFD | FAN_CLOEXEC | FAN_NONBLOCK,
                        O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

int tripwire_mark(int group_fd, int file_fd)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%i", file_fd);
        return fanotify_mark(group_fd, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path) < 0 ? -errno : 0;
}

/* Lines "fanotify ino:HEX sdev:HEX mflags:HEX mask:HEX ignored_mask:HEX ..." of proc_pid_fdinfo(5). */
int tripwire_is_marked(int group_fd, dev_t device, ino_t inode)
{
        _cleanup_free_ char *text = NULL;
        char path[64], *rest, *line;
        int r;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%i", group_fd);
        r = read_file(path, FDINFO_MAX, &text, NULL);
        if (r < 0)
                return r;
        rest = text;
        while ((line = strsep(&rest, "\n"))) {
                uint64_t ino;
                unsigned sdev, mflags, mask;

                if (sscanf(line, "fanotify ino:%" SCNx64 " sdev:%x mflags:%x mask:%x", &ino, &sdev, &mflags, &mask) == 4 &&
                                ino == inode && sdev == (major(device) << 20 | minor(device)) && mask & FAN_OPEN_PERM)
                        return 1;
        }
        return 0;
}

int tripwire_read(int group_fd, TripwireEvent ret[TRIPWIRE_BATCH])
{
        Record records[TRIPWIRE_BATCH];
        struct fanotify_event_metadata *m = &records[0].metadata;
        ssize_t n = read(group_fd, records, sizeof(records));
        unsigned k = 0;

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        for (; FAN_EVENT_OK(m, n) && k < TRIPWIRE_BATCH; m = FAN_EVENT_NEXT(m, n), k++) {
                const struct fanotify_event_info_pidfd *who = (const void *) (m + 1);
                bool has_who = m->event_len >= sizeof(Record) && who->hdr.info_type == FAN_EVENT_INFO_TYPE_PIDFD;

                ret[k] = (TripwireEvent){ .fd = m->fd, .pidfd = has_who && who->pidfd >= 0 ? who->pidfd : -1, .pid = m->pid };
        }
        return (int) k;
}

void tripwire_answer(int group_fd, const TripwireEvent *e, bool allow)
{
        const struct fanotify_response answer = { .fd = e->fd, .response = allow ? FAN_ALLOW : FAN_DENY };

        if (e->fd >= 0)
                (void) write_full(group_fd, &answer, sizeof(answer));
}

void tripwire_deny_all_read(int group_fd)
{
        struct rlimit limit;
        rlim_t n = getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : MIN2(limit.rlim_max, (rlim_t) READ_FDS_MAX);

        for (rlim_t fd = 0; fd < n; fd++) {
                const struct fanotify_response answer = { .fd = (int) fd, .response = FAN_DENY };

                while (write(group_fd, &answer, sizeof(answer)) >= 0)
                        ;
        }
}
