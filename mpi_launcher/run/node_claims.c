/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/run/node_claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/process/process_id.h"

enum { FREE, USED, OURS };

struct choice {
    char *const *names;
    const unsigned char *may;
    unsigned n, want, taken;
    unsigned *chosen;
    unsigned char *state; /* [n] of the enum */
};

static void mark(struct choice *c, char *list, int state)
{
    char *rest;

    for (char *name = strtok_r(list, ",\n", &rest); name;
         name = strtok_r(NULL, ",\n", &rest))
        for (unsigned i = 0; i < c->n; i++)
            if (dlr_streq(c->names[i], name))
                c->state[i] = state;
}

/* Lines are "PID START HOST NODE,NODE". True when one is the keeper's own. */
static bool read_lines(FILE *f, pid_t keeper, struct choice *c)
{
    DLR_AUTO_FREE char *line = NULL;
    struct dlr_procid id;
    bool ours = false;
    size_t room = 0;

    rewind(f);
    while (!ours && getline(&line, &room, f) > 0) {
        char *list = strrchr(line, ' ');

        if (!list || dlr_procid_parse(line, &id) < 0 || !dlr_procid_alive(&id))
            continue;
        ours = id.pid == keeper;
        if (ours)
            memset(c->state, USED, c->n);
        mark(c, list + 1, ours ? OURS : USED);
    }
    return ours;
}

static void choose(struct choice *c, int state)
{
    for (unsigned i = 0; i < c->n && c->taken < c->want; i++)
        if (c->state[i] == state && c->may[i])
            c->chosen[c->taken++] = i;
}

static int write_line(FILE *f, pid_t keeper, const struct choice *c)
{
    char text[DLR_PROCID_TEXT];
    struct dlr_procid id;
    int rc = dlr_procid_of(keeper, &id);

    if (rc < 0)
        return rc;
    dlr_procid_show(&id, text);
    fprintf(f, "%s ", text);
    for (unsigned i = 0; i < c->taken; i++)
        fprintf(f, "%s%s", i ? "," : "", c->names[c->chosen[i]]);
    fputc('\n', f);
    return fflush(f) ? -errno : 0;
}

int dlr_node_claims_take(const char *path, pid_t keeper, char *const *names,
                         const unsigned char *may, unsigned n, unsigned want,
                         unsigned *ret_chosen, struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned char *state = calloc(n + 1, 1);
    DLR_AUTO_FCLOSE FILE *f = fopen(path, "a+e");
    struct choice c = {.names = names,
                       .may = may,
                       .n = n,
                       .want = want,
                       .chosen = ret_chosen,
                       .state = state};
    bool ours;
    int rc;

    if (!state)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (!f)
        return dlr_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
    flock(fileno(f), LOCK_EX); /* where there are no locks two may choose the same */
    ours = read_lines(f, keeper, &c);
    choose(&c, OURS);
    choose(&c, FREE);
    choose(&c, USED);
    rc = ours ? 0 : write_line(f, keeper, &c);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot write '%s': %s", path, strerror(-rc));
    return (int)c.taken;
}
