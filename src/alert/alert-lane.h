/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "alert/alert-batch.h"
#include "base/error.h"

/* The name of a lane's file in the state directory. */
extern const char *const alert_lane_names[_ALERT_LANE_MAX];

/* Hands over what there is, and what comes, for ever. Returns where that cannot go on; a command that fails is no reason. */
int alert_lane_run(AlertLane lane, const char *state, int state_fd, char *const command[], Error **reterr);
