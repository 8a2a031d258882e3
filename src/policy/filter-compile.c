/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/strv.h"
#include "policy/filter-tables.h"

/* libseccomp knows one default per program and cannot say "this call, unless". So there are two programs,
 * each of a single kind, laid end to end:
 *
 *      refusals   default: go on.      Arguments that are always refused. Foreign architectures end here.
 *      bound      numbers that are newer than the tables answer ENOSYS
 *      grants     default: refuse.     Calls of the profile, some of them with certain arguments only.
 *      records    which of the refused calls are left to the listener. A call that is allowed never comes here.
 *
 * Going on is a jump to where the next one starts, put in the place of "return allow"; "return refusal" becomes a jump to
 * the records where there are any. */

const char *const filter_profile_names[_FILTER_PROFILE_MAX] = {
        [FILTER_PROFILE_JIT] = "jit",
        [FILTER_PROFILE_BUILD] = "build",
        [FILTER_PROFILE_DEFAULT] = "default",
        [FILTER_PROFILE_STRICT] = "strict",
};

/* The shim calls these between systemd's list and its own filter. */
static const char *const shim_calls[] = { "keyctl", "landlock_add_rule", "landlock_create_ruleset",
        "landlock_restrict_self", "openat2", "seccomp" };

/* Without these not even the shim's execve would come to be, nor what it says before, or no process would come to its end. */
static const char *const vital_calls[] = { "execve", "exit", "exit_group", "rt_sigreturn", "write" };

#define PROGRAM_MAX BPF_MAXINSNS

typedef struct Program {
        struct sock_filter code[PROGRAM_MAX];
        size_t n;
} Program;

typedef struct Compiler {
        const FilterSpec *spec;
        uint32_t arch;
        scmp_filter_ctx context;
        bool has_self; /* the placeholder of the run's uid is somewhere in the program */
} Compiler;

static void seccomp_releasep(scmp_filter_ctx *c)
{
        if (*c)
                seccomp_release(*c);
}

bool filter_spec_has(const FilterSpec *s, FilterNeed need)
{
        const bool has[_NEED_MAX] = {
                [NEED_NOTHING] = true,
                [NEED_UNIX] = s->unix_sockets,
                [NEED_INET] = s->inet_sockets,
                [NEED_NETLINK] = s->profile < FILTER_PROFILE_STRICT,
        };

        return has[need];
}

static bool list_names(char *const *list, const char *call)
{
        const FilterGroup *g = filter_group_of(call);

        return strv_contains(list, call) || strv_contains(list, g->name);
}

static bool profile_has(const FilterSpec *s, const char *call)
{
        return (int) s->profile <= filter_group_of(call)->strictest;
}

/* Before any look at arguments. Deny= wins over Allow=. */
static bool call_allowed(const FilterSpec *s, const char *call)
{
        return (profile_has(s, call) || list_names(s->allow, call)) && !list_names(s->deny, call);
}

static int check_names(const FilterSpec *s, Error **reterr)
{
        if ((unsigned) s->profile >= _FILTER_PROFILE_MAX)
                return error_set(reterr, -EINVAL, "There is no system call profile %d.", (int) s->profile);

        STRV_FOREACH(name, s->allow) {
                if (!filter_name_known(*name))
                        return error_set(reterr, -EINVAL, "Allow=: unknown system call or group \"%s\".",
                                        *name);
                if (!filter_name_allowable(*name))
                        return error_set(reterr, -EINVAL, "Allow=: nothing may allow \"%s\" in a sandbox.",
                                        *name);
        }
        STRV_FOREACH(name, s->deny)
                if (!filter_name_known(*name))
                        return error_set(reterr, -EINVAL, "Deny=: unknown system call or group \"%s\".",
                                        *name);
        for (size_t i = 0; i < ELEMENTSOF(vital_calls); i++)
                if (list_names(s->deny, vital_calls[i]))
                        return error_set(reterr, -EINVAL, "Deny=: without \"%s\" no program runs.",
                                        vital_calls[i]);
        return 0;
}

/* The number to give libseccomp, which counts in the native architecture's and translates. -ENOENT: this
 * call does not exist there. */
static int call_number(uint32_t arch, const char *call, int *ret)
{
        int nr = seccomp_syscall_resolve_name_arch(arch, call);

        if (nr != __NR_SCMP_ERROR) {
                if (nr < 0)
                        return -ENOENT;
                *ret = seccomp_syscall_resolve_name(call);
                return 0;
        }
        nr = filter_late_number(call);
        if (nr < 0 || arch != seccomp_arch_native())
                return -ENOENT;
        *ret = nr;
        return 0;
}

/* EPERM is a refusal; any other errno says "not here", on which programs carry on, and OnDenied=kill lets
 * them. A trap stands for a death that may have to be put on record first: see program_append_records(). */
static uint32_t refusal_action(const FilterSpec *s, int error)
{
        if (!s->kill_on_denied || error != EPERM)
                return SCMP_ACT_ERRNO((uint16_t) error);
        return s->record_denied ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS;
}

static int add_rule(const Compiler *c, uint32_t action, int nr, const FilterCompare *compares)
{
        struct scmp_arg_cmp cmp[FILTER_COMPARES_MAX];
        unsigned n = 0, any = UINT32_MAX;
        int r;

        for (; n < FILTER_COMPARES_MAX && compares && compares[n].op != COMPARE_NONE; n++) {
                bool any_bit = compares[n].op == COMPARE_ANY_BIT;

                if (any_bit && compares[n].mask == UINT64_MAX) {
                        cmp[n] = (struct scmp_arg_cmp){ compares[n].arg, SCMP_CMP_NE, 0, 0 };
                        continue;
                }
                cmp[n] = (struct scmp_arg_cmp){ compares[n].arg, SCMP_CMP_MASKED_EQ, compares[n].mask,
                        compares[n].value };
                if (any_bit)
                        any = n;
        }
        if (any == UINT32_MAX)
                return seccomp_rule_add_array(c->context, action, nr, n, n > 0 ? cmp : NULL);

        for (uint64_t left = compares[any].mask; left; left &= left - 1) {
                cmp[any].datum_a = cmp[any].datum_b = left & -left;
                r = seccomp_rule_add_array(c->context, action, nr, n, cmp);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int context_new(Compiler *c, uint32_t default_action)
{
        int r;

        c->context = seccomp_init(default_action);
        if (!c->context)
                return -ENOMEM;
        if (c->arch != seccomp_arch_native()) {
                r = seccomp_arch_add(c->context, c->arch);
                if (r < 0)
                        return r;
                r = seccomp_arch_remove(c->context, seccomp_arch_native());
                if (r < 0)
                        return r;
        }
        r = seccomp_attr_set(c->context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r < 0)
                return r;
        /* A tree over the numbers instead of a list. */
        return seccomp_attr_set(c->context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

static int add_refusals(const Compiler *c)
{
        for (size_t i = 0; i < filter_n_refusals; i++) {
                const FilterRefusal *f = &filter_refusals[i];
                int nr, r;

                if (f->unless != NEED_NOTHING && filter_spec_has(c->spec, f->unless))
                        continue;
                /* What is refused as a whole needs no look at its arguments. */
                if (!call_allowed(c->spec, f->call) || call_number(c->arch, f->call, &nr) < 0)
                        continue;
                r = add_rule(c, refusal_action(c->spec, f->error), nr, f->compares);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < filter_n_no_ops; i++) {
                const FilterNoOp *f = &filter_no_ops[i];
                int nr, r;

                if (!f->always || list_names(c->spec->deny, f->call) || call_number(c->arch, f->call, &nr) < 0)
                        continue;
                r = add_rule(c, SCMP_ACT_ERRNO(0), nr, f->compares);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The grants of one call; *ret says whether the tables have any, in force or not. */
static int add_grants_of(const Compiler *c, const char *call, int nr, bool *ret)
{
        const FilterCompare *whole = NULL;
        bool any = false;
        int r;

        for (size_t i = 0; i < filter_n_grants; i++) {
                const FilterGrant *g = &filter_grants[i];

                if (!streq(g->call, call))
                        continue;
                any = true;
                if (c->spec->profile <= g->strictest && g->compares[0].op == COMPARE_NONE)
                        whole = g->compares;
        }
        for (size_t i = 0; i < filter_n_grants && !whole; i++) {
                const FilterGrant *g = &filter_grants[i];

                if (!streq(g->call, call) || c->spec->profile > g->strictest ||
                                !filter_spec_has(c->spec, g->need))
                        continue;
                r = add_rule(c, SCMP_ACT_ALLOW, nr, g->compares);
                if (r < 0)
                        return r;
        }
        *ret = any && !whole;
        return 0;
}

static bool names_self(const FilterNoOp *n)
{
        for (size_t i = 0; i < FILTER_COMPARES_MAX && n->compares[i].op != COMPARE_NONE; i++)
                if (n->compares[i].value == FILTER_SELF_PLACEHOLDER)
                        return true;
        return false;
}

static int add_no_ops_of(Compiler *c, const char *call, int nr)
{
        for (size_t i = 0; i < filter_n_no_ops; i++) {
                int r;

                if (!streq(filter_no_ops[i].call, call) || filter_no_ops[i].always)
                        continue;
                r = add_rule(c, SCMP_ACT_ERRNO(0), nr, filter_no_ops[i].compares);
                if (r < 0)
                        return r;
                c->has_self = c->has_self || names_self(&filter_no_ops[i]);
        }
        return 0;
}

static int add_refused_call(Compiler *c, const FilterGroup *g, const char *call, int nr)
{
        bool denied = list_names(c->spec->deny, call);
        uint32_t action = g->harmless && !denied ? SCMP_ACT_ERRNO((uint16_t) g->refusal)
                                                 : refusal_action(c->spec, g->refusal);

        /* libseccomp takes no rule that says what the default says. */
        if (action != refusal_action(c->spec, EPERM))
                return add_rule(c, action, nr, NULL);
        return denied ? 0 : add_no_ops_of(c, call, nr);
}

static int add_call(Compiler *c, const FilterGroup *g, const char *call)
{
        bool granted;
        int nr, r;

        if (call_number(c->arch, call, &nr) < 0)
                return 0;
        if (!call_allowed(c->spec, call))
                return add_refused_call(c, g, call, nr);
        r = add_grants_of(c, call, nr, &granted);
        if (r < 0 || granted)
                return r;
        return add_rule(c, SCMP_ACT_ALLOW, nr, NULL);
}

static int add_grants(Compiler *c)
{
        for (size_t i = 0; i < filter_n_groups; i++)
                FILTER_GROUP_FOREACH(call, &filter_groups[i])
                {
                        int r = add_call(c, &filter_groups[i], *call);

                        if (r < 0)
                                return r;
                }
        return 0;
}

/* Appends what libseccomp made of the rules. It writes to descriptors only. */
static int program_append_context(Program *p, scmp_filter_ctx context)
{
        _cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);
        size_t space = (PROGRAM_MAX - p->n) * sizeof(struct sock_filter);
        ssize_t size;
        off_t end;
        int r;

        if (fd < 0)
                return -errno;
        r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return r;
        end = lseek(fd, 0, SEEK_END);
        if (end < 0)
                return -errno;
        if (end == 0 || (size_t) end > space || (size_t) end % sizeof(struct sock_filter) != 0)
                return -E2BIG;
        size = pread(fd, p->code + p->n, (size_t) end, 0);
        if (size != end)
                return size < 0 ? -errno : -EIO;
        p->n += (size_t) size / sizeof(struct sock_filter);
        return 0;
}

/* Every "return what" so far becomes a jump to the end of the program. */
static void program_redirect(Program *p, uint32_t what)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->code[i].code == (BPF_RET | BPF_K) && p->code[i].k == what)
                        p->code[i] = (struct sock_filter) BPF_STMT(BPF_JMP | BPF_JA, (uint32_t) (p->n - i - 1));
}

static int program_append_bound(Program *p)
{
        const struct sock_filter bound[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, FILTER_NUMBER_MAX, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        };

        if (p->n + ELEMENTSOF(bound) > PROGRAM_MAX)
                return -E2BIG;
        memcpy(p->code + p->n, bound, sizeof(bound));
        p->n += ELEMENTSOF(bound);
        return 0;
}

/* PID 1 asks the same library, ignores what that does not know, and says so in the journal each time. */
static bool systemd_knows(const char *call)
{
        return seccomp_syscall_resolve_name(call) != __NR_SCMP_ERROR;
}

static bool is_recorded(const char *call)
{
        return list_names((char *const *) filter_recorded, call) && systemd_knows(call);
}

/* The next call of the tables, after the one given, that may be refused on record. */
static const char *const *recorded_next(const char *const *call)
{
        for (call = call ? call + 1 : filter_names; *call; call++)
                if (**call != '@' && is_recorded(*call))
                        return call;
        return NULL;
}

/* In the program's own numbers. */
static int arch_number(uint32_t arch, const char *call)
{
        int nr = seccomp_syscall_resolve_name_arch(arch, call);

        return nr >= 0 ? nr : -ENOENT;
}

static int program_append(Program *p, struct sock_filter i)
{
        if (p->n == PROGRAM_MAX)
                return -E2BIG;
        p->code[p->n++] = i;
        return 0;
}

static int program_append_records(Program *p, const FilterSpec *spec, uint32_t arch)
{
        const uint32_t refusal = spec->kill_on_denied ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM,
                       final = spec->kill_on_denied ? SECCOMP_RET_KILL_PROCESS : refusal;
        size_t first, last;
        int r;

        program_redirect(p, refusal);
        r = program_append(p, (struct sock_filter) BPF_STMT(
                                              BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        first = p->n;
        for (const char *const *call = recorded_next(NULL); r >= 0 && call; call = recorded_next(call)) {
                int nr = arch_number(arch, *call);

                if (nr >= 0)
                        r = program_append(p, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) nr, 0, 0));
        }
        last = p->n;
        if (r >= 0)
                r = program_append(p, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, final));
        if (r >= 0)
                r = program_append(p, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
        if (r < 0 || last - first > UINT8_MAX)
                return r < 0 ? r : -E2BIG;
        for (size_t i = first; i < last; i++)
                p->code[i].jt = (uint8_t) (last - i);
        return 0;
}

int filter_recorded_numbers(const FilterSpec *spec, uint32_t **ret, size_t *ret_n)
{
        _cleanup_free_ uint32_t *numbers = calloc(FILTER_NUMBER_MAX + 1, sizeof(*numbers));
        size_t n = 0;

        if (!numbers)
                return -ENOMEM;
        for (const char *const *call = recorded_next(NULL); call; call = recorded_next(call)) {
                int nr = arch_number(seccomp_arch_native(), *call);

                /* No arguments make a granted socket() of -1. */
                if (nr >= 0 && (!call_allowed(spec, *call) || streq(*call, "socket") || streq(*call, "clone")))
                        numbers[n++] = (uint32_t) nr;
        }
        *ret = TAKE_PTR(numbers);
        *ret_n = n;
        return 0;
}

char *filter_recorded_name(uint32_t number)
{
        for (const char *const *call = recorded_next(NULL); call; call = recorded_next(call))
                if (arch_number(seccomp_arch_native(), *call) == (int) number)
                        return strdup(*call);
        return NULL;
}

static const struct {
        uint32_t arch; /* libseccomp's numbers are the kernel's, but for x32, which is no architecture there */
        const char *name;
} arch_names[] = {
        { SCMP_ARCH_X86_64, "x86-64" },
        { SCMP_ARCH_X86, "i386" },
        { SCMP_ARCH_X32, "x32" },
        { SCMP_ARCH_AARCH64, "aarch64" },
        { SCMP_ARCH_ARM, "arm" },
};

#define X32_BIT 0x40000000u

char *filter_call_name(uint32_t audit_arch, uint32_t number, const char **ret_arch)
{
        bool x32 = audit_arch == SCMP_ARCH_X86_64 && number != UINT32_MAX && (number & X32_BIT);
        uint32_t arch = x32 ? SCMP_ARCH_X32 : audit_arch;
        char *name = NULL;

        *ret_arch = "other";
        for (size_t i = 0; i < ELEMENTSOF(arch_names); i++)
                if (arch_names[i].arch == arch) {
                        *ret_arch = arch_names[i].name;
                        name = number <= INT32_MAX ? seccomp_syscall_resolve_num_arch(arch, (int) number) : NULL;
                }
        if (name)
                return name;
        return asprintf(&name, "%u", number) < 0 ? NULL : name;
}

bool filter_arch_is_native(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(arch_names); i++)
                if (arch_names[i].arch == seccomp_arch_native())
                        return streq(arch_names[i].name, name);
        return false;
}

static bool is_uid(const struct sock_filter *i)
{
        return i->code == (BPF_JMP | BPF_JEQ | BPF_K) && i->k == FILTER_SELF_PLACEHOLDER;
}

/* The places of the placeholder. -EINVAL: one of them is not the comparison that was asked for. */
static int count_uids(const struct sock_filter *program, size_t n)
{
        int found = 0;

        for (size_t i = 0; i < n; i++) {
                if (program[i].k != FILTER_SELF_PLACEHOLDER)
                        continue;
                if (!is_uid(&program[i]))
                        return -EINVAL;
                found++;
        }
        return found;
}

int filter_set_uid(struct sock_filter *program, size_t n, uint32_t uid)
{
        int found = count_uids(program, n);

        if (uid == 0 || uid > INT32_MAX)
                return -EINVAL;
        for (size_t i = 0; i < n && found > 0; i++)
                if (is_uid(&program[i]))
                        program[i].k = uid;
        return found;
}

static int compile_refusals(const FilterSpec *spec, uint32_t arch, Program *p)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = NULL;
        Compiler c = { .spec = spec, .arch = arch };
        int r;

        r = context_new(&c, SCMP_ACT_ALLOW);
        context = c.context;
        if (r < 0)
                return r;
        r = add_refusals(&c);
        if (r < 0)
                return r;
        return program_append_context(p, context);
}

static int compile_grants(const FilterSpec *spec, uint32_t arch, Program *p)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = NULL;
        Compiler c = { .spec = spec, .arch = arch };
        int r;

        r = context_new(&c, refusal_action(spec, EPERM));
        context = c.context;
        if (r < 0)
                return r;
        r = add_grants(&c);
        if (r < 0)
                return r;
        r = program_append_context(p, context);
        if (r < 0)
                return r;
        /* Should libseccomp ever write this comparison in another way. */
        r = count_uids(p->code, p->n);
        if (r < 0)
                return r;
        return (r > 0) == c.has_self ? 0 : -EIO;
}

int filter_compile_for(const FilterSpec *spec, uint32_t audit_arch, struct sock_filter **ret, size_t *ret_n,
                Error **reterr)
{
        _cleanup_free_ Program *p = NULL;
        struct sock_filter *code;
        int r;

        r = check_names(spec, reterr);
        if (r < 0)
                return r;
        /* Elsewhere clone() has its flags in another place, or socket calls share one number. */
        if (audit_arch != SCMP_ARCH_X86_64 && audit_arch != SCMP_ARCH_AARCH64)
                return error_set(reterr, -EOPNOTSUPP, "No system call filter for this architecture.");

        p = calloc(1, sizeof(Program));
        if (!p)
                return error_set(reterr, -ENOMEM, "Out of memory.");
        r = compile_refusals(spec, audit_arch, p);
        if (r >= 0) {
                program_redirect(p, SECCOMP_RET_ALLOW);
                r = program_append_bound(p);
        }
        if (r >= 0)
                r = compile_grants(spec, audit_arch, p);
        if (r >= 0 && spec->record_denied)
                r = program_append_records(p, spec, audit_arch);
        if (r < 0)
                return error_set(reterr, r, "Cannot compile the system call filter: %s.", strerror(-r));

        code = calloc(p->n, sizeof(struct sock_filter));
        if (!code)
                return error_set(reterr, -ENOMEM, "Out of memory.");
        memcpy(code, p->code, p->n * sizeof(struct sock_filter));
        *ret = code;
        *ret_n = p->n;
        return 0;
}

int filter_compile(const FilterSpec *spec, struct sock_filter **ret, size_t *ret_n, Error **reterr)
{
        return filter_compile_for(spec, seccomp_arch_native(), ret, ret_n, reterr);
}

int filter_systemd_allow_list(const FilterSpec *spec, char ***ret, Error **reterr)
{
        _cleanup_strv_ char **list = NULL;
        int r;

        r = check_names(spec, reterr);
        if (r < 0)
                return r;
        /* Deny= is left to our own layer: the shim runs under this list, too, and needs more than its
         * workload may. */
        for (const char *const *call = filter_names; *call; call++)
                if (**call != '@' && (profile_has(spec, *call) || list_names(spec->allow, *call) ||
                                                     (spec->record_denied && is_recorded(*call))) &&
                                systemd_knows(*call) && strv_extend(&list, *call) < 0)
                        return error_set(reterr, -ENOMEM, "Out of memory.");
        for (size_t i = 0; i < ELEMENTSOF(shim_calls); i++)
                if (!strv_contains(list, shim_calls[i]) && systemd_knows(shim_calls[i]) &&
                                strv_extend(&list, shim_calls[i]) < 0)
                        return error_set(reterr, -ENOMEM, "Out of memory.");
        *ret = TAKE_PTR(list);
        return 0;
}
