/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <sys/syscall.h>

#include "policy/filter-tables.h"
#include "tests/filter/syscall-number.h"

static const struct {
        const char *call;
        long number;
} numbers[] = {
#include "syscall-numbers.inc"
};

long syscall_number(const char *call)
{
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                if (strcmp(numbers[i].call, call) == 0)
                        return numbers[i].number;
        return filter_late_number(call);
}

const char *syscall_name(long number)
{
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                if (numbers[i].number == number)
                        return numbers[i].call;
        return NULL;
}
