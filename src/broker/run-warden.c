/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/io.h"
#include "broker/fd-store.h"
#include "broker/host-config.h"
#include "broker/loopback-filter.h"
#include "broker/run.h"
#include "broker/warden-unit.h"
#include "wire/bus-iface.h"

/* The start of a run's warden: from the policy to a process that has been told what to do. How it lives and
 * ends is in run-warden-life.c. */

#define RESOLV_CONF "/etc/resolv.conf"
#define RESOLV_CONF_MAX (64u * 1024)
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define NOTIFY_SOCKET "/run/systemd/notify"

RunWarden *run_warden_free(RunWarden *w)
{
        if (!w)
                return NULL;
        wall_done(&w->wall);
        warden_plan_done(&w->plan);
        run_root_done(&w->root);
        unit_props_done(&w->props);
        free(w->description);
        sd_event_source_disable_unref(w->channel_source);
        sd_event_source_disable_unref(w->deadline);
        closep(&w->channel_fd);
        closep(&w->journal_fd);
        closep(&w->notify_fd);
        closep(&w->tally_fd);
        closep(&w->calls_fd);
        closep(&w->calls_theirs_fd);
        closep(&w->proc_fd);
        closep(&w->listener_fd);
        sd_bus_slot_unref(w->properties_slot);
        sd_bus_slot_unref(w->check_slot);
        for (size_t i = 0; i < WARDEN_SLICES; i++)
                sd_bus_slot_unref(w->slice_slots[i]);
        sd_bus_message_unref(w->properties);
        strv_free(w->open_slices);
        unit_status_done(&w->status);
        free(w);
        return NULL;
}

RunWarden *run_warden_new(const char *run_id)
{
        RunWarden *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        w->wall = WALL_NONE;
        w->journal_fd = w->notify_fd = w->tally_fd = w->channel_fd = -1;
        w->calls_fd = w->calls_theirs_fd = w->proc_fd = w->listener_fd = -1;
        w->is_over = true; /* none is there yet */
        snprintf(w->unit, sizeof(w->unit), WARDEN_UNIT_PREFIX "%s.service", run_id);
        return w;
}

/* ---- what its unit needs */

static int make_plan(Run *r, Error **reterr)
{
        _cleanup_host_config_ HostConfig config = {};
        _cleanup_free_ char *resolv_conf = NULL;
        int k = host_config_read(HOST_CONFIG, &config, reterr);

        if (k < 0)
                return k;
        k = read_file(RESOLV_CONF, RESOLV_CONF_MAX, &resolv_conf, NULL);
        if (k < 0 && k != -ENOENT)
                return error_set(reterr, k, RESOLV_CONF ": %s", strerror(-k));
        return warden_plan_make(r->policy, &config, resolv_conf, &r->warden->plan, reterr);
}

static int make_root(Run *r, Error **reterr)
{
        char path[sizeof(RUNTIME_DIR "/") + RUN_ID_LENGTH];

        snprintf(path, sizeof(path), RUNTIME_DIR "/%s", r->id);
        return warden_root_create(r->dir_fd, path, &r->warden->plan, &r->warden->root, reterr);
}

static int make_props(Run *r, Error **reterr)
{
        RunWarden *w = r->warden;
        int k;

        if (asprintf(&w->description, "warden of agentbox run %s", r->id) < 0) {
                w->description = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        k = warden_props(
                        &(WardenUnit){
                                        .systemd_version = r->manager->host.systemd_version,
                                        .description = w->description,
                                        .root_directory = w->root.directory,
                                        .binds = w->root.binds,
                                        .plan = &w->plan,
                        },
                        &w->props);
        return k < 0 ? error_set(reterr, k, "the warden's unit: %s", strerror(-k)) : 0;
}

static int make_wall(Run *r, Error **reterr)
{
        int k = manager_take_wall(r->manager, &r->warden->wall, reterr);

        return k < 0 ? error_prefix(reterr, k,
                                       "this kernel does not let agentbox catch what a run sends (see "
                                       "\"agentbox doctor\")")
                     : 0;
}

/* Root's, in the run's directory, so that whatever broker sees the end of the run finds it. Written, not only cut to
 * size: where the file system is full, that must show here and not in the warden, as SIGBUS. */
static int make_tally(Run *r, Error **reterr)
{
        static const EgressTally zero;
        RunWarden *w = r->warden;
        int k;

        w->tally_fd = openat(r->dir_fd, WARDEN_TALLY_FILE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        0600);
        k = w->tally_fd < 0 ? -errno : write_full(w->tally_fd, &zero, sizeof(zero));
        return k < 0 ? error_set(reterr, k, "cannot make the file that the warden counts in: %s", strerror(-k))
                     : 0;
}

static int connect_to(const char *path, int *ret_fd, Error **reterr)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (fd < 0 || connect(fd, (struct sockaddr *) &a, sizeof(a)) < 0)
                return error_set(reterr, -errno, "%s: %m", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int run_warden_connect_journal(int *ret_fd, Error **reterr)
{
        return connect_to(JOURNAL_SOCKET, ret_fd, reterr);
}

static int make_sockets(Run *r, Error **reterr)
{
        int k = run_warden_connect_journal(&r->warden->journal_fd, reterr);

        return k < 0 ? k : connect_to(NOTIFY_SOCKET, &r->warden->notify_fd, reterr);
}

/* Who made a refused call is looked up from outside: in /proc of the host, which the warden's unit does not see. */
static int make_witness(Run *r, Error **reterr)
{
        RunWarden *w = r->warden;
        int fds[2];

        if (!run_warden_records_calls(r))
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return error_set(reterr, -errno, "cannot make the channel of the warden's witness: %m");
        w->calls_fd = fds[0];
        w->calls_theirs_fd = fds[1];
        w->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return w->proc_fd < 0 ? error_set(reterr, -errno, "/proc: %m") : 0;
}

bool run_warden_records_calls(const Run *r)
{
        return r->warden && policy_records_denied_calls(r->policy);
}

int run_warden_prepare(Run *r, Error **reterr)
{
        static int (*const steps[])(Run * r, Error * *reterr) = { make_plan, make_root, make_props,
                make_tally, make_sockets, make_witness, make_wall };

        r->warden = run_warden_new(r->id);
        if (!r->warden)
                return error_set(reterr, -ENOMEM, "out of memory");
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int k = steps[i](r, reterr);

                if (k < 0)
                        return k;
        }
        return 0;
}

/* ---- what it and PID 1 tell */

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        RunWarden *w = r->warden;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        int k;

        w->properties_slot = sd_bus_slot_unref(w->properties_slot);
        if (r->phase != RUN_STARTING)
                return 0;
        k = e ? -EIO : unit_status_read_reply(&w->status, m);
        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1 does not tell the properties of the warden's unit: %s",
                                e ? e->message ?: e->name : strerror(-k));
                return 0;
        }
        w->properties = sd_bus_message_ref(m);
        run_mark(r, MARK_WARDEN_PROPERTIES);
        run_advance(r);
        return 0;
}

static void on_hello(Run *r, const Buf *message, const struct ucred *peer)
{
        RunWarden *w = r->warden;
        int k = wardenhello_decode(message->data, message->size, &w->hello);

        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "the run's warden said something that it should not: %s", strerror(-k));
                return;
        }
        run_mark(r, MARK_WARDEN_HELLO);
        w->peer = *peer;
        w->has_hello = true;
        k = broker_unit_get_all(r->manager->pid1.bus, w->unit, on_properties, r, &w->properties_slot);
        if (k < 0) /* it executes itself anew, and is not connected at the moment */
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1 does not tell the properties of the warden's unit: %s", strerror(-k));
}

static void on_ready(Run *r, const Buf *message)
{
        RunWarden *w = r->warden;
        WardenReady ready;
        int k = wardenready_decode(message->data, message->size, &ready);

        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "the run's warden said something that it should not: %s", strerror(-k));
        else if (ready.error != 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "the run's warden failed in stage %.*s: %s",
                                (int) sizeof(ready.stage), ready.stage, strerror(ready.error));
        else {
                w->is_ready = true;
                run_mark(r, MARK_WARDEN_READY);
                run_advance(r);
        }
}

static int on_channel(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        RunWarden *w = r->warden;
        _cleanup_buf_ Buf message = {};
        struct ucred peer;
        int k = run_channel_receive(fd, &message, &peer, NULL);

        if (k == 0) { /* whether the unit is over, PID 1 says */
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
                return 0;
        }
        if (k > 0 && r->phase == RUN_STARTING && !w->has_hello)
                on_hello(r, &message, &peer);
        else if (k > 0 && r->phase == RUN_STARTING && w->is_told && !w->is_ready && peer.pid == w->peer.pid)
                on_ready(r, &message);
        else if (r->phase == RUN_STARTING)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "the run's warden said something that it should not");
        else
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return 0;
}

int run_warden_open(Run *r, int *ret_warden_fd, Error **reterr)
{
        RunWarden *w = r->warden;
        _cleanup_close_ int theirs = -1;
        int fds[2], one = 1, k;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return error_set(reterr, -errno, "cannot make the warden's channel: %m");
        w->channel_fd = fds[0];
        theirs = fds[1];
        if (setsockopt(w->channel_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0)
                return error_set(reterr, -errno, "cannot ask for credentials on the warden's channel: %m");
        k = sd_event_add_io(r->manager->event, &w->channel_source, w->channel_fd, EPOLLIN, on_channel, r);
        if (k < 0)
                return error_set(reterr, k, "cannot watch the warden's channel: %s", strerror(-k));
        w->is_over = false;
        *ret_warden_fd = TAKE_FD(theirs);
        return 0;
}

static const char *const slices[WARDEN_SLICES] = { WARDEN_SLICE, "agentbox.slice", "-.slice" };

static int on_slice(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        RunWarden *w = r->warden;
        const sd_bus_slot *slot = sd_bus_get_current_slot(sd_bus_message_get_bus(m));
        size_t i = 0;
        int k;

        while (i < WARDEN_SLICES - 1 && w->slice_slots[i] != slot)
                i++;
        w->slice_slots[i] = sd_bus_slot_unref(w->slice_slots[i]);
        if (r->phase != RUN_STARTING)
                return 0;
        k = broker_unit_read_ip_allow(m);
        if (k > 0)
                k = strv_extend(&w->open_slices, slices[i]);
        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "PID 1 does not tell what %s allows: %s",
                                slices[i], strerror(-k));
                return 0;
        }
        w->n_slices++;
        run_advance(r);
        return 0;
}

int run_warden_ask(Run *r)
{
        int k = 0;

        for (size_t i = 0; r->warden && k >= 0 && i < WARDEN_SLICES; i++)
                k = broker_unit_get_ip_allow(
                                r->manager->pid1.bus, slices[i], on_slice, r, &r->warden->slice_slots[i]);
        return k;
}

bool run_warden_is_met(const Run *r)
{
        const RunWarden *w = r->warden;

        return !w || (w->has_hello && w->properties && w->n_slices == WARDEN_SLICES);
}

/* ---- the verification */

static int check_wall(const void *wall, int cgroup_fd, Buf *why)
{
        return wall_verify(wall, cgroup_fd, why);
}

int run_warden_attach(Run *r, int cgroup_fd, Error **reterr)
{
        int k = wall_attach(&r->warden->wall, cgroup_fd, reterr);

        return k < 0 ? error_prefix(reterr, k, "this kernel does not let agentbox see what a run sends") : 0;
}

void run_warden_verify_input(const Run *r, int cgroup_fd, VerifyWarden *ret)
{
        const RunWarden *w = r->warden;

        *ret = (VerifyWarden){
                .sent = &w->props,
                .properties = w->properties,
                .control_group = w->status.control_group,
                .hello = &w->hello,
                .peer = w->peer,
                .program = WARDEN_PATH,
                .root_directory = w->root.directory,
                .n_slices = WARDEN_SLICES,
                .n_slices_told = w->n_slices,
                .open_slices = w->open_slices,
                .journal_fd = w->journal_fd,
                .tally_fd = w->tally_fd,
                .journal_path = JOURNAL_SOCKET,
                .run_cgroup_fd = cgroup_fd,
                .wall = &w->wall,
                .wall_verify = check_wall,
        };
}

/* ---- what it is told */

static int encode_spec(const Run *r, Buf *out)
{
        const RunWarden *w = r->warden;
        WardenSpec s = {
                .run = (char *) r->id,
                .policy = r->policy_name,
                .digest = r->digest,
                .unit = (char *) r->unit,
                .invocation_id = (char *) r->status.invocation_id,
                .caller_uid = r->caller.uid,
                .record_calls = run_warden_records_calls(r),
        };

        s.kill_on_denied = s.record_calls && policy_u64(r->policy, SYSCALLS_ON_DENIED) == ON_DENIED_KILL;
        warden_plan_to_spec(&w->plan, &s);
        if (getrandom(s.seed, sizeof(s.seed), 0) != sizeof(s.seed))
                return -EIO;
        return wardenspec_encode(&s, out);
}

static int send_message(int channel, const void *text, size_t n_text, const int *fds, size_t n)
{
        union {
                char space[CMSG_SPACE(_WARDEN_FD_MAX * sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec v = { .iov_base = (void *) (uintptr_t) text, .iov_len = n_text };
        struct msghdr m = { .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        ssize_t k;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
        do
                k = sendmsg(channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (k < 0 && errno == EINTR);
        return k < 0 ? -errno : 0;
}

/* Those that this run has, in the order of enum WardenFd; bits says which. */
static size_t collect_fds(const RunWarden *w, int memfd, int ret[static _WARDEN_FD_MAX], uint32_t *ret_bits)
{
        const Wall *wall = &w->wall;
        const int fds[_WARDEN_FD_MAX] = {
                [WARDEN_FD_SPEC] = memfd,
                [WARDEN_FD_TCP4] = wall->tcp[0],
                [WARDEN_FD_DNS4] = wall->dns[0],
                [WARDEN_FD_EVENTS] = wall->events_fd,
                [WARDEN_FD_COUNTERS] = wall->counters_fd,
                [WARDEN_FD_LINK] = wall->link_fd,
                [WARDEN_FD_JOURNAL] = w->journal_fd,
                [WARDEN_FD_NOTIFY] = w->notify_fd,
                [WARDEN_FD_TALLY] = w->tally_fd,
                [WARDEN_FD_CALLS] = w->calls_theirs_fd,
                [WARDEN_FD_PROC] = w->proc_fd,
                [WARDEN_FD_TCP6] = wall->tcp[1],
                [WARDEN_FD_DNS6] = wall->dns[1],
        };
        size_t n = 0;

        *ret_bits = 0;
        for (WardenFd i = 0; i < _WARDEN_FD_MAX; i++)
                if (fds[i] >= 0) {
                        ret[n++] = fds[i];
                        *ret_bits |= UINT32_C(1) << i;
                }
        return n;
}

int run_warden_tell(Run *r, Error **reterr)
{
        RunWarden *w = r->warden;
        _cleanup_close_ int memfd = -1;
        _cleanup_buf_ Buf b = {}, head = {};
        int fds[_WARDEN_FD_MAX], k = encode_spec(r, &b);
        uint32_t bits;
        size_t n;

        if (k >= 0)
                memfd = memfd_sealed("agentbox-wardenspec", b.data, b.size);
        if (k >= 0 && memfd < 0)
                k = memfd;
        if (k < 0)
                return error_set(reterr, k, "cannot write down what the warden is to do: %s", strerror(-k));
        n = collect_fds(w, memfd, fds, &bits);
        buf_append(&head, WARDENSPEC_MESSAGE, strlen(WARDENSPEC_MESSAGE));
        k = buf_u32(&head, bits);
        if (k >= 0)
                k = send_message(w->channel_fd, head.data, head.size, fds, n);
        if (k < 0)
                return error_set(reterr, k, "cannot tell the warden what to do: %s", strerror(-k));
        w->is_told = true;
        closep(&w->calls_theirs_fd);
        w->calls_theirs_fd = -1;
        return 0;
}

static bool is_listener(int fd)
{
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%i", fd);
        return readlink(path, target, sizeof(target) - 1) > 0 && streq(target, "anon_inode:seccomp notify");
}

int run_warden_pass_listener(Run *r, int fd)
{
        RunWarden *w = r->warden;
        int k;

        if (w->calls_fd < 0 || !is_listener(fd))
                return -EINVAL;
        if (policy_u64(r->policy, SYSCALLS_ON_DENIED) == ON_DENIED_KILL) {
                w->listener_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
                if (w->listener_fd < 0)
                        return -errno;
                k = fd_store_put(FD_STORE_LISTENER, r->id, &w->listener_fd, 1);
                if (k < 0)
                        return k;
        }
        k = send_message(w->calls_fd, WITNESS_LISTENER, strlen(WITNESS_LISTENER), &fd, 1);
        closep(&w->calls_fd);
        w->calls_fd = -1;
        return k;
}

void run_warden_drop_start(Run *r)
{
        RunWarden *w = r->warden;

        if (!w)
                return;
        w->channel_source = sd_event_source_disable_unref(w->channel_source);
        closep(&w->channel_fd);
        closep(&w->journal_fd);
        closep(&w->notify_fd);
        w->channel_fd = w->journal_fd = w->notify_fd = -1;
        wall_done(&w->wall);
        warden_plan_done(&w->plan);
        unit_props_done(&w->props);
        w->properties = sd_bus_message_unref(w->properties);
}
