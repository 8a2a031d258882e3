/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

/* Programs as tables of instructions, with labels for jumps and numbers for maps, which bpf_load() resolves.
 * Registers are BPF_REG_*; a jump's target is a label of the same table, further down: no program has a
 * loop. */

#define ASM_LABEL 0xff /* no instruction has this code */
#define LABEL(l)                              \
        {                                     \
                .code = ASM_LABEL, .imm = (l) \
        }

#define INSN(c, d, s, o, v)                                                              \
        {                                                                                \
                .code = (c), .dst_reg = BPF_REG_##d, .src_reg = BPF_REG_##s, .off = (o), \
                .imm = (int32_t) (v)                                                     \
        }
#define MOVE(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, v) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, v)
#define ADD(d, v) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, v)
#define SHIFT_RIGHT(d, v) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, v)
#define SHIFT_LEFT(d, v) INSN(BPF_ALU64 | BPF_LSH | BPF_K, d, 0, 0, v)
#define AND(d, v) INSN(BPF_ALU | BPF_AND | BPF_K, d, 0, 0, v) /* 32 bits; the rest is zero */
#define BIG_ENDIAN_16(d) INSN(BPF_ALU | BPF_END | BPF_TO_BE, d, 0, 0, 16)
/* size: B, H, W, DW */
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_##size, d, s, o, 0)
#define STORE(size, d, o, s) INSN(BPF_STX | BPF_MEM | BPF_##size, d, s, o, 0)
#define STORE_VALUE(size, d, o, v) INSN(BPF_ST | BPF_MEM | BPF_##size, d, 0, o, v)
#define ATOMIC_ADD(d, o, s) INSN(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, o, BPF_ADD)
/* Of 32 bits, so that no constant is sign-extended. */
#define IF_EQUAL(r, v, l) INSN(BPF_JMP32 | BPF_JEQ | BPF_K, r, 0, l, v)
#define IF_NOT_EQUAL(r, v, l) INSN(BPF_JMP32 | BPF_JNE | BPF_K, r, 0, l, v)
#define IF_ABOVE(r, v, l) INSN(BPF_JMP32 | BPF_JGT | BPF_K, r, 0, l, v)
#define IF_BITS(r, v, l) INSN(BPF_JMP32 | BPF_JSET | BPF_K, r, 0, l, v)
#define IF_ZERO(r, l) INSN(BPF_JMP | BPF_JEQ | BPF_K, r, 0, l, 0) /* of 64 bits: pointers, results */
#define IF_NOT_ZERO(r, l) INSN(BPF_JMP | BPF_JNE | BPF_K, r, 0, l, 0)
#define GO(l) INSN(BPF_JMP | BPF_JA, 0, 0, l, 0)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_##f)
#define END() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* The map with that number in the array that bpf_load() is given. Two instructions. */
#define MAP(d, m)                             \
        { .code = BPF_LD | BPF_DW | BPF_IMM,  \
                .dst_reg = BPF_REG_##d,       \
                .src_reg = BPF_PSEUDO_MAP_FD, \
                .imm = (m) },                 \
        {                                     \
        }
/* Address on the stack. */
#define STACK(d, o) MOVE(d, 10), ADD(d, o)

#define BE16(v) __builtin_bswap16(v)
#define BE32(v) __builtin_bswap32(v)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "BE16, BE32");

typedef struct BpfProgram {
        const char *name; /* at most 15 characters */
        uint32_t type, attach_type;
        const struct bpf_insn *code;
        size_t size;
} BpfProgram;

/* The descriptor of the loaded program; -EINVAL also where the table is wrong. */
int bpf_load(const BpfProgram *p, const int *maps, size_t n_maps);
