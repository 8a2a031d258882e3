/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/tree.h"

/* What of a run's results will execute later, without anybody choosing to execute it: known by its path
 * alone, and by the mode that makes a file a program. Everything else that a run wrote may of course be
 * executed too, by whoever decides so. */
typedef enum GateClass {
        GATE_NONE,
        GATE_GIT,        /* git obeys it: hooks, configuration */
        GATE_CI,         /* a service that builds and tests obeys it */
        GATE_SHELL,      /* read when somebody logs in, opens a shell, starts a program */
        GATE_EDITOR,     /* an editor or another agent obeys it */
        GATE_PACKAGE,    /* executed when a package is installed, built or tested */
        GATE_EXECUTABLE, /* a program */
        _GATE_CLASS_MAX,
} GateClass;

/* path: where it is going to stand, as much of it as is known. mode: of a file. A directory is nothing; a
 * symbolic link is what the file of this name would be, and what the directory of this name could hold.
 * Upper and lower case are the same, as they are to some file systems. */
GateClass gate_classify(const char *path, TreeType type, uint32_t mode);
const char *gate_class_text(GateClass c); /* "git obeys it", ... */
