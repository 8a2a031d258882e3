/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "broker/manager.h"

/* The runs of earlier boots. The machine may have gone down with them, by a cut of its power or in good order: what /run had of them
 * is gone, nothing of them is left, and their end is on no record. The first broker of a boot writes it, for each once: "lost". It
 * reads its own records for that (a run without any has nothing that could be without an end), a few at a time beside its other
 * work. */

/* Begins, unless it is done in this boot. */
void boots_settle(Manager *m);
bool boots_are_being_settled(const Manager *m);
BootsReader *boots_reader_free(BootsReader *b);
