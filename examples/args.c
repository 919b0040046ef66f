/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/args.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int is_first_rank(void)
{
    static const char *const names[] = {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value)
            return value[0] == '0' && value[1] == '\0';
    }
    return 1;
}

_Noreturn void args_bad(const char *program, const char *fmt, ...)
{
    va_list ap;

    if (is_first_rank()) {
        va_start(ap, fmt);
        fprintf(stderr, "%s: ", program);
        vfprintf(stderr, fmt, ap);
        fprintf(stderr, " (try --help)\n");
        va_end(ap);
    }
    exit(2);
}

uint64_t args_number(const char *program, const char *option, const char *text,
                     uint64_t min, uint64_t max)
{
    char *end = NULL;
    uint64_t n;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || n < min || n > max)
        args_bad(program, "--%s: '%s' is not a number from %" PRIu64 " to %" PRIu64,
                 option, text, min, max);
    return n;
}
