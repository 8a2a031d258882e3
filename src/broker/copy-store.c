/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "base/strv.h"
#include "broker/copy-store.h"

#define NAME_PREFIX "copy-"

int copy_store_put(const char *run, int out_fd, int workspace_fd)
{
        char text[128];
        const int fds[] = { out_fd, workspace_fd };
        int r;

        snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=" NAME_PREFIX "%s", run);
        r = sd_pid_notify_with_fds(0, false, text, fds, ELEMENTSOF(fds));
        return r < 0 ? r : 0;
}

void copy_store_drop(const char *run)
{
        char text[128];

        snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=" NAME_PREFIX "%s", run);
        (void) sd_notify(false, text);
}

int copy_store_receive(CopyStore *ret)
{
        char **names = NULL;
        int n = sd_listen_fds_with_names(true, &names);
        CopyStore s = { .names = names };

        if (n < 0)
                return n;
        s.fds = calloc((size_t) n + 1, sizeof(int));
        if (!s.fds) {
                strv_free(names);
                return -ENOMEM;
        }
        s.n = (size_t) n;
        for (int i = 0; i < n; i++)
                s.fds[i] = SD_LISTEN_FDS_START + i;
        *ret = s;
        return 0;
}

/* By what the kernel knows of them: both have the same name. */
void copy_store_take(CopyStore *s, const char *run, int *ret_out_fd, int *ret_workspace_fd)
{
        *ret_out_fd = *ret_workspace_fd = -1;
        for (size_t i = 0; i < s->n; i++) {
                const char *id = startswith(s->names[i], NAME_PREFIX);
                int *to;

                if (!id || !streq(id, run) || s->fds[i] < 0)
                        continue;
                to = fcntl(s->fds[i], F_GETPIPE_SZ) >= 0 ? ret_out_fd : ret_workspace_fd;
                closep(to);
                *to = TAKE_FD(s->fds[i]);
        }
}

void copy_store_done(CopyStore *s)
{
        for (size_t i = 0; i < s->n; i++) {
                const char *id = startswith(s->names[i], NAME_PREFIX);

                if (s->fds[i] < 0)
                        continue;
                close(s->fds[i]);
                if (id)
                        copy_store_drop(id);
        }
        strv_free(s->names);
        free(s->fds);
        *s = (CopyStore){};
}
