/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "broker/run.h"

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";

bool run_id_is_valid(const char *s)
{
        return strlen(s) == RUN_ID_LENGTH && strspn(s, alphabet) == RUN_ID_LENGTH;
}

static int random_id(char ret[RUN_ID_LENGTH + 1])
{
        size_t n = 0;

        while (n < RUN_ID_LENGTH) {
                uint8_t bytes[32];

                if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                        return -EIO;
                /* Only below the largest multiple of 36, so that each is as likely as the others. */
                for (size_t i = 0; i < sizeof(bytes) && n < RUN_ID_LENGTH; i++)
                        if (bytes[i] < 252)
                                ret[n++] = alphabet[bytes[i] % 36];
        }
        ret[n] = 0;
        return 0;
}

void run_set_id(Run *r, const char *id)
{
        snprintf(r->id, sizeof(r->id), "%s", id);
        snprintf(r->unit, sizeof(r->unit), "agentbox-%s.service", r->id);
        snprintf(r->slice, sizeof(r->slice), "agentbox-%s.slice", r->id);
}

void run_set_scope(Run *r)
{
        r->scope = true;
        snprintf(r->unit, sizeof(r->unit), "agentbox-%s.scope", r->id);
}

const char *run_workspace(const Run *r)
{
        return r->workspace ?: policy_string(r->policy, FILES_WORKSPACE);
}

int run_open_mounts(const Run *r)
{
        _cleanup_close_ int fd = -1;
        struct stat st;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/ns/mnt", (int) r->peer.pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* The number may be another process's by now; and what is mounted is never mounted in the host's. */
        if (st.st_ino != r->attest.ns[ATTEST_NS_MNT] || st.st_ino == r->manager->host.ns[ATTEST_NS_MNT])
                return -ESTALE;
        return TAKE_FD(fd);
}

/* In a scope nothing is writable but the workspace. */
RunHome run_home(const Run *r)
{
        return (RunHome){
                .workspace = run_workspace(r),
                .user = r->scope && r->caller.user ? r->caller.user : "agent",
                .tmp = r->scope ? run_workspace(r) : "/tmp",
                .home = r->scope ? run_workspace(r) : unit_home(r->policy),
        };
}

Run *run_new(Manager *m, sd_bus_message *call)
{
        Run *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->manager = m;
        r->request = REQUEST_NONE;
        r->usage = RUN_USAGE_NONE;
        r->dir_fd = r->channel_fd = r->executed_fd = r->pidfd = -1;
        r->memory_max = r->runtime_usec = r->output_max = UINT64_MAX;
        run_result_init(&r->result);
        r->slice_gone = true; /* neither is there yet */
        if (call) {
                char id[RUN_ID_LENGTH + 1];

                do
                        if (random_id(id) < 0) {
                                free(r);
                                return NULL;
                        }
                while (manager_by_id(m, id));
                run_set_id(r, id);
                r->call = sd_bus_message_ref(call);
        }
        run_mark(r, MARK_CALLED);
        return r;
}

Run *run_free(Run *r)
{
        if (!r)
                return NULL;
        run_channel_close(r);
        sd_bus_slot_unref(r->start_slot);
        sd_bus_slot_unref(r->properties_slot);
        sd_bus_slot_unref(r->stop_slot);
        sd_bus_slot_unref(r->check_slot);
        for (size_t i = 0; i < RUN_SLICES; i++) {
                sd_bus_slot_unref(r->slice_slots[i]);
                sd_bus_message_unref(r->slices[i]);
        }
        sd_event_source_disable_unref(r->deadline);
        sd_event_source_disable_unref(r->claim);
        sd_event_source_disable_unref(r->pidfd_source);
        closep(&r->pidfd);
        closep(&r->dir_fd);
        run_warden_free(r->warden);
        run_copy_free(r->copy);
        run_output_free(r->output);
        run_disk_free(r->disk);
        run_view_free(r->view);
        run_tripwires_done(&r->tripwires);
        run_usage_close(&r->usage);
        sd_bus_message_unref(r->call);
        sd_bus_message_unref(r->properties);
        for (size_t i = 0; i < r->n_waiters; i++)
                sd_bus_message_unref(r->waiters[i]);
        free(r->waiters);
        authz_query_free(r->question);
        caller_done(&r->caller);
        request_done(&r->request);
        policy_free(r->policy);
        free(r->policy_name);
        free(r->digest);
        free(r->name);
        free(r->command);
        free(r->description);
        free(r->netns_path);
        free(r->ip_filter_path);
        run_root_done(&r->root);
        unit_props_done(&r->props);
        unit_props_done(&r->mount_props);
        free(r->workspace);
        attest_done(&r->attest);
        strv_free(r->verified);
        strv_free(r->broken);
        unit_status_done(&r->status);
        run_result_done(&r->result);
        free(r);
        return NULL;
}

void run_mark(Run *r, RunMark mark)
{
        if (r->marks[mark] == 0)
                r->marks[mark] = now_monotonic();
}

void run_log_marks(const Run *r)
{
        static const char *const names[_MARK_MAX] = {
                [MARK_CALLED] = "called",
                [MARK_AUTHORISED] = "authorised",
                [MARK_PREPARED] = "prepared",
                [MARK_UNIT_ACCEPTED] = "accepted",
                [MARK_FORKED] = "forked",
                [MARK_JOURNAL] = "journal",
                [MARK_PROPERTIES] = "properties",
                [MARK_WARDEN_HELLO] = "warden",
                [MARK_WARDEN_PROPERTIES] = "warden-properties",
                [MARK_WARDEN_READY] = "warden-ready",
                [MARK_ATTESTED] = "attested",
                [MARK_VERIFIED] = "verified",
                [MARK_SENT] = "sent",
                [MARK_EXECUTED] = "executed",
                [MARK_EXITED] = "exited",
                [MARK_UNIT_OVER] = "over",
                [MARK_SLICE_GONE] = "slice-gone",
                [MARK_WARDEN_OVER] = "warden-over",
                [MARK_ENDED] = "ended",
        };
        _cleanup_buf_ Buf b = {};

        for (size_t i = 0; i < _MARK_MAX; i++)
                if (r->marks[i] != 0)
                        buf_printf(&b, " %s=%.1f", names[i],
                                        (double) (r->marks[i] - r->marks[MARK_CALLED]) / 1000);
        if (b.error == 0 && b.data)
                sd_journal_print(LOG_DEBUG, "Run %s, ms since the call:%s", r->id, (const char *) b.data);
}

const char *run_state_name(const Run *r)
{
        if (r->phase == RUN_RUNNING && unit_status_is_frozen(&r->status))
                return "frozen";
        return r->phase == RUN_ENDED ? "ended" : r->phase >= RUN_RUNNING ? "running" : "starting";
}

uint64_t run_tasks(const Run *r, uint64_t counted)
{
        return r->init_pid > 0 && counted > 0 && counted != UINT64_MAX ? counted - 1 : counted;
}

bool run_is_visible(const Run *r, const Caller *c)
{
        return authz_owns(c, r->caller.uid);
}

AuditSubject run_subject(const Run *r)
{
        return (AuditSubject){
                .run = r->id,
                .policy = r->policy_name,
                .digest = r->digest,
                .unit = r->unit,
                .invocation_id = r->status.invocation_id,
                .caller_uid = r->caller.uid,
        };
}

int run_write_state(Run *r, StatePhase phase)
{
        _cleanup_strv_ char **decoys = NULL;
        int k = decoys_to_strv(&r->tripwires.decoys, &decoys);

        return k < 0 ? k : run_state_write(r->dir_fd, &(RunState){
                                                          .phase = phase,
                                                          .id = r->id,
                                                          .name = r->name,
                                                          .policy = r->policy_name,
                                                          .digest = r->digest,
                                                          .command = r->command,
                                                          .client = r->caller.sender,
                                                          .bus = r->manager->bus_id,
                                                          .invocation_id = r->status.invocation_id,
                                                          .control_group = r->status.control_group,
                                                          .caller_uid = r->caller.uid,
                                                          .uid = r->uid,
                                                          .command_pid = (uint32_t) r->peer.pid,
                                                          .init_pid = (uint32_t) r->init_pid,
                                                          .detached = r->detached,
                                                          .scope = r->scope,
                                                          .filtered = r->warden != NULL,
                                                          .started = r->result.started,
                                                          .started_monotonic = r->started_monotonic,
                                                          .memory_max = r->memory_max,
                                                          .runtime_usec = r->runtime_usec,
                                                          .output_max = r->output_max,
                                                          .gid = r->gid,
                                                          .copy_bytes = r->copy ? r->copy->max_bytes : 0,
                                                          .copy_files = r->copy ? r->copy->max_files : 0,
                                                          .copy_paths = r->copy ? r->copy->paths : NULL,
                                                          .verified = r->verified,
                                                          .unit_result = r->status.result,
                                                          .exec_main_code = (uint32_t) r->status.exec_main_code,
                                                          .exec_main_status = (uint32_t) r->status.exec_main_status,
                                                          .exec_main_exit = r->status.exec_main_exit,
                                                          .exec_main_exit_monotonic = r->status.exec_main_exit_monotonic,
                                                          .kill_reason = r->kill_reason,
                                                          .client_gone = r->client_gone,
                                                          .on_tripwire = r->tripwires.action,
                                                          .metadata_on_record = r->tripwires.metadata_on_record,
                                                          .decoys = decoys,
                                          });
}
