/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "policy/policy.h"

/* The run's root: a skeleton of directories and links below RUNTIME_DIR/ID/root (host tmpfs, owned by root,
 * 0755), filled by binds of the unit; and the synthetic files of /etc. */

/* A directory or file of the host that the run sees, and which one it was when the root was made. */
typedef struct RootBind {
        char *source, *destination; /* absolute; source without links */
        dev_t device;
        ino_t inode;
} RootBind;

/* What Credential= names: a file's name in the run, and how much the file of the host holds. */
typedef struct RootCredential {
        char *name;
        uint64_t size;
} RootCredential;

typedef struct RunRoot {
        char *directory; /* RUNTIME_DIR/ID/root */
        RootBind *shown; /* /usr among them; no destination twice */
        size_t n_shown;
        RootCredential *credentials; /* PID 1 reads them, the broker never does */
        size_t n_credentials;
        char **binds; /* the same as "SRC:DEST", for UnitContext.extra_binds */
} RunRoot;
void run_root_done(RunRoot *r);

/* dir_fd: RUNTIME_DIR/ID, made by the caller. Everything but passwd and group, which need the uid.
 * Refuses a credential that others than root could read or change, a directory of Root= that others than
 * root could change, and an Expose= that leads where nothing may be exposed. -EOPNOTSUPP: Root= is something
 * else than host-usr or a directory. */
int run_root_create(int dir_fd, const char *dir_path, const Policy *p, RunRoot *ret, Error **reterr);
/* Once the uid is known, before the RunSpec is sent: writes /etc/passwd and /etc/group naming it "agent". */
int run_root_write_identity(const RunRoot *r, uid_t uid, gid_t gid, const Policy *p, Error **reterr);

/* The workspace of the run whose shim is pid, as a directory descriptor (no link followed on the way; a
 * file system of its own, of the kind that the policy says, or it is an error), given to its uid on the way: until then it is root's, which git, ssh and others
 * object to. Once, before the RunSpec is sent. What is in it stays readable through the descriptor when all
 * processes of the run are dead. */
int run_root_take_workspace(pid_t pid, uid_t uid, gid_t gid, const Policy *p, int *ret_fd, Error **reterr);

/* Removes the directory name below dir_fd with all that is in it: follows no link, leaves other file systems
 * alone (-EXDEV). */
int run_root_remove(int dir_fd, const char *name, Error **reterr);
