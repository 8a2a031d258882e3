/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/macro.h"
#include "broker/bpf-assembly.h"
#include "broker/bpf-call.h"

#define INSTRUCTIONS_MAX 256u
#define LABELS_MAX 64u

static bool is_jump(const struct bpf_insn *i)
{
        uint8_t class = BPF_CLASS(i->code), operation = BPF_OP(i->code);

        return (class == BPF_JMP || class == BPF_JMP32) && operation != BPF_CALL && operation != BPF_EXIT;
}

/* Where each label stands once the labels themselves are gone. */
static int find_labels(const BpfProgram *p, int16_t places[static LABELS_MAX])
{
        int16_t place = 0;

        for (size_t i = 0; i < LABELS_MAX; i++)
                places[i] = -1;
        for (size_t i = 0; i < p->size; i++) {
                if (p->code[i].code != ASM_LABEL) {
                        place++;
                        continue;
                }
                if (p->code[i].imm < 0 || (size_t) p->code[i].imm >= LABELS_MAX ||
                                places[p->code[i].imm] >= 0)
                        return -EINVAL;
                places[p->code[i].imm] = place;
        }
        return 0;
}

static int assemble(
                const BpfProgram *p, const int *maps, size_t n_maps, struct bpf_insn *ret, uint32_t *ret_n)
{
        int16_t places[LABELS_MAX];
        uint32_t n = 0;
        int r;

        if (p->size > INSTRUCTIONS_MAX)
                return -EINVAL;
        r = find_labels(p, places);
        if (r < 0)
                return r;
        for (size_t i = 0; i < p->size; i++) {
                struct bpf_insn insn = p->code[i];

                if (insn.code == ASM_LABEL)
                        continue;
                if (is_jump(&insn)) {
                        if (insn.off < 0 || (size_t) insn.off >= LABELS_MAX || places[insn.off] <= (int) n)
                                return -EINVAL;
                        insn.off = (int16_t) (places[insn.off] - (int) n - 1);
                } else if (BPF_CLASS(insn.code) == BPF_LD && BPF_SIZE(insn.code) == BPF_DW) {
                        if (insn.imm < 0 || (size_t) insn.imm >= n_maps)
                                return -EINVAL;
                        insn.imm = maps[insn.imm];
                }
                ret[n++] = insn;
        }
        *ret_n = n;
        return 0;
}

int bpf_load(const BpfProgram *p, const int *maps, size_t n_maps)
{
        static const char license[] = "LGPL-2.1";
        struct bpf_insn code[INSTRUCTIONS_MAX];
        union bpf_attr attr = {};
        int r = assemble(p, maps, n_maps, code, &attr.insn_cnt);

        if (r < 0)
                return r;
        attr.prog_type = p->type;
        attr.insns = bpf_pointer(code);
        attr.license = bpf_pointer(license);
        attr.expected_attach_type = p->attach_type;
        snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", p->name);
        return bpf_call(BPF_PROG_LOAD, &attr);
}
