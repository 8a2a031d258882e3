/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/broker-adopt.h"
#include "broker/broker-doctor.h"
#include "broker/host-config.h"
#include "broker/loopback-filter.h"
#include "broker/run.h"
#include "broker/wall-probe.h"
#include "broker/warden-plan.h"
#include "policy/allow-rule.h"
#include "wire/disk.h"
#include "wire/packet.h"

#define SYSTEMD_MIN 252u
#define KERNEL_MAJOR_MIN 5u
#define KERNEL_MINOR_MIN 15u
#define DISK_TRIAL_SIZE (UINT64_C(16) << 20)
#define DISK_TRIAL_INODES 64u
#define DISK_TRIAL_USEC UINT64_C(15000000)
#define JOURNAL_TRIES 100u
#define JOURNAL_TRY_USEC 10000u

typedef enum Outcome { OK, WARNING, FAILED } Outcome;

typedef struct Finding {
        Outcome outcome;
        char *message;
        const char *advice;
} Finding;

static void found(Finding *f, Outcome outcome, const char *advice, const char *format, ...) _printf_(4, 5);

static void found(Finding *f, Outcome outcome, const char *advice, const char *format, ...)
{
        va_list ap;

        f->outcome = outcome;
        f->advice = advice;
        va_start(ap, format);
        if (vasprintf(&f->message, format, ap) < 0)
                f->message = NULL;
        va_end(ap);
}

static void check_systemd(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_free_ char *version = NULL;
        int r = broker_unit_version(m->pid1.bus, &version);

        if (r < 0)
                found(f, FAILED, "see \"systemctl status\"", "PID 1 does not answer: %s", strerror(-r));
        else if (m->host.systemd_version < SYSTEMD_MIN)
                found(f, FAILED, "agentbox needs systemd 252 or later", "systemd %s", version);
        else
                found(f, OK, "", "systemd %s", version);
}

static void check_kernel(Manager *m, const DiskReply *disk, Finding *f)
{
        struct utsname u;
        unsigned major, minor;

        if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
                found(f, WARNING, "", "the kernel does not tell its version");
        else if (major < KERNEL_MAJOR_MIN || (major == KERNEL_MAJOR_MIN && minor < KERNEL_MINOR_MIN))
                found(f, WARNING, "what such a kernel lacks, the runs below tell", "Linux %s: agentbox is tried with %u.%u and later",
                                u.release, KERNEL_MAJOR_MIN, KERNEL_MINOR_MIN);
        else
                found(f, OK, "", "Linux %s", u.release);
}

/* A record that is no record of a run, written and looked for. */
static void check_journal(Manager *m, const DiskReply *disk, Finding *f)
{
        AuditSubject subject = { .run = m->probe_name };
        int r = audit_write(AUDIT_JOURNAL_CHECK, &subject,
                        &(AuditDetail){ .message = "agentbox doctor: does the journal keep what is written "
                                                   "to it?",
                                        .reason = "doctor" });

        for (unsigned i = 0; r == 0 && i < JOURNAL_TRIES; i++) {
                r = audit_is_on_record(m->audit, AUDIT_JOURNAL_CHECK, m->probe_name, true);
                if (r == 0)
                        usleep(JOURNAL_TRY_USEC);
        }
        if (r > 0)
                found(f, OK, "", "a record was written and read back");
        else
                found(f, FAILED,
                                "see \"systemctl status systemd-journald\" and journald.conf (Storage=, "
                                "disk space); without a journal nothing runs",
                                "a record was written and did not arrive%s%s", r < 0 ? ": " : "",
                                r < 0 ? strerror(-r) : "");
}

static void check_polkit(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_bus_error_ sd_bus_error e = SD_BUS_ERROR_NULL;
        int r = sd_bus_call_method(m->bus, "org.freedesktop.PolicyKit1",
                        "/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.DBus.Peer", "Ping", &e,
                        NULL, NULL);

        if (r >= 0)
                found(f, OK, "", "polkit answers");
        else
                found(f, WARNING,
                                "install polkitd if users outside the group " AGENTBOX_GROUP
                                " shall be able to ask",
                                "polkit does not answer (%s): only root and those whom [Access] names may "
                                "run anything",
                                e.message ?: strerror(-r));
}

static bool has_controller(const Manager *m, const char *v1_root, const char *name)
{
        _cleanup_free_ char *path = NULL, *list = NULL;

        if (v1_root)
                return true;
        if (!m->host.cgroup_root_unified ||
                        asprintf(&path, "%s/cgroup.controllers", m->host.cgroup_root_unified) < 0)
                return false;
        return read_file(path, 4096, &list, NULL) >= 0 && strstr(list, name);
}

static void check_cgroups(Manager *m, const DiskReply *disk, Finding *f)
{
        bool memory = has_controller(m, m->host.cgroup_root_memory, "memory"),
             pids = has_controller(m, m->host.cgroup_root_pids, "pids"),
             cpu = has_controller(m, m->host.cgroup_root_cpu, "cpu");
        const char *v = m->host.cgroup_root_memory ? "version 1" : "version 2";

        if (memory && pids && cpu)
                found(f, OK, "", "memory, pids and cpu controllers, %s", v);
        else
                found(f, FAILED,
                                "boot with the missing controllers enabled; in a container, delegate them "
                                "to it",
                                "missing controllers:%s%s%s", memory ? "" : " memory", pids ? "" : " pids",
                                cpu ? "" : " cpu");
}

/* Whether the kernel lets us look which programs are attached to a cgroup, which is how the address filter
 * is verified. */
static void check_bpf(Manager *m, const DiskReply *disk, Finding *f)
{
        union bpf_attr attr = { .query = { .attach_type = BPF_CGROUP_INET_EGRESS } };
        _cleanup_close_ int fd = m->host.cgroup_root_unified
                                                 ? open(m->host.cgroup_root_unified,
                                                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                                 : -1;

        attr.query.target_fd = (uint32_t) fd;
        if (fd < 0)
                found(f, FAILED, "mount a cgroup2 hierarchy", "no cgroup2 hierarchy");
        else if (syscall(SYS_bpf, BPF_PROG_QUERY, &attr, sizeof(attr)) < 0)
                found(f, FAILED,
                                "the kernel needs CONFIG_CGROUP_BPF, and a container must let bpf() through",
                                "programs of cgroups cannot be queried: %s", strerror(errno));
        else
                found(f, OK, "", "programs of cgroups can be queried");
}

static void check_landlock(Manager *m, const DiskReply *disk, Finding *f)
{
        if (m->host.landlock_abi > 0)
                found(f, OK, "", "Landlock, version %u", m->host.landlock_abi);
        else
                found(f, WARNING, "boot with lsm=landlock,... if the kernel has it",
                                "no Landlock: one wall less, the others stand");
}

static void check_seccomp(Manager *m, const DiskReply *disk, Finding *f)
{
        uint32_t action = SECCOMP_RET_KILL_PROCESS, asking = SECCOMP_RET_USER_NOTIF;

        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 &&
                        syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &asking) == 0)
                found(f, OK, "", "seccomp filters, killing and asking included");
        else if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
                found(f, FAILED, "Linux 5.19 or later, or DeniedSyscalls=no in each policy",
                                "seccomp filters that ask nobody: refused calls cannot be put on record");
        else
                found(f, FAILED, "the kernel needs CONFIG_SECCOMP_FILTER", "no seccomp filters: %s",
                                strerror(errno));
}

static void check_wall(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_error_ Error *e = NULL;
        int r = m->no_walls ? error_set(&e, m->no_walls->code, "%s", m->no_walls->message)
                            : wall_probe(m->host.cgroup_root_unified, &e);

        if (r >= 0)
                found(f, OK, "", "what a run sends is caught: a wall was made and tried");
        else
                found(f, FAILED,
                                "the kernel needs CONFIG_NET_NS, CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF, 5.15 "
                                "or later, and a container must let bpf() through; until then no run with "
                                "Egress=filtered starts",
                                "what a run sends cannot be caught: %s", error_message(e, r));
}

/* Made anew, not the one that runs have: what could be made once may be impossible by now. */
static void check_packet_filter(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_close_ int fd = -1;
        int r = loopback_filter_open(&fd, &e);

        if (r >= 0)
                found(f, OK, "", "packets of a run can be held to its own loopback: a filter was loaded and pinned");
        else
                found(f, FAILED,
                                "the kernel needs CONFIG_CGROUP_BPF, and a container must let bpf() and fsopen() "
                                "through; until then no run with Egress=filtered starts",
                                "packets of a run cannot be held to its own loopback: %s", error_message(e, r));
}

/* What the administrator says of this host's network, as each filtered run reads it. */
static void check_host_config(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_host_config_ HostConfig config = {};
        _cleanup_error_ Error *e = NULL;
        int r = host_config_read(HOST_CONFIG, &config, &e);

        if (r < 0)
                found(f, FAILED, "correct it; until then no run with Egress=filtered starts", "%s",
                                error_message(e, r));
        else if (config.proxy_host)
                found(f, OK, "", "what runs send goes out by the proxy %s, port %u", config.proxy_host,
                                config.proxy_port);
        else
                found(f, OK, "", "runs connect without a proxy");
}

static bool is_metadata(const PrefixSet *metadata, const char *address)
{
        Prefix p;

        return prefix_parse(address, &p) == 0 && prefix_set_covers_prefix(metadata, &p);
}

/* In systemd an allowed address wins over a denied one, and the resolver's must be allowed. */
static void check_name_servers(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_prefix_set_ PrefixSet metadata = {};
        _cleanup_strv_ char **servers = NULL;
        _cleanup_free_ char *text = NULL, *joined = NULL;

        (void) read_file("/etc/resolv.conf", 64u * 1024, &text, NULL);
        if (resolv_conf_servers(text, &servers) < 0 || metadata_prefixes(&metadata) < 0 ||
                        !(joined = strv_join(servers, ", "))) {
                found(f, WARNING, "", "out of memory");
                return;
        }
        STRV_FOREACH(i, servers)
                if (is_metadata(&metadata, *i)) {
                        found(f, WARNING,
                                        "use a local resolver (systemd-resolved, for example); wardens "
                                        "refuse this address to runs all the same",
                                        "the name server %s is at an address of a cloud metadata service: "
                                        "the second lock on wardens, IPAddressDeny=, has a hole there",
                                        *i);
                        return;
                }
        found(f, OK, "", "name servers: %s", joined);
}

static void check_workspace_disk(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_free_ char *shown = escape_for_display(disk->text, strlen(disk->text), DISK_TEXT_MAX);

        if (disk->error == 0)
                found(f, OK, "", "a workspace can be on disk: agentbox-disk has made one");
        else
                found(f, WARNING,
                                "only policies with WorkspaceStore=disk need it; see WorkspaceStore= in "
                                "agentbox.policy(5)",
                                "no workspace can be on disk: %s", shown ?: "out of memory");
}

static bool is_living(const Run *r)
{
        return r && r->phase < RUN_ENDED;
}

static size_t count_directories(const Manager *m)
{
        int fd = openat(m->runtime_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        size_t n = 0;

        for (struct dirent *e; d && (e = readdir(d));)
                n += strlen(e->d_name) == RUN_ID_LENGTH && !manager_by_id(m, e->d_name);
        if (d)
                closedir(d);
        return n;
}

static void check_leftovers(Manager *m, const DiskReply *disk, Finding *f)
{
        _cleanup_strv_ char **units = NULL;
        size_t n_units = 0, n_directories = count_directories(m), n_disks = 0;

        if (broker_unit_list(m->pid1.bus, &units, NULL) < 0) {
                found(f, WARNING, "", "PID 1 does not list its units");
                return;
        }
        STRV_FOREACH(i, disk->left)
                n_disks += !is_living(manager_by_id(m, *i));
        STRV_FOREACH(i, units)
                n_units += !manager_by_unit(m, *i) && !manager_by_slice(m, *i) &&
                           !manager_by_warden(m, *i) && broker_made_unit(m, *i);
        if (n_units + n_directories + n_disks == 0)
                found(f, OK, "", "nothing is left over");
        else
                found(f, WARNING, "restart the broker: it removes them (systemctl restart agentboxd)",
                                "left over: %zu units, %zu directories, %zu loop devices", n_units, n_directories, n_disks);
}

static const struct {
        const char *name;
        void (*check)(Manager *m, const DiskReply *disk, Finding *f);
} checks[] = {
        { "kernel", check_kernel },
        { "systemd", check_systemd },
        { "journal", check_journal },
        { "polkit", check_polkit },
        { "cgroups", check_cgroups },
        { "bpf", check_bpf },
        { "landlock", check_landlock },
        { "seccomp", check_seccomp },
        { "network", check_wall },
        { "packet-filter", check_packet_filter },
        { "network-config", check_host_config },
        { "name-servers", check_name_servers },
        { "workspace-disk", check_workspace_disk },
        { "leftovers", check_leftovers },
};

static int append_findings(Manager *m, const DiskReply *disk, sd_bus_message *reply)
{
        static const char *const outcomes[] = { [OK] = "ok", [WARNING] = "warning", [FAILED] = "failed" };
        int r = sd_bus_message_open_container(reply, 'a', "(ssss)");

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(checks); i++) {
                Finding f = {};

                checks[i].check(m, disk, &f);
                r = sd_bus_message_append(reply, "(ssss)", checks[i].name, outcomes[f.outcome],
                                f.message ?: "out of memory", f.advice);
                free(f.message);
        }
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* ---- the call, which waits for the trial of a workspace on disk */

struct Doctor {
        Manager *manager;
        Doctor *next;
        sd_bus_message *call;
        int socket_fd;
        sd_event_source *source, *deadline;
};

Doctor *broker_doctor_free(Doctor *d)
{
        for (Doctor **i = &d->manager->doctors; *i; i = &(*i)->next)
                if (*i == d) {
                        *i = d->next;
                        break;
                }
        sd_event_source_disable_unref(d->source);
        sd_event_source_disable_unref(d->deadline);
        closep(&d->socket_fd);
        sd_bus_message_unref(d->call);
        free(d);
        return NULL;
}

static void finish(Doctor *d, const DiskReply *disk)
{
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r = sd_bus_message_new_method_return(d->call, &reply);

        if (r >= 0)
                r = append_findings(d->manager, disk, reply);
        if (r >= 0)
                r = sd_bus_send(NULL, reply, NULL);
        if (r < 0)
                (void) sd_bus_reply_method_errno(d->call, r, NULL);
        broker_doctor_free(d);
}

static void finish_without(Doctor *d, int error, const char *text)
{
        finish(d, &(DiskReply){ .error = error, .text = (char *) text });
}

static int on_trial(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        uint8_t message[DISK_MESSAGE_MAX];
        _cleanup_(disk_reply_done) DiskReply reply = {};
        ssize_t n = packet_receive(fd, MSG_DONTWAIT, message, sizeof(message), NULL, 0);
        int r = n < 0 ? (int) n : n == 0 ? -ECONNRESET : disk_reply_decode(message, (size_t) n, &reply);

        if (r == -EAGAIN)
                return 0;
        if (r < 0)
                finish_without(userdata, -r, "agentbox-disk, which was to make one, ended without a right answer");
        else
                finish(userdata, &reply);
        return 0;
}

static int on_trial_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        finish_without(userdata, ETIMEDOUT, "agentbox-disk, which was to make one, has not answered in time");
        return 0;
}

static int send_trial(Doctor *d)
{
        _cleanup_buf_ Buf message = {};
        _cleanup_strv_ char **living = NULL;
        int r = 0;

        for (const Run *i = d->manager->runs; r >= 0 && i; i = i->next)
                if (is_living(i))
                        r = strv_extend(&living, i->id);
        if (r >= 0)
                r = disk_request_encode(&(DiskRequest){ .run = (char *) "",
                                                        .size = DISK_TRIAL_SIZE,
                                                        .inodes = DISK_TRIAL_INODES,
                                                        .exec = true,
                                                        .living = living },
                                &message);
        return r < 0 ? r : packet_send(d->socket_fd, &message, NULL, 0);
}

static int begin_trial(Doctor *d)
{
        sd_event *event = d->manager->event;
        int r = send_trial(d);

        if (r >= 0)
                r = sd_event_add_io(event, &d->source, d->socket_fd, EPOLLIN, on_trial, d);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &d->deadline, CLOCK_MONOTONIC, DISK_TRIAL_USEC, 0, on_trial_deadline, d);
        return r;
}

int broker_doctor(Manager *m, sd_bus_message *call)
{
        Doctor *d = calloc(1, sizeof(*d));
        int r;

        if (!d)
                return -ENOMEM;
        *d = (Doctor){ .manager = m, .next = m->doctors, .call = sd_bus_message_ref(call), .socket_fd = packet_connect(DISK_SOCKET) };
        m->doctors = d;
        r = d->socket_fd < 0 ? d->socket_fd : begin_trial(d);
        if (r < 0)
                finish_without(d, -r, "agentbox-disk.socket cannot be reached");
        return 1;
}
