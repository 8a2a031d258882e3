/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/manager.h"

/* What this host can do for the broker, found out by doing it, and what is left over of earlier runs (AGENTBOX_DOCTOR_RESULT). The
 * call is answered when agentbox-disk has tried to make a workspace. 1, or negative errno. */
int broker_doctor(Manager *m, sd_bus_message *call);
/* It is not answered. NULL. */
Doctor *broker_doctor_free(Doctor *d);
