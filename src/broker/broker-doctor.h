/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/manager.h"

/* Appends AGENTBOX_DOCTOR_RESULT: what this host can enforce, checked by doing it, and what is left over of
 * earlier runs. */
int broker_doctor(Manager *m, sd_bus_message *reply);
