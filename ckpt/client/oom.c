/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/oom.h"

#include <stdio.h>

void dlr_oom_first(void)
{
    FILE *f = fopen("/proc/self/oom_score_adj", "r+e");
    int now;

    if (!f)
        return;
    if (fscanf(f, "%d", &now) == 1 && now < DLR_OOM_SCORE) {
        rewind(f);
        fprintf(f, "%d\n", DLR_OOM_SCORE);
    }
    fclose(f);
}
