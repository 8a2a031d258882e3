/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/strv.h"
#include "broker/broker-root.h"
#include "broker/decoys.h"
#include "broker/tripwire-count.h"
#include "broker/tripwire.h"

/* ---- what they hold */

static void test_text(void **state)
{
        _cleanup_strv_ char **all = NULL;

        for (size_t i = 0; i < n_decoy_rows; i++) {
                _cleanup_strv_ char **first = NULL, **second = NULL;
                _cleanup_buf_ Buf a = {}, b = {};

                assert_int_equal(decoy_compose(decoy_rows + i, &a, &first), 0);
                assert_int_equal(decoy_compose(decoy_rows + i, &b, &second), 0);
                /* Of another run, another secret; and every one has its fingerprint. */
                assert_string_not_equal((char *) a.data, (char *) b.data);
                assert_null(strpbrk((char *) a.data, "<>%"));
                assert_true(strv_length(first) > 0 && strv_length(first) == strv_length(second));
                STRV_FOREACH(f, first) {
                        assert_int_equal(strlen(*f), DECOY_FINGERPRINT);
                        assert_int_equal(strspn(*f, "0123456789abcdef"), DECOY_FINGERPRINT);
                        assert_false(strv_contains(second, *f) || strv_contains(all, *f));
                        assert_int_equal(strv_extend(&all, *f), 0);
                }
        }
}

static const char *ends_with(const char *s, const char *end)
{
        size_t n = strlen(s), k = strlen(end);

        return n >= k && streq(s + n - k, end) ? s + n - k : NULL;
}

static const DecoyRow *row_of(const char *end)
{
        for (size_t i = 0; i < n_decoy_rows; i++)
                if (ends_with(decoy_rows[i].path, end))
                        return decoy_rows + i;
        fail();
        return NULL;
}

static void test_shapes(void **state)
{
        _cleanup_strv_ char **fingerprints = NULL;
        _cleanup_buf_ Buf aws = {}, key = {}, token = {};
        const char *id;

        assert_int_equal(decoy_compose(row_of("/.aws/credentials"), &aws, &fingerprints), 0);
        id = strstr((char *) aws.data, "AKIA");
        assert_non_null(id);
        assert_int_equal(strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), 20);
        assert_int_equal(strlen(strstr((char *) aws.data, "secret_access_key = ")), strlen("secret_access_key = \n") + 40);
        assert_int_equal(decoy_compose(row_of("/id_ed25519"), &key, &fingerprints), 0);
        assert_non_null(startswith((char *) key.data, "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA"));
        assert_non_null(ends_with((char *) key.data, "\n-----END OPENSSH PRIVATE KEY-----\n"));
        assert_int_equal(decoy_compose(row_of("/token"), &token, &fingerprints), 0);
        assert_int_equal(strlen(strrchr((char *) token.data, '.')), 343);
}

/* What the manual says: the fingerprint is that of the secret as it stands in the file. */
static void test_fingerprint(void **state)
{
        static const DecoyRow row = { "/x", 0600, "key = <abc>, and <abc>" };
        _cleanup_strv_ char **fingerprints = NULL;
        _cleanup_buf_ Buf text = {};

        assert_int_equal(decoy_compose(&row, &text, &fingerprints), 0);
        assert_string_equal((char *) text.data, "key = abc, and abc");
        assert_int_equal(strv_length(fingerprints), 2);
        assert_string_equal(fingerprints[0], "ba7816bf8f01cfea");
        assert_string_equal(fingerprints[1], "ba7816bf8f01cfea");
}

static void test_state(void **state)
{
        _cleanup_strv_ char **l = NULL;
        Decoys a = { .n = 2, .l = { { 0, 0x1234567890, UINT64_MAX }, { 3, 1, 2 } } }, b = {};
        char *bad[] = { (char *) "99 1 2", NULL }, *text[] = { (char *) "x", NULL };

        assert_int_equal(decoys_to_strv(&a, &l), 0);
        assert_int_equal(decoys_from_strv(l, &b), 0);
        assert_int_equal(b.n, 2);
        assert_memory_equal(a.l, b.l, sizeof(a.l));
        assert_int_equal(decoys_from_strv(bad, &b), -EBADMSG);
        assert_int_equal(decoys_from_strv(text, &b), -EBADMSG);
        assert_int_equal(b.n, 2);
}

/* ---- counting */

static uint64_t drain(TripwireCounts *c)
{
        TripwireWho who;
        uint64_t n = 0;

        while (tripwire_take(c, &who))
                n += who.count;
        return n;
}

static void test_count(void **state)
{
        TripwireCounts c = {};
        TripwireWho who;
        uint64_t written = 0;

        assert_true(tripwire_count(&c, 1, 100, "cat"));
        assert_false(tripwire_take(&c, &who)); /* it is on record already */
        assert_true(tripwire_count(&c, 1, 100, "cat"));
        assert_false(tripwire_count(&c, 1, 100, "cat"));
        assert_false(tripwire_count(&c, 1, 100, "cat"));
        assert_true(tripwire_count(&c, 2, 100, "cat"));
        assert_true(tripwire_count(&c, 1, 100, "dog"));
        assert_true(tripwire_take(&c, &who));
        assert_true(who.row == 1 && who.pid == 100 && who.count == 2);
        assert_string_equal(who.comm, "cat");
        assert_false(tripwire_take(&c, &who));
        /* A flood by ever new processes: few records, and every open in one of them. */
        c = (TripwireCounts){};
        for (int i = 0; i < 10000; i++)
                written += tripwire_count(&c, (size_t) i % 3, 1000 + i, "flood");
        assert_int_equal(written, TRIPWIRE_WHO_MAX);
        assert_int_equal(written + drain(&c), 10000);
        assert_int_equal(c.total, 10000);
        assert_int_equal(drain(&c), 0);
        /* One alone that there was no room for still has its name. */
        for (int i = 0; i <= (int) TRIPWIRE_WHO_MAX; i++)
                (void) tripwire_count(&c, 1, 1000 + i, "late");
        assert_true(tripwire_take(&c, &who));
        assert_true(who.row == 1 && who.pid == 1000 + (int) TRIPWIRE_WHO_MAX && who.count == 1);
        assert_string_equal(who.comm, "late");
        assert_false(tripwire_take(&c, &who));
}

/* ---- with the kernel */

typedef struct Place {
        char directory[32];
        int fd, group_fd;
} Place;

static int make_place(void **state)
{
        static Place p;

        strcpy(p.directory, "/tmp/agentbox-test-XXXXXX");
        p.group_fd = tripwire_open();
        if (p.group_fd < 0 || !mkdtemp(p.directory))
                return 0;
        p.fd = open(p.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(mkdirat(p.fd, "home", 0700) == 0 && mkdirat(p.fd, "root", 0700) == 0);
        *state = &p;
        return 0;
}

static int remove_place(void **state)
{
        Place *p = *state;

        if (!p)
                return 0;
        assert_int_equal(run_root_remove(p->fd, "home", NULL), 0);
        assert_int_equal(run_root_remove(p->fd, "root", NULL), 0);
        close(p->fd);
        close(p->group_fd);
        return rmdir(p->directory);
}

/* A child opens it so many times; its exit status is 0 where it could each time. */
static pid_t open_in_child(int fd, const char *path, unsigned times)
{
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        for (unsigned i = 0; i < times; i++) {
                int k = openat(fd, path, O_RDONLY | O_CLOEXEC);

                if (k < 0)
                        _exit(1);
                close(k);
        }
        _exit(0);
}

static unsigned answer_all(const Place *p, pid_t pid, bool allow, const Decoy *d, int *ret_status)
{
        unsigned n = 0;
        struct stat st;

        while (waitpid(pid, ret_status, WNOHANG) == 0) {
                struct pollfd ready = { .fd = p->group_fd, .events = POLLIN };
                TripwireEvent events[TRIPWIRE_BATCH];
                int k = poll(&ready, 1, 10) > 0 ? tripwire_read(p->group_fd, events) : 0;

                assert_true(k >= 0);
                for (int i = 0; i < k; i++, n++) {
                        assert_int_equal(events[i].pid, pid);
                        assert_true(events[i].pidfd >= 0 && fstat(events[i].fd, &st) == 0);
                        assert_true(st.st_dev == d->device && st.st_ino == d->inode);
                        tripwire_answer(p->group_fd, events + i, allow);
                        tripwire_event_done(events + i);
                }
        }
        return n;
}

static void plant(const Place *p, Decoys *ret)
{
        _cleanup_close_ int home_fd = openat(p->fd, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            root_fd = openat(p->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(decoys_plant(home_fd, root_fd, 65000, 65001, p->group_fd, ret, NULL), 0);
        assert_int_equal(ret->n, n_decoy_rows);
}

static void test_opens(void **state)
{
        Place *p = *state;
        _cleanup_(decoys_done) Decoys d = {};
        struct stat st;
        int status;

        if (!p)
                skip();
        plant(p, &d);
        assert_int_equal(fstatat(p->fd, "home/.aws/credentials", &st, 0), 0);
        assert_true(st.st_uid == 65000 && st.st_gid == 65001 && (st.st_mode & 07777) == 0600);
        assert_int_equal(fstatat(p->fd, "home/.config/gcloud", &st, 0), 0);
        assert_true(st.st_uid == 65000 && (st.st_mode & 07777) == 0700);
        for (size_t i = 0; i < d.n; i++)
                assert_int_equal(tripwire_is_marked(p->group_fd, d.l[i].device, d.l[i].inode), 1);
        assert_int_equal(tripwire_is_marked(p->group_fd, st.st_dev, st.st_ino), 0);
        /* Each of them, none merged with the one before; and one that is not let in. */
        assert_int_equal(answer_all(p, open_in_child(p->fd, "home/.aws/credentials", 1000), true, d.l, &status), 1000);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(answer_all(p, open_in_child(p->fd, "home/.aws/credentials", 1), false, d.l, &status), 1);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        /* By another name of it. */
        assert_int_equal(linkat(p->fd, "home/.aws/credentials", p->fd, "home/other", 0), 0);
        assert_int_equal(answer_all(p, open_in_child(p->fd, "home/other", 1), true, d.l, &status), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_fingerprint),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_count),
                cmocka_unit_test_setup_teardown(test_opens, make_place, remove_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
