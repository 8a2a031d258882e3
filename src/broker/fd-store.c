/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "base/strv.h"
#include "broker/fd-store.h"

/* PID 1 lets go of a descriptor whose other end is gone, where that is all that it could tell. A channel may hold last
 * words, and a process that has ended says how. */
static const struct {
        const char *prefix, *more;
} kinds[_FD_STORE_KIND_MAX] = {
        [FD_STORE_COPY] = { "copy-", "" },
        [FD_STORE_OUTPUT] = { "output-", "\nFDPOLL=0" },
        [FD_STORE_MAIN] = { "main-", "\nFDPOLL=0" },
        [FD_STORE_LISTENER] = { "listener-", "" },
        [FD_STORE_INIT] = { "init-", "\nFDPOLL=0" },
        [FD_STORE_TRIPWIRES] = { "tripwires-", "\nFDPOLL=0" },
};

int fd_store_put(FdStoreKind kind, const char *run, const int *fds, size_t n)
{
        char text[128];
        int r;

        snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s%s%s", kinds[kind].prefix, run, kinds[kind].more);
        r = sd_pid_notify_with_fds(0, false, text, fds, (unsigned) n);
        return r < 0 ? r : 0;
}

static void drop_name(const char *name)
{
        char text[128];

        snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
        (void) sd_notify(false, text);
}

void fd_store_drop(FdStoreKind kind, const char *run)
{
        char name[64];

        snprintf(name, sizeof(name), "%s%s", kinds[kind].prefix, run);
        drop_name(name);
}

int fd_store_receive(FdStore *ret)
{
        char **names = NULL;
        int n = sd_listen_fds_with_names(true, &names);
        FdStore s = { .names = names };

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

int fd_store_take(FdStore *s, FdStoreKind kind, const char *run)
{
        for (size_t i = 0; i < s->n; i++) {
                const char *id = startswith(s->names[i], kinds[kind].prefix);

                if (id && streq(id, run) && s->fds[i] >= 0)
                        return TAKE_FD(s->fds[i]);
        }
        return -1;
}

void fd_store_done(FdStore *s)
{
        for (size_t i = 0; i < s->n; i++) {
                if (s->fds[i] < 0)
                        continue;
                close(s->fds[i]);
                for (FdStoreKind k = 0; k < _FD_STORE_KIND_MAX; k++)
                        if (startswith(s->names[i], kinds[k].prefix))
                                drop_name(s->names[i]);
        }
        strv_free(s->names);
        free(s->fds);
        *s = (FdStore){};
}
