/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

#include "cli/copy.h"
#include "cli/message.h"

#define DEFAULT_WORKSPACE "/workspace" /* where the policy cannot be read here */
#define USEC_PER_SEC UINT64_C(1000000)
#define PROGRESS_AFTER USEC_PER_SEC
#define PROGRESS_EVERY (USEC_PER_SEC / 5)

/* ---- the line that shows progress */

static uint64_t now_usec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

static void clear_line(Copy *c)
{
        if (c->line_is_shown)
                fputs("\r\033[K", stderr);
        c->line_is_shown = false;
}

static void show_line(Copy *c, const char *what, uint64_t files, uint64_t bytes)
{
        fprintf(stderr, "\r\033[Kagentbox: %s: %" PRIu64 " files, %.1f MB", what, files,
                        (double) bytes / 1e6);
        fflush(stderr);
        c->line_is_shown = true;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        Copy *c = userdata;
        const TreeState *s = &c->out.receiver.decoder.state;

        if (c->in.started && now_usec() - c->began >= PROGRESS_AFTER)
                show_line(c, "copying in", atomic_load(&c->in.sender.n_entries),
                                atomic_load(&c->in.sender.n_bytes));
        /* The clock of what comes out starts with its first byte. */
        if (!c->in.started && c->out.receiver.decoder.has_magic && !c->out_is_over) {
                if (c->began == 0)
                        c->began = now_usec();
                else if (now_usec() - c->began >= PROGRESS_AFTER)
                        show_line(c, "copying out", s->entries, s->bytes + (s->in_file ? s->position : 0));
        }
        (void) sd_event_source_set_time_relative(source, PROGRESS_EVERY);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Not into a terminal that is raw, and the run's. */
static int add_timer(Copy *c)
{
        if (!isatty(STDERR_FILENO) || c->request->tty)
                return 0;
        return sd_event_add_time_relative(
                        c->event, &c->timer, CLOCK_MONOTONIC, PROGRESS_EVERY, 0, on_timer, c);
}

/* ---- before the run */

int copy_open(Copy *c, const RunRequest *q, Error **reterr)
{
        const char *workspace = q->workspace ?: DEFAULT_WORKSPACE;
        int r = 0;

        c->request = q;
        c->has_in = q->in;
        c->has_out = q->out;
        c->out_is_over = !c->has_out;
        if (q->view)
                r = view_open(&c->view, q->view, reterr);
        if (r >= 0 && c->has_in)
                r = copy_in_open(&c->in, q->in, workspace, reterr);
        if (r >= 0 && c->has_out)
                r = copy_out_open(&c->out, q->out, workspace, q->force, reterr);
        c->out.deny_exec = q->out_deny_exec;
        c->out.summary = q->out_summary;
        if (r >= 0 && c->has_in && c->has_out && (r = manifest_init(&c->manifest)) < 0)
                return error_set(reterr, r, "cannot make a random key: %s", strerror(-r));
        return r;
}

/* Of all that came, or of some of it. */
static void note_refused(Copy *c, uint64_t files, uint64_t bytes, const char *reason)
{
        if (c->refused)
                return;
        c->refused = strdup(reason);
        c->refused_files = files;
        c->refused_bytes = bytes;
}

static int on_out(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Copy *c = userdata;
        _cleanup_error_ Error *e = NULL;
        int r = copy_out_receive(&c->out, &e);

        if (r > 0)
                return 0;
        clear_line(c);
        c->source = sd_event_source_disable_unref(c->source);
        c->out_is_over = true;
        if (r < 0) {
                c->error = r;
                (void) message_failure(e, r);
                note_refused(c, c->out.receiver.decoder.state.entries, c->out.receiver.decoder.state.bytes,
                                error_message(e, r));
        }
        return c->on_over(c->userdata);
}

int copy_begin(Copy *c, sd_event *event, int (*on_over)(void *userdata), void *userdata, Error **reterr)
{
        int r;

        if (!c->has_in && !c->has_out)
                return 0;
        c->event = event;
        c->on_over = on_over;
        c->userdata = userdata;
        c->began = now_usec();
        r = add_timer(c);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        /* What goes in need not be remembered where nothing comes out. */
        return c->has_in ? copy_in_start(&c->in, c->has_out ? &c->manifest : NULL, reterr) : 0;
}

/* ---- the broker's answer */

static void say_list(const char *head, char *const *lines, uint64_t n)
{
        uint64_t shown = strv_length((char **) lines);

        STRV_FOREACH(i, lines)
                message("%s%s", head, *i);
        if (n > shown)
                message("%s… and %" PRIu64 " more", head, n - shown);
}

int copy_run_began(Copy *c, const char *run, uint64_t max_bytes, uint64_t max_files)
{
        _cleanup_error_ Error *e = NULL;
        int r;

        c->run = run;
        copy_in_sent(&c->in);
        copy_out_sent(&c->out);
        copy_in_cancel(&c->in); /* all of it is there: nobody is waited for */
        r = copy_in_finish(&c->in, &e);
        clear_line(c);
        c->began = 0;
        if (r < 0 && e) /* it would not have begun, were the files not there */
                (void) message_failure(e, r);
        say_list("not copied in: ", c->in.left, c->in.n_left);
        if (!c->has_out)
                return 0;
        r = copy_out_begin(&c->out, c->has_in ? &c->manifest : NULL, c->view.fd >= 0 ? &c->view : NULL, max_bytes, max_files, &e);
        if (r >= 0)
                r = sd_event_add_io(c->event, &c->source, c->out.read_fd, EPOLLIN, on_out, c);
        return r;
}

void copy_run_refused(Copy *c, Error **reterr)
{
        _cleanup_error_ Error *e = NULL;

        copy_in_sent(&c->in);
        copy_out_sent(&c->out);
        c->out_is_over = true;
        /* What it met by itself, it had met before the broker could answer; else somebody may be typing
         * still. */
        copy_in_cancel(&c->in);
        if (copy_in_finish(&c->in, &e) < 0 && e) {
                error_free(*reterr);
                *reterr = TAKE_PTR(e);
        }
        clear_line(c);
}

bool copy_is_over(const Copy *c)
{
        return c->out_is_over;
}

/* ---- what came out */

static void say_gate(const CopyOut *o)
{
        for (GateClass k = GATE_NONE + 1; k < _GATE_CLASS_MAX; k++) {
                _cleanup_free_ char *head = NULL;

                if (asprintf(&head, "%s (%s): ", o->deny_exec ? "left out" : "will execute later",
                                    gate_class_text(k)) < 0)
                        head = NULL;
                say_list(head ?: "", o->gate[k].lines, o->gate[k].n);
        }
}

static int compare_lines(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static void say_changes(char mark, const Notes *n)
{
        const char head[] = { mark, ' ', 0 };

        if (n->n_lines > 1)
                qsort(n->lines, n->n_lines, sizeof(char *), compare_lines);
        say_list(head, n->lines, n->n);
}

static void say_summary(const CopyOut *o)
{
        say_changes('A', &o->added);
        say_changes('M', &o->changed);
        say_changes('D', &o->deleted);
        message("copied out: %" PRIu64 " files, %" PRIu64
                " bytes; %zu added, %zu changed, %zu deleted, %" PRIu64 " as they %s",
                        o->n_files, o->n_bytes, o->added.n, o->changed.n, o->deleted.n, o->n_same,
                        o->view ? "were" : "went in");
}

/* A result that the run did not leave, or not as one. */
static int missing_results(const CopyOut *o)
{
        for (size_t i = 0; i < o->n_items; i++)
                if (o->items[i].left)
                        return -ENOENT;
        return 0;
}

int copy_conclude(Copy *c)
{
        CopyOut *o = &c->out;
        _cleanup_error_ Error *e = NULL;
        int r;

        if (!c->has_out || !c->run || c->error < 0 || c->is_concluded)
                return c->error;
        c->is_concluded = true;
        if (!c->out_is_over || !o->receiver.decoder.state.ended) {
                message("nothing is copied out: interrupted");
                note_refused(c, o->n_files, o->n_bytes, "interrupted");
                return c->error = -EINTR;
        }
        say_list("not copied out: ", o->left.lines, o->left.n);
        say_gate(o);
        r = copy_out_publish(o, c->run, &e);
        if (r < 0) {
                (void) message_failure(e, r);
                note_refused(c, o->n_files, o->n_bytes, error_message(e, r));
        } else if (o->n_denied > 0)
                note_refused(c, o->n_denied, o->n_denied_bytes,
                                "they would execute later (--out-deny-exec)");
        say_list("what stood there before is kept as ", o->kept.lines, o->kept.n);
        if (c->request->out_summary)
                say_summary(o);
        return c->error = r < 0 ? r : missing_results(o);
}

void copy_done(Copy *c)
{
        clear_line(c);
        sd_event_source_disable_unref(c->source);
        sd_event_source_disable_unref(c->timer);
        copy_in_done(&c->in);
        copy_out_done(&c->out);
        view_done(&c->view);
        manifest_done(&c->manifest);
        free(c->refused);
        *c = COPY_NONE;
}
