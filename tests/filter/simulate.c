/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "simulate.h"

static bool jump_taken(const struct sock_filter *i, uint32_t a)
{
        switch (BPF_OP(i->code)) {
        case BPF_JEQ:
                return a == i->k;
        case BPF_JGT:
                return a > i->k;
        case BPF_JGE:
                return a >= i->k;
        default: /* BPF_JSET */
                return a & i->k;
        }
}

uint32_t simulate(const struct sock_filter *code, size_t n, const struct seccomp_data *data, bool *covered)
{
        uint32_t a = 0;

        for (size_t pc = 0; pc < n; pc++) {
                const struct sock_filter *i = &code[pc];

                if (covered)
                        covered[pc] = true;
                switch (i->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (i->k % 4 != 0 || i->k > sizeof(*data) - 4)
                                return SIMULATE_INVALID;
                        memcpy(&a, (const uint8_t *) data + i->k, 4);
                        break;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= i->k;
                        break;
                case BPF_JMP | BPF_JA:
                        pc += i->k;
                        break;
                case BPF_JMP | BPF_JEQ | BPF_K:
                case BPF_JMP | BPF_JGT | BPF_K:
                case BPF_JMP | BPF_JGE | BPF_K:
                case BPF_JMP | BPF_JSET | BPF_K:
                        pc += jump_taken(i, a) ? i->jt : i->jf;
                        break;
                case BPF_RET | BPF_K:
                        return i->k;
                default:
                        return SIMULATE_INVALID;
                }
        }
        return SIMULATE_INVALID;
}

int simulate_verdict(
                const struct sock_filter *code, size_t n, const struct seccomp_data *data, bool *covered)
{
        uint32_t r = simulate(code, n, data, covered);

        if (r == SECCOMP_RET_ALLOW)
                return 0;
        if (r == SECCOMP_RET_KILL_PROCESS)
                return VERDICT_KILL;
        if (r == SECCOMP_RET_ERRNO)
                return VERDICT_NO_OP;
        if ((r & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && (r & SECCOMP_RET_DATA) > 0 &&
                        (r & SECCOMP_RET_DATA) < 4096)
                return (int) (r & SECCOMP_RET_DATA);
        return VERDICT_INVALID;
}
