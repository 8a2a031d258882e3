/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/io.h"
#include "broker/bpf-assembly.h"
#include "broker/bpf-call.h"
#include "broker/loopback-filter.h"
#include "broker/route-netlink.h"
#include "broker/wall-probe.h"
#include "broker/wall-programs.h"
#include "test-wall-harness.h"

/* That wall_verify() sees each thing that could be missing, and that the broker's own filter does not stand
 * in the wall's way but in the way of everything else. */

static void expect_broken(Fixture *f, const char *wanted)
{
        _cleanup_buf_ Buf why = {};
        int r = wall_verify(&f->wall, f->cgroup_fd, &why);

        if (r != 1)
                fail_msg("wall_verify: %i instead of \"%s\"", r, wanted);
        if (!strstr((const char *) why.data, wanted))
                fail_msg("\"%s\" instead of \"%s\"", (const char *) why.data, wanted);
}

static void expect_whole(Fixture *f)
{
        _cleanup_buf_ Buf why = {};
        int r = wall_verify(&f->wall, f->cgroup_fd, &why);

        if (r != 0 || why.size > 0)
                fail_msg("wall_verify: %i \"%s\"", r, why.data ? (const char *) why.data : "");
}

static void test_programs_missing(void **state)
{
        NEED_FIXTURE(f);

        expect_broken(f, "not attached to the run's cgroup");
        assert_int_equal(wall_attach(&f->wall, f->cgroup_fd, NULL), 0);
        expect_whole(f);
        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                union bpf_attr attr = {};

                attr.target_fd = (uint32_t) f->cgroup_fd;
                attr.attach_bpf_fd = (uint32_t) f->wall.programs[i];
                attr.attach_type = wall_attach_type(i);
                assert_int_equal(bpf_call(BPF_PROG_DETACH, &attr), 0);
                expect_broken(f, "not attached to the run's cgroup");
                assert_int_equal(bpf_cgroup_attach(f->cgroup_fd, wall_attach_type(i), f->wall.programs[i]),
                                0);
                expect_whole(f);
        }
}

/* Another run's programs are not this run's. */
static void test_programs_of_another(void **state)
{
        NEED_FIXTURE(f);
        Wall other;

        assert_int_equal(wall_create(&other, NULL), 0);
        assert_int_equal(wall_attach(&other, f->cgroup_fd, NULL), 0);
        expect_broken(f, "not attached to the run's cgroup");
        wall_done(&other);
}

static void test_link_detached(void **state)
{
        NEED_FIXTURE(f);
        union bpf_attr attr = {};

        attr.link_detach.link_fd = (uint32_t) f->wall.link_fd;
        assert_int_equal(bpf_call(BPF_LINK_DETACH, &attr), 0);
        expect_broken(f, "attached to no network namespace");
}

static void test_program_replaced(void **state)
{
        NEED_FIXTURE(f);
        union bpf_attr attr = {};
        Wall other;
        int fd;

        assert_int_equal(wall_create(&other, NULL), 0);
        fd = bpf_program_open(other.lookup_id);
        assert_true(fd >= 0);
        attr.link_update.link_fd = (uint32_t) f->wall.link_fd;
        attr.link_update.new_prog_fd = (uint32_t) fd;
        assert_int_equal(bpf_call(BPF_LINK_UPDATE, &attr), 0);
        expect_broken(f, "another sk_lookup program");
        close(fd);
        wall_done(&other);
}

static void swap(int *a, int *b)
{
        int t = *a;

        *a = *b;
        *b = t;
}

static void test_other_namespace(void **state)
{
        NEED_FIXTURE(f);
        Wall other;
        struct {
                int *ours, *theirs;
                const char *why;
        } rows[] = {
                { &f->wall.link_fd, &other.link_fd, "attached to another network namespace" },
                { &f->wall.netns_fd, &other.netns_fd, "the descriptor is of another" },
                { f->wall.tcp, other.tcp, "a socket of the wall is of another" },
                { f->wall.tcp + 1, other.tcp + 1, "a socket of the wall is of another" },
                { f->wall.dns, other.dns, "a socket of the wall is of another" },
                { f->wall.dns + 1, other.dns + 1, "a socket of the wall is of another" },
                { &f->wall.netlink_fd, &other.netlink_fd, "a socket of the wall is of another" },
        };

        assert_int_equal(wall_create(&other, NULL), 0);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (*rows[i].ours < 0)
                        continue; /* no IPv6 */
                swap(rows[i].ours, rows[i].theirs);
                expect_broken(f, rows[i].why);
                swap(rows[i].ours, rows[i].theirs);
                expect_whole(f);
        }
        wall_done(&other);
}

static void set_lo(Fixture *f, unsigned flags)
{
        RouteRequest q = route_request(RTM_NEWLINK, 0, sizeof(struct ifinfomsg));

        q.body.link = (struct ifinfomsg){ .ifi_index = 1, .ifi_flags = flags, .ifi_change = IFF_UP };
        assert_int_equal(route_change(f->wall.netlink_fd, &q), 0);
}

static void test_lo_down(void **state)
{
        NEED_FIXTURE(f);

        set_lo(f, 0);
        expect_broken(f, "lo is not up");
        /* The route of IPv6 went with it. */
        set_lo(f, IFF_UP);
        if (f->wall.tcp[1] >= 0)
                expect_broken(f, "no route to 2001:db8::9");
        else
                expect_whole(f);
}

static void delete_route(Fixture *f, int family)
{
        RouteRequest q = route_request(RTM_DELROUTE, 0, sizeof(struct rtmsg));
        uint32_t lo = 1;

        q.body.route = (struct rtmsg){
                .rtm_family = (unsigned char) family,
                .rtm_table = RT_TABLE_LOCAL,
                .rtm_scope = RT_SCOPE_NOWHERE,
                .rtm_type = RTN_LOCAL,
        };
        route_attribute(&q, RTA_OIF, &lo, sizeof(lo));
        assert_int_equal(route_change(f->wall.netlink_fd, &q), 0);
}

static void test_route_deleted(void **state)
{
        NEED_FIXTURE(f);

        if (f->wall.tcp[1] >= 0) {
                delete_route(f, AF_INET6);
                expect_broken(f, "no route to 2001:db8::9");
        }
        delete_route(f, AF_INET);
        expect_broken(f, "no route to 203.0.113.9");
}

/* ---- an interface that leads out */

#define TUN_ADDRESS "10.9.9.1"
#define TUN_PEER "10.9.9.2"

/* Makes one in the namespace of the caller, up, with an address; what is sent comes out of the descriptor.
 */
static int make_tun(int *ret_fd)
{
        struct ifreq r = { .ifr_name = "out0", .ifr_flags = IFF_TUN | IFF_NO_PI };
        int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
            fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        Address a;

        if (fd < 0)
                return -errno;
        if (control < 0 || ioctl(fd, TUNSETIFF, &r) < 0)
                return -errno;
        make_address(TUN_ADDRESS, 0, &a);
        memcpy(&r.ifr_addr, &a.in, sizeof(a.in));
        if (ioctl(control, SIOCSIFADDR, &r) < 0)
                return -errno;
        make_address("255.255.255.0", 0, &a);
        memcpy(&r.ifr_netmask, &a.in, sizeof(a.in));
        if (ioctl(control, SIOCSIFNETMASK, &r) < 0)
                return -errno;
        r.ifr_flags = IFF_UP;
        if (ioctl(control, SIOCSIFFLAGS, &r) < 0)
                return -errno;
        close(control);
        *ret_fd = fd;
        return 0;
}

#define NO_TUN 77

static int inside_make_tun(const void *argument)
{
        int fd, r = make_tun(&fd);

        if (r < 0)
                return NO_TUN;
        return ioctl(fd, TUNSETPERSIST, 1) < 0 ? 1 : 0;
}

static void add_default_route(Fixture *f, uint32_t interface)
{
        RouteRequest q = route_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct rtmsg));

        q.body.route = (struct rtmsg){
                .rtm_family = AF_INET,
                .rtm_table = RT_TABLE_MAIN,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = RT_SCOPE_LINK,
                .rtm_type = RTN_UNICAST,
        };
        route_attribute(&q, RTA_OIF, &interface, sizeof(interface));
        assert_int_equal(route_change(f->wall.netlink_fd, &q), 0);
}

static void test_another_interface(void **state)
{
        NEED_FIXTURE(f);
        int status = wait_inside(start_inside(f, inside_make_tun, NULL));

        if (status == NO_TUN) {
                print_message("skipped: no tun devices here\n");
                skip();
        }
        assert_int_equal(status, 0);
        expect_broken(f, "an interface besides lo is up");
        delete_route(f, AF_INET);
        add_default_route(f, 2);
        expect_broken(f, "the route to 169.254.169.254 does not end in the namespace");
}

/* ---- the broker's own filter */

static int send_to(const char *address, uint16_t port)
{
        Address a;
        socklen_t n = make_address(address, port, &a);
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        return fd < 0 || sendto(fd, "x", 1, 0, &a.any, n) != 1 ? -errno : 0;
}

static int drain(int tun)
{
        char packet[2048];
        int n = 0;

        /* What the kernel says by itself (IPv6) does not count. */
        for (ssize_t k; (k = read(tun, packet, sizeof(packet))) > 0;)
                n += packet[0] >> 4 == 4;
        return n;
}

/* As the broker at its start, in a cgroup of its own, in a namespace with a way out. */
static int confine_and_send(const char *cgroup)
{
        int tun;

        if (cgroup_join(cgroup) < 0 || unshare(CLONE_NEWNET) < 0)
                return 1;
        if (make_tun(&tun) < 0)
                return NO_TUN;
        if (send_to(TUN_PEER, 9) != 0 || drain(tun) != 1)
                return 2; /* the way out works */
        if (loopback_filter_confine_self(NULL, NULL) != -EOPNOTSUPP || send_to(TUN_PEER, 9) != 0 ||
                        drain(tun) != 1)
                return 3;
        if (loopback_filter_confine_self(cgroup_root(), NULL) < 0 ||
                        loopback_filter_confine_self(cgroup_root(), NULL) < 0)
                return 4;
        if (send_to(TUN_PEER, 9) != -EPERM || drain(tun) != 0)
                return 5;
        return send_to(TUN_ADDRESS, 9) == 0 ? 0 : 6; /* its own address is by way of lo */
}

static int count_attached(const char *cgroup, uint32_t type)
{
        _cleanup_close_ int fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint32_t ids[BPF_CGROUP_PROGRAMS_MAX], n;

        return fd < 0 || bpf_cgroup_query(fd, type, ids, &n) < 0 ? -1 : (int) n;
}

static int in_child(int (*f)(const char *), const char *argument)
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(f(argument));
        return wait_inside(pid);
}

static void test_confine_self(void **state)
{
        NEED_FIXTURE(f);
        char cgroup[256];
        int status;

        assert_int_equal(cgroup_make("broker", cgroup, sizeof(cgroup)), 0);
        status = in_child(confine_and_send, cgroup);
        if (status == 0) {
                /* Once each, for all that it was asked twice. */
                assert_int_equal(count_attached(cgroup, BPF_CGROUP_INET_INGRESS), 1);
                assert_int_equal(count_attached(cgroup, BPF_CGROUP_INET_EGRESS), 1);
        }
        assert_int_equal(rmdir(cgroup), 0);
        if (status == NO_TUN) {
                print_message("skipped: no tun devices here\n");
                skip();
        }
        assert_int_equal(status, 0);
}

static int confine_in_company(const char *cgroup)
{
        int pair[2], r;
        pid_t other;

        if (cgroup_join(cgroup) < 0 || pipe(pair) < 0)
                return 1;
        other = fork();
        if (other == 0) {
                close(pair[1]);
                _exit(read(pair[0], &(char){ 0 }, 1) == 0 ? 0 : 1);
        }
        r = loopback_filter_confine_self(cgroup_root(), NULL);
        if (wall_probe(cgroup_root(), NULL) < 0)
                r = 0; /* which leaves nothing, and so minds nobody */
        close(pair[1]);
        return wait_inside(other) == 0 && r == -EBUSY ? 0 : 2;
}

static void test_confine_in_company(void **state)
{
        NEED_FIXTURE(f);
        char cgroup[256];
        int status;

        assert_int_equal(cgroup_make("shared", cgroup, sizeof(cgroup)), 0);
        status = in_child(confine_in_company, cgroup);
        assert_int_equal(count_attached(cgroup, BPF_CGROUP_INET_EGRESS), 0);
        assert_int_equal(rmdir(cgroup), 0);
        assert_int_equal(status, 0);
}

/* ---- the probe: all of it, and nothing left of it */

static int probe_in(const char *cgroup)
{
        if (cgroup_join(cgroup) < 0)
                return 1;
        if (wall_probe(NULL, NULL) != -EOPNOTSUPP)
                return 2;
        return wall_probe(cgroup_root(), NULL) < 0 ? 3 : 0;
}

static void test_probe(void **state)
{
        NEED_FIXTURE(f);
        char cgroup[256];
        int status, left = 0;

        assert_int_equal(cgroup_make("probe", cgroup, sizeof(cgroup)), 0);
        status = in_child(probe_in, cgroup);
        for (size_t i = 0; i < WALL_PROGRAMS; i++)
                left += count_attached(cgroup, wall_attach_type(i));
        assert_int_equal(rmdir(cgroup), 0);
        assert_int_equal(status, 0);
        assert_int_equal(left, 0);
}

/* ---- sockets of one cgroup, used in another, for a third: with all their filters */

static const struct bpf_insn nothing_passes[] = { SET(0, 0), END() };

static int attach_both(const char *cgroup, int program)
{
        _cleanup_close_ int fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = bpf_cgroup_attach(fd, BPF_CGROUP_INET_INGRESS, program);

        return r < 0 ? r : bpf_cgroup_attach(fd, BPF_CGROUP_INET_EGRESS, program);
}

/* By its path, as PID 1 takes it. */
static int open_pinned(void)
{
        _cleanup_close_ int pinned = -1;
        union bpf_attr attr = {};
        char path[64];

        if (loopback_filter_open(&pinned, NULL) < 0)
                return -1;
        snprintf(path, sizeof(path), "/proc/self/fd/%i", pinned);
        attr.pathname = bpf_pointer(path);
        return bpf_call(BPF_OBJ_GET, &attr);
}

static int inside_dialogue(const void *argument)
{
        const Fixture *f = argument;
        static const struct {
                const char *to;
                uint16_t port;
                int type;
        } rows[] = {
                { "1.2.3.4", 443, SOCK_STREAM },
                { "2001:db8::1", 443, SOCK_STREAM },
                { "1.2.3.4", 53, SOCK_DGRAM },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Address a;
                socklen_t n = make_address(rows[i].to, rows[i].port, &a);
                _cleanup_close_ int fd = socket(a.any.sa_family, rows[i].type, 0);
                char text[8] = "";

                if (!has_address(f, rows[i].to))
                        continue;
                if (connect(fd, &a.any, n) < 0 || send(fd, "ping", 4, 0) != 4 || wait_readable(fd) != 0)
                        return 10 + (int) i;
                if (recv(fd, text, sizeof(text), 0) != 4 || memcmp(text, "pong", 4) != 0)
                        return 20 + (int) i;
        }
        return 0;
}

static int answer_tcp(int listener)
{
        _cleanup_close_ int fd = -1;
        char text[8] = "";

        if (wait_readable(listener) != 0)
                return -ETIMEDOUT;
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 || wait_readable(fd) != 0 || recv(fd, text, sizeof(text), 0) != 4)
                return -EIO;
        return send(fd, "pong", 4, 0) == 4 ? 0 : -errno;
}

static int answer_dns(int dns)
{
        _Alignas(struct cmsghdr) char control[256] = {};
        char text[8] = "";
        struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) };
        Address peer = {};
        struct msghdr m = { .msg_name = &peer,
                .msg_namelen = sizeof(peer),
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control,
                .msg_controllen = sizeof(control) };
        struct in_pktinfo *i;

        if (wait_readable(dns) != 0 || recvmsg(dns, &m, 0) != 4)
                return -EIO;
        i = (void *) CMSG_DATA(CMSG_FIRSTHDR(&m));
        i->ipi_spec_dst = i->ipi_addr;
        memcpy(text, "pong", 4);
        iov.iov_len = 4;
        return sendmsg(dns, &m, 0) == 4 ? 0 : -errno;
}

typedef struct Groups {
        char broker[256], warden[256];
        Fixture *run;
} Groups;

/* Makes the wall as the broker, then is the warden. */
static int broker_then_warden(const Groups *g)
{
        Fixture f = *g->run;
        pid_t run;
        int r;

        if (cgroup_join(g->broker) < 0 || loopback_filter_confine_self(cgroup_root(), NULL) < 0)
                return 1;
        if (wall_create(&f.wall, NULL) < 0)
                return 2;
        if (cgroup_join(g->warden) < 0 || wall_attach(&f.wall, f.cgroup_fd, NULL) < 0)
                return 3;
        if (send_to("127.0.0.1", 9) != -EPERM)
                return 4; /* its own sockets are locked in */
        run = start_inside(&f, inside_dialogue, &f);
        r = answer_tcp(f.wall.tcp[0]);
        if (r >= 0 && f.wall.tcp[1] >= 0)
                r = answer_tcp(f.wall.tcp[1]);
        if (r >= 0)
                r = answer_dns(f.wall.dns[0]);
        r = wait_inside(run) != 0 ? 5 : r < 0 ? 6 : 0;
        wall_done(&f.wall);
        return r;
}

/* Made in a cgroup that lets nothing through, it must not be said to work. */
static int create_within(const char *cgroup)
{
        Wall w;

        return cgroup_join(cgroup) < 0 ? 1 : wall_create(&w, NULL) < 0 ? 0 : 2;
}

static void test_filters_of_three(void **state)
{
        NEED_FIXTURE(f);
        const BpfProgram nothing = { .name = "test_nothing",
                .type = BPF_PROG_TYPE_CGROUP_SKB,
                .code = nothing_passes,
                .size = ELEMENTSOF(nothing_passes) };
        int drop = bpf_load(&nothing, NULL, 0), lo = open_pinned(), status, within;
        Groups g = { .run = f };
        pid_t pid;

        assert_true(drop >= 0);
        assert_true(lo >= 0);
        assert_int_equal(cgroup_make("broker", g.broker, sizeof(g.broker)), 0);
        assert_int_equal(cgroup_make("warden", g.warden, sizeof(g.warden)), 0);
        assert_int_equal(attach_both(g.warden, drop), 0);
        assert_int_equal(attach_both(f->cgroup, lo), 0);
        pid = fork();
        if (pid == 0)
                _exit(broker_then_warden(&g));
        status = wait_inside(pid);
        within = in_child(create_within, g.warden);
        assert_int_equal(rmdir(g.broker), 0);
        assert_int_equal(rmdir(g.warden), 0);
        close(drop);
        close(lo);
        assert_int_equal(status, 0);
        assert_int_equal(within, 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_set_up, fixture_tear_down)
#define TEST_DETACHED(t) cmocka_unit_test_setup_teardown(t, fixture_set_up_detached, fixture_tear_down)
        static const struct CMUnitTest tests[] = {
                TEST_DETACHED(test_programs_missing),
                TEST_DETACHED(test_programs_of_another),
                TEST(test_link_detached),
                TEST(test_program_replaced),
                TEST(test_other_namespace),
                TEST(test_lo_down),
                TEST(test_route_deleted),
                TEST(test_another_interface),
                TEST(test_confine_self),
                TEST(test_confine_in_company),
                TEST(test_probe),
                TEST_DETACHED(test_filters_of_three),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
