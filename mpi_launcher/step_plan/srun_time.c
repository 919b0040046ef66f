/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/srun_time.h"

#include <string.h>

#include "common/base/str.h"

#define MOST 1000000 /* of each number */

int64_t dlr_srun_time_ms(const char *text)
{
    char copy[64], *rest = copy, *dash, *at = NULL;
    unsigned part[3] = {0}, days = 0, n = 0;
    int64_t s;

    if (dlr_format(copy, sizeof(copy), "%s", text))
        return 0;
    dash = strchr(copy, '-');
    if (dash) {
        *dash = '\0';
        rest = dash + 1;
        if (dlr_parse_uint(copy, MOST, &days) < 0)
            return 0;
    }
    for (char *word = strtok_r(rest, ":", &at); word; word = strtok_r(NULL, ":", &at))
        if (n == 3 || dlr_parse_uint(word, MOST, &part[n++]) < 0)
            return 0;
    if (dash || n == 3) /* hours come first */
        s = (int64_t)days * 86400 + part[0] * 3600LL + part[1] * 60LL + part[2];
    else
        s = part[0] * 60LL + part[1];
    return n ? (s + 59) / 60 * 60000 : 0;
}
