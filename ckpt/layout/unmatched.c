/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/layout/unmatched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"

#define SHOWN 3 /* names in a line; all of them by dlr_ckpt_unmatched() */

int dlr_names_add(struct dlr_names *names, const char *name)
{
    char **list = names->list, *copy = strdup(name);

    if (copy && (names->n & (names->n - 1)) == 0) /* 0 and the powers of two */
        list = realloc(list, (names->n ? names->n * 2 : 1) * sizeof(*list));
    if (!copy || !list) {
        free(copy);
        return -ENOMEM;
    }
    names->list = list;
    names->list[names->n++] = copy;
    return 0;
}

void dlr_names_done(struct dlr_names *names)
{
    for (unsigned i = 0; i < names->n; i++)
        free(names->list[i]);
    free(names->list);
    *names = (struct dlr_names){0};
}

/* "'a', 'b', 'c' and 4 more" */
static void put_names(const struct dlr_names *names, char *buf, size_t size)
{
    size_t at = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < names->n && i < SHOWN && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s'%.60s'", i ? ", " : "",
                               names->list[i]);
    if (names->n > SHOWN && at < size)
        snprintf(buf + at, size - at, " and %u more", names->n - SHOWN);
}

int dlr_unmatched_check(const struct dlr_unmatched *u, struct dlr_err *err)
{
    char left[256], missing[256];

    put_names(&u->left, left, sizeof(left));
    put_names(&u->missing, missing, sizeof(missing));
    if (u->allowed & DLR_CKPT_LEFTOVER)
        left[0] = '\0';
    if (u->allowed & DLR_CKPT_MISSING)
        missing[0] = '\0';
    if (!left[0] && !missing[0])
        return 0;
    if (!missing[0])
        return dlr_fail(err, -EBADMSG,
                        "the version holds %s, not named here "
                        "(dlr_ckpt_allow: DLR_CKPT_LEFTOVER)",
                        left);
    if (!left[0])
        return dlr_fail(err, -EBADMSG,
                        "the version lacks %s, named here "
                        "(dlr_ckpt_allow: DLR_CKPT_MISSING)",
                        missing);
    return dlr_fail(err, -EBADMSG,
                    "the version holds %s, not named here, and lacks %s, named here "
                    "(dlr_ckpt_allow)",
                    left, missing);
}

void dlr_unmatched_done(struct dlr_unmatched *u)
{
    dlr_names_done(&u->left);
    dlr_names_done(&u->missing);
    u->differs = false;
}
