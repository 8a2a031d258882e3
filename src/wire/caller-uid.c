/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "wire/caller-uid.h"

/* See "Users, Groups, UIDs and GIDs on systemd Systems". Containers' own range is also where directories of large sites have their
 * people, who have names of their own. */
static const struct {
        uid_t first, last;
        const char *names; /* only those that are called so, or have no name */
        const char *why;
} rows[] = {
        { 61184, 65519, NULL,
          "is one of those that systemd gives to services with DynamicUser= for as long as they run: the next service that gets it would see "
          "the runs of this one. Give the service an account of its own (User=)" },
        { 65534, 65535, NULL, "stands for anybody of another user namespace, and for nobody" },
        { 524288, 1879048191, "vu-", "is a container's" },
        { 2147352576, 2147418111, NULL, "is one of those that stand for the files of other machines" },
        { (uid_t) -1, (uid_t) -1, NULL, "is none" },
};

const char *caller_uid_refusal(uid_t uid, const char *user)
{
        if (uid == 0) /* whatever the database says */
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (uid >= rows[i].first && uid <= rows[i].last && (!rows[i].names || (user && startswith(user, rows[i].names))))
                        return rows[i].why;
        return user ? NULL : "is nobody's in the user database of this host, as those of containers are; callers have an account";
}
