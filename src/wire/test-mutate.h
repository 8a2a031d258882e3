/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/buf.h"

/* Gives decode() many broken copies of a good message: bytes changed, numbers made large, pieces cut out,
 * doubled and moved. The same ones in each run. Each copy lies in memory of exactly its size, so that a
 * sanitizer sees every byte too far. Fails where decode() says anything but 0 or -EBADMSG, and where it
 * never or always accepts. */
static inline uint32_t mutate_random(uint64_t *state)
{
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t) (*state >> 33);
}

static inline size_t mutate_once(uint64_t *random, uint8_t *p, size_t n, size_t allocated)
{
        static const uint32_t numbers[] = { 0, 1, 0x7f, 0xff, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
                0xffffffff };
        size_t at = n > 0 ? mutate_random(random) % n : 0, size = mutate_random(random) % 16;
        uint32_t v;

        switch (mutate_random(random) % 5) {
        case 0:
                if (n > 0)
                        p[at] ^= (uint8_t) (1u << mutate_random(random) % 8);
                break;
        case 1:
                if (n > 0)
                        p[at] = (uint8_t) mutate_random(random);
                break;
        case 2:
                v = numbers[mutate_random(random) % ELEMENTSOF(numbers)];
                if (at + sizeof(v) <= n)
                        memcpy(p + at, &v, sizeof(v));
                break;
        case 3:
                size = MIN2(size, n - at);
                memmove(p + at, p + at + size, n - at - size);
                n -= size;
                break;
        case 4:
                size = MIN2(size, MIN2(n - at, allocated - n));
                memmove(p + at + size, p + at, n - at);
                n += size;
                break;
        }
        return n;
}

static inline void mutate(const void *good, size_t n, size_t rounds, int (*decode)(const void *, size_t))
{
        uint64_t random = 1;
        size_t accepted = 0;

        assert_int_equal(decode(good, n), 0);
        for (size_t i = 0; i < rounds; i++) {
                size_t allocated = n + 64, size = n;
                uint8_t *p = malloc(allocated), *exact;
                int r;

                memcpy(p, good, n);
                for (uint32_t k = 1 + mutate_random(&random) % 4; k > 0; k--)
                        size = mutate_once(&random, p, size, allocated);
                exact = malloc(size + (size == 0));
                memcpy(exact, p, size);
                r = decode(exact, size);
                assert_true(r == 0 || r == -EBADMSG);
                accepted += r == 0;
                free(exact);
                free(p);
        }
        assert_true(accepted > 0 && accepted < rounds);
}
