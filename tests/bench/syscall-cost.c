/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Prints the nanoseconds that two system calls take: a short one that does nothing, and a read. */

#define CALLS 2000000u

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

int main(void)
{
        uint64_t start = now(), between;
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        char byte;

        if (fd < 0)
                return 1;
        for (unsigned i = 0; i < CALLS; i++)
                syscall(SYS_getppid);
        between = now();
        for (unsigned i = 0; i < CALLS; i++)
                if (read(fd, &byte, 1) != 1)
                        return 1;
        printf("%.2f %.2f\n", (double) (between - start) / CALLS, (double) (now() - between) / CALLS);
        return 0;
}
