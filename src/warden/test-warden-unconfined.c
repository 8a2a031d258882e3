/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "warden/warden-confine.h"

/* In place of warden-confine.c where sanitizers are built in: they read files and start threads as the program ends. */

int warden_confine_files(int beneath)
{
        return 0;
}

int warden_confine_calls(void)
{
        return 0;
}

int warden_confine_witness(void)
{
        return 0;
}
