/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes from one socket to another without a copy: splice(2), by one pipe that all connections share. Between two calls there
 * is never a byte in it, or what one connection sent would go out on another: what the second socket did not take is taken
 * back at once, and a pipe of which that is not certain is closed and never used again. Not by BPF (sockmap), which would spare
 * the calls: one of the two sockets is a sandbox's own, and that code has had too many holes to be put between the two. */

#define SPLICE_MIN ((size_t) 64 << 10)
#define SPLICE_MAX ((size_t) 1 << 20) /* no pipe may be larger without a privilege */

typedef struct Splicer {
        int fds[2]; /* read, write; -1: not there any more */
} Splicer;

#define SPLICER_NONE ((Splicer){ .fds = { -1, -1 } })
/* Ignores SIGPIPE from then on, in the whole process: of splice(2) nothing else keeps it away. */
int splicer_open(Splicer *ret);
void splicer_close(Splicer *s);
static inline bool splicer_is_open(const Splicer *s)
{
        return s->fds[0] >= 0;
}

typedef struct Spliced {
        size_t taken; /* out of the first socket */
        size_t given; /* to the second */
        int error;    /* why that is less: -EAGAIN: it takes no more at the moment, and what was taken and not given is in
                         rest; any other negative errno: it is broken, and that is gone; 0: it is not less */
} Spliced;
/* How many bytes are worth a try: as many as a socket has room for, within these bounds. So what is left over is rarely more
 * than SPLICE_MIN: where the kernel has become short of memory. */
size_t splicer_size(int to);
/* At most n bytes (no more than SPLICE_MAX) between two sockets that do not block; rest has room for as many. Nothing taken
 * says nothing: whether that is the end, an error or only silence (or an urgent byte stands before the rest, which splice(2)
 * never passes), recv(2) says. Bytes that cannot be taken back are lost (-EIO), and with them the pipe. */
void splicer_move(Splicer *s, int from, int to, size_t n, uint8_t *rest, Spliced *ret);
