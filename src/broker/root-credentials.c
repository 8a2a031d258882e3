/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "broker/root-skeleton.h"
#include "broker/root-source.h"
#include "policy/policy-checks.h"

/* What Credential= names. PID 1 reads the file (LoadCredential=) and would take any, a link or a socket
 * among them; so it is judged here, before the unit is made. Between here and there nobody but root can
 * change what the path leads to. */

/* PID 1's limit for all credentials of a unit together, their names included. */
#define CREDENTIALS_SIZE_MAX (UINT64_C(1) << 20)

static int check_file(const char *path, const struct stat *st, Error **reterr)
{
        if (S_ISLNK(st->st_mode))
                return error_set(reterr, -ELOOP, "%s is a symbolic link; name the path that it leads to",
                                path);
        if (!S_ISREG(st->st_mode))
                return error_set(reterr, -EINVAL, "%s is not a regular file", path);
        if (st->st_uid != 0)
                return error_set(reterr, -EPERM, "%s belongs to user %u; it must be root's", path,
                                st->st_uid);
        /* With an access list, the group's bits are its mask. */
        if (st->st_mode & (S_IRWXG | S_IRWXO))
                return error_set(reterr, -EPERM,
                                "%s is open to others than root (mode %04o); chmod 0600 makes it a secret",
                                path, st->st_mode & 07777);
        return 0;
}

static int look_at(const char *path, uint64_t *ret_size, Error **reterr)
{
        const char *name = strrchr(path, '/') + 1;
        _cleanup_free_ char *directory = strndup(path, (size_t) (name - path));
        _cleanup_close_ int directory_fd = -1, fd = -1;
        struct stat st;
        int r;

        if (!directory)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = root_source_open(directory, &directory_fd, reterr);
        if (r < 0)
                return r;
        fd = openat(directory_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(reterr, -errno, "%s: %m", path);
        r = check_file(path, &st, reterr);
        if (r < 0)
                return r;
        *ret_size = (uint64_t) st.st_size;
        return 0;
}

int skeleton_credentials(Skeleton *s, const Policy *p)
{
        char *const *items = policy_list(p, FILES_CREDENTIAL);
        uint64_t total = 0;

        if (!items)
                return 0;
        s->out.credentials = calloc(strv_length(items), sizeof(RootCredential));
        if (!s->out.credentials)
                return error_set(s->reterr, -ENOMEM, "out of memory");
        STRV_FOREACH(i, items) {
                const char *path = policy_credential_path(*i);
                RootCredential *c = s->out.credentials + s->out.n_credentials;
                _cleanup_error_ Error *why = NULL;
                int r = look_at(path, &c->size, &why);

                if (r < 0)
                        return error_set(s->reterr, r, "Credential=%s: %s", *i, error_message(why, r));
                if (c->size > CREDENTIALS_SIZE_MAX || (total += c->size + strlen(*i)) > CREDENTIALS_SIZE_MAX)
                        return error_set(s->reterr, -EFBIG,
                                        "Credential=%s: PID 1 takes 1M of credentials in all, and this is "
                                        "more",
                                        *i);
                c->name = strndup(*i, (size_t) (path - *i) - 1);
                if (!c->name)
                        return error_set(s->reterr, -ENOMEM, "out of memory");
                s->out.n_credentials++;
        }
        return 0;
}
