/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-disk
 *
 * Makes the workspace on disk of one run: a file that nobody can name, filled by mke2fs, shown by a loop device, mounted in the
 * run's own mounts and nowhere else. That takes seconds at worst, devices, and mounts; the broker has none of these. It connects
 * to the socket that PID 1 holds, and PID 1 starts one of these for each connection, in a unit of its own
 * (agentbox-disk@.service).
 *
 * uid
 *     root, with the capabilities of its unit; mke2fs runs under a uid that nobody else has, and has none of them
 *
 * descriptors
 *     0: the connection; 2: the journal
 *
 * trusts
 *     whoever is root at the other end, for whom it makes what a policy says: a size, a number of inodes, a path in the run's
 *     root, in which nothing but the shim has run yet. mke2fs, as far as the kernel can mount what it has written
 *
 * must
 *     take all room that the file may ever need before anything runs; leave nothing behind whenever it dies: whatever it holds is
 *     a descriptor, and the kernel ends with the last one what it stands for
 *
 * must not
 *     mount in the host's namespace, or give anything a name on the host; look at what a run has written; run on when the other
 *     end is gone, or has its answer
 *
 * Stages: making, while the run's unit comes up; then attaching, where the run's mounts are sent; or the trial of "agentbox doctor",
 * which ends with the first. See wire/disk.h. */

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "disk/disk-make.h"
#include "wire/disk.h"
#include "wire/packet.h"

#define TRIAL "doctor"
/* The kernel takes its time with the devices of runs that have just ended, and with the one of the trial. */
#define LOOKS_MAX 50u
#define LOOK_USEC 20000u

typedef struct Disk {
        uint64_t host;
        DiskRequest request;
        int fd;      /* the file system */
        char **left; /* see DiskReply */
} Disk;

static void disk_done(Disk *d)
{
        disk_request_done(&d->request);
        closep(&d->fd);
        strv_free(d->left);
}

static int receive_request(int fd, DiskRequest *ret, Error **reterr)
{
        uint8_t message[DISK_MESSAGE_MAX];
        ssize_t n = packet_receive(fd, 0, message, sizeof(message), NULL, 0);
        int r = n < 0 ? (int) n : n == 0 ? -ECONNRESET : disk_request_decode(message, (size_t) n, ret);

        return r < 0 ? error_set(reterr, r, "the request was not understood: %s", strerror(-r)) : 0;
}

static int make(Disk *d, int connection, Error **reterr)
{
        const DiskRequest *q = &d->request;
        _cleanup_close_ int dir = -1;
        int r = disk_host(&d->host, reterr);

        if (r >= 0)
                r = disk_directory(&dir, reterr);
        return r < 0 ? r : disk_make(dir, d->host, *q->run ? q->run : TRIAL, q->size, q->inodes, q->exec, connection, &d->fd, reterr);
}

/* The broker sends it when the run has its mounts, and never where there will be no run. */
static int attach(Disk *d, int connection, Error **reterr)
{
        uint8_t message[DISK_MESSAGE_MAX];
        _cleanup_(disk_place_done) DiskPlace place = {};
        _cleanup_close_ int mounts = -1;
        ssize_t n = packet_receive(connection, 0, message, sizeof(message), &mounts, 1);
        int r;

        if (n == 0)
                return error_set(reterr, -ECONNRESET, "nobody wants it any more");
        r = n < 0 ? (int) n : disk_place_decode(message, (size_t) n, &place);
        if (r >= 0 && mounts < 0)
                r = -EBADMSG;
        if (r < 0)
                return error_set(reterr, r, "where it belongs was not understood: %s", strerror(-r));
        return disk_attach(d->fd, mounts, place.workspace, reterr);
}

/* Where there are no devices at all, none is left over. */
static void end_trial(Disk *d)
{
        closep(&d->fd);
        d->fd = -1;
        for (unsigned i = 0; i < LOOKS_MAX; i++) {
                d->left = strv_free(d->left);
                if (disks_left(d->host, d->request.living, &d->left, NULL) < 0 || strv_length(d->left) == 0)
                        break;
                usleep(LOOK_USEC);
        }
}

static int serve(Disk *d, int connection, Error **reterr)
{
        int r = receive_request(connection, &d->request, reterr);

        if (r < 0)
                return r;
        r = make(d, connection, reterr);
        if (!*d->request.run)
                end_trial(d);
        else if (r >= 0)
                r = attach(d, connection, reterr);
        return r;
}

static int answer(const Disk *d, int connection, int r, const Error *e)
{
        _cleanup_buf_ Buf message = {};
        char text[DISK_TEXT_MAX + 1] = "";
        int k;

        if (r < 0)
                snprintf(text, sizeof(text), "%s", error_message(e, r));
        k = disk_reply_encode(&(DiskReply){ .error = r < 0 ? -r : 0, .text = text, .left = d->left }, &message);
        return k < 0 ? k : packet_send(connection, &message, &d->fd, r >= 0 && d->fd >= 0 ? 1 : 0);
}

int main(int argc, char *argv[])
{
        _cleanup_(disk_done) Disk d = { .fd = -1 };
        _cleanup_error_ Error *e = NULL;
        int r = argc == 1 ? packet_check_root(STDIN_FILENO) : -EINVAL;

        (void) argv;
        if (r < 0) {
                fputs("agentbox-disk: started by PID 1 for agentboxd, not by hand\n", stderr);
                return EXIT_FAILURE;
        }
        r = serve(&d, STDIN_FILENO, &e);
        if (r == -ECONNRESET) /* there will be no such run */
                return EXIT_SUCCESS;
        if (answer(&d, STDIN_FILENO, r, e) < 0 || r < 0)
                return EXIT_FAILURE;
        return EXIT_SUCCESS;
}
