/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "alert/alert-command.h"
#include "alert/alert-lane.h"
#include "alert/alert-position.h"
#include "base/parse.h"
#include "cli/journal-entry.h"
#include "cli/journal-log.h"
#include "cli/output.h"

/* A flood that grows while it is read is told of in between. */
#define RECORDS_MAX 65536u
#define RETRY_SEC 5u
#define TRIES_AS_IT_IS 3u

const char *const alert_lane_names[_ALERT_LANE_MAX] = { [ALERT_URGENT] = "urgent", [ALERT_DENIED] = "denied" };

static const char *const urgent_matches[] = { "AGENTBOX_EVENT=tripwire", "AGENTBOX_EVENT=run-unverified", "+", "AGENTBOX_EVENT=egress-denied",
        "AGENTBOX_REASON=metadata", NULL };
static const char *const denied_matches[] = { "AGENTBOX_EVENT=egress-denied", NULL };
static const char *const *const lane_matches[_ALERT_LANE_MAX] = { [ALERT_URGENT] = urgent_matches, [ALERT_DENIED] = denied_matches };
/* What comes together is read together. */
static const unsigned gather_usec[_ALERT_LANE_MAX] = { [ALERT_URGENT] = 200 * 1000, [ALERT_DENIED] = 1000 * 1000 };

typedef struct Lane {
        AlertLane lane;
        int state_fd;
        char *const *command;
        sd_journal *journal;
        AlertPosition position;
        AlertBatch batch;
        json_t *left; /* read, and for the next batch */
        char end[CURSOR_MAX];
} Lane;

static int store(Lane *l)
{
        return alert_position_write(l->state_fd, alert_lane_names[l->lane], &l->position);
}

/* ---- reading */

/* Behind the last record that is done with; *ret says whether that one is still there. */
static int seek(Lane *l, bool *ret)
{
        const char *from = l->position.from;
        uint64_t usec;
        int r;

        *ret = true;
        if (*from == '@')
                return parse_u64(from + 1, &usec) < 0 ? -EBADMSG : sd_journal_seek_realtime_usec(l->journal, usec);
        r = sd_journal_seek_cursor(l->journal, from);
        if (r >= 0)
                r = sd_journal_next(l->journal);
        if (r > 0)
                r = sd_journal_test_cursor(l->journal, from);
        if (r != 0)
                return r < 0 ? r : 0;
        *ret = false;
        return sd_journal_seek_cursor(l->journal, from);
}

/* 1: it is in the batch, or none of this lane; 0: the batch is full. */
static int take(Lane *l, json_t *record)
{
        _cleanup_free_ char *cursor = NULL;
        int r = sd_journal_get_cursor(l->journal, &cursor);

        if (r < 0)
                return r;
        if (strlen(cursor) >= CURSOR_MAX || json_object_set_new(record, "__CURSOR", json_string(cursor)) < 0)
                return -EBADMSG;
        r = alert_lane(record) == l->lane ? alert_batch_add(&l->batch, record) : 1;
        if (r > 0)
                memcpy(l->end, cursor, strlen(cursor) + 1);
        return r;
}

static int next(Lane *l, json_t **ret)
{
        if (!l->left)
                return journal_entry_next(l->journal, JOURNAL_AUDIT, ret);
        *ret = TAKE_PTR(l->left);
        return 1;
}

/* What there is now; up to the end of the batch that an earlier process was at, where there is one. */
static int gather(Lane *l, bool *ret_reached)
{
        int r = 0;

        *ret_reached = false;
        for (unsigned i = 0; i < RECORDS_MAX && !*ret_reached; i++) {
                _cleanup_json_ json_t *record = NULL;

                r = next(l, &record);
                if (r <= 0)
                        break;
                r = take(l, record);
                if (r == 0)
                        l->left = TAKE_PTR(record);
                if (r <= 0)
                        break;
                *ret_reached = streq(l->end, l->position.to);
        }
        return MIN2(r, 0);
}

/* ---- handing over */

/* A sandbox could choose names that COMMAND, or whoever it passes them on to, cannot digest, and so keep every other alert from being
 * heard: after some tries every other one is without them. */
static int hand_over_one(const Lane *l, const Alert *a)
{
        for (unsigned tries = 0;; tries++) {
                bool shortened = tries >= TRIES_AS_IT_IS && tries % 2 != 0;
                _cleanup_free_ char *line = alert_line(a, shortened);
                int r = line ? alert_command(l->command, line) : -ENOMEM;

                if (r > 0)
                        return 0;
                fprintf(stderr, "agentbox-alert: %s failed%s%s; the record is tried again\n", l->command[0], r < 0 ? ": " : "",
                                r < 0 ? strerror(-r) : "");
                sleep(RETRY_SEC);
        }
}

static int hand_over(Lane *l)
{
        int r = 0;

        memcpy(l->position.to, l->end, sizeof(l->end));
        for (size_t i = l->position.done; r >= 0 && i < l->batch.n; i++) {
                l->position.done = i;
                r = store(l);
                if (r >= 0)
                        r = hand_over_one(l, l->batch.alerts + i);
        }
        if (r < 0)
                return r;
        memcpy(l->position.from, l->end, sizeof(l->end));
        memcpy(l->position.to, "-", 2);
        l->position.done = 0;
        alert_batch_done(&l->batch);
        return store(l);
}

/* A batch that was not finished is read again as it was, and those of its alerts are left out that were handed over; where its
 * records are not all there any more, all are told again. */
static int begin(Lane *l)
{
        bool is_there, reached;
        int r = seek(l, &is_there);

        if (r < 0 || l->position.done == 0)
                return r;
        r = gather(l, &reached);
        if (r >= 0 && !(is_there && reached))
                l->position.done = 0;
        return r < 0 || l->batch.n == 0 ? r : hand_over(l);
}

static int go_on(Lane *l)
{
        bool reached;
        int r = gather(l, &reached);

        if (r >= 0 && l->batch.n > 0)
                return hand_over(l);
        if (r >= 0)
                r = sd_journal_wait(l->journal, UINT64_MAX);
        if (r >= 0)
                usleep(gather_usec[l->lane]);
        return MIN2(r, 0);
}

int alert_lane_run(AlertLane lane, const char *state, int state_fd, char *const command[], Error **reterr)
{
        _cleanup_free_ Lane *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return error_set(reterr, -ENOMEM, "out of memory");
        *l = (Lane){ .lane = lane, .state_fd = state_fd, .command = command };
        r = alert_position_read(state_fd, alert_lane_names[lane], &l->position);
        if (r < 0)
                return error_set(reterr, r, "%s/%s, which says how far it has come, cannot be read (%s); remove it to begin with what comes now",
                                state, alert_lane_names[lane], strerror(-r));
        r = journal_open_matches(lane_matches[lane], &l->journal, reterr);
        if (r < 0)
                return r;
        r = begin(l);
        while (r >= 0)
                r = go_on(l);
        sd_journal_close(l->journal);
        alert_batch_done(&l->batch);
        json_decref(l->left);
        return error_set(reterr, r, "cannot go on with the lane %s: %s", alert_lane_names[lane], strerror(-r));
}
