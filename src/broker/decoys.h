/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* Worthless look-alike credentials, made for one run (Decoys=). Well-formed and random: none opens anything anywhere, and one
 * that turns up elsewhere tells which run it was taken from, by its fingerprint. */

#define DECOYS_MAX 8u
#define DECOY_FINGERPRINT 16u /* hexadecimal digits of the sha256 of a secret, as it stands in the file */

typedef struct DecoyRow {
        const char *path; /* absolute, as the run sees it: beneath UNIT_HOME, where it is the run's, or else root's */
        mode_t mode;
        /* What stands between < and > is one secret. In it, "%" with a letter and a number is so many random characters
         * of that letter's alphabet; %K is a private key as OpenSSH writes it. */
        const char *text;
} DecoyRow;
extern const DecoyRow decoy_rows[];
extern const size_t n_decoy_rows;

/* One that stands. */
typedef struct Decoy {
        size_t row;
        dev_t device;
        ino_t inode;
} Decoy;

typedef struct Decoys {
        Decoy l[DECOYS_MAX];
        size_t n;
        char **fingerprints; /* of all secrets in them */
} Decoys;
void decoys_done(Decoys *d);

/* The text of one, and the fingerprints of its secrets added to the list. */
int decoy_compose(const DecoyRow *row, Buf *out, char ***fingerprints);
/* Puts all of them in place, each marked in group_fd (tripwire.h), before anything untrusted runs; home_fd becomes the
 * run's with all that is in it, of root_fd nothing does. */
int decoys_plant(int home_fd, int root_fd, uid_t uid, gid_t gid, int group_fd, Decoys *ret, Error **reterr);

/* For the run's state, one string for each. -EBADMSG */
int decoys_to_strv(const Decoys *d, char ***ret);
int decoys_from_strv(char *const *l, Decoys *ret);
