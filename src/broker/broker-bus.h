/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/manager.h"

/* The broker's side of the system bus: decoding, and who may; everything else is elsewhere. */

/* Connects, offers the objects, watches for callers that leave. The name is not taken yet. */
int broker_bus_connect(Manager *m, Error **reterr);
/* From here on calls come in. */
int broker_bus_take_name(Manager *m, Error **reterr);
/* 1: this unique name is on the bus. */
int broker_bus_has_client(Manager *m, const char *name);
