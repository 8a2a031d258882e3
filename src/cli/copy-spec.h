/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* The values of --in and --out: SRC[:DEST]. The last colon divides; a name with a colon in it is given with
 * its DEST. All that is returned is newly allocated. workspace: the policy's, absolute. */

/* Where path is beneath the workspace, in the form of wire/tree.h ("." is the workspace itself). Relative,
 * or absolute with the workspace in front; "." and double slashes are taken out, ".." is refused (-EINVAL).
 */
int copy_workspace_path(const char *path, const char *workspace, char **ret, Error **reterr);

/* --in: source as given ("-": standard input), dest in the workspace. */
int copy_in_spec(
                const char *text, const char *workspace, char **ret_source, char **ret_dest, Error **reterr);
/* --out: source in the workspace; the directory that the result goes into, and its name there. */
int copy_out_spec(const char *text, const char *workspace, char **ret_source, char **ret_parent,
                char **ret_name, Error **reterr);
