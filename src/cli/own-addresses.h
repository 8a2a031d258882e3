/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/strv.h"

/* The addresses that this host's interfaces have now, as records write them. 0 or -ENOMEM; where the kernel does not tell,
 * none. */
int own_addresses(char ***ret);
