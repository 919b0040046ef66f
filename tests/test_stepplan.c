/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of srun's words: a table of command lines and the plan of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/srun_options.h"
#include "mpi_launcher/stepplan.h"

struct row {
    const char *line; /* without "srun" */
    const char *plan; /* "options | program | places x world", or the error */
    unsigned nnodes, spares, nplaces;
    const char *ntasks, *per_node;
    unsigned world; /* of an earlier incarnation */
};

static const struct row rows[] = {
    {"a.out", " | a.out | 4x4 1,1,1,1", 5, 1},
    {"a.out -n 3", " | a.out -n 3 | 4x4 1,1,1,1", 5, 1},
    {"-n 8 a.out", " | a.out | 4x8 2,2,2,2", 5, 1},
    {"-n8 -l a.out", "-l | a.out | 4x8 2,2,2,2", 5, 1},
    {"-ln8 a.out", "-l | a.out | 4x8 2,2,2,2", 5, 1},
    {"--ntasks=6 a.out", " | a.out | 4x6 2,2,1,1", 5, 1},
    {"--ntasks 6 a.out", " | a.out | 4x6 2,2,1,1", 5, 1},
    {"--chd /tmp --exclusi a.out", "--chd /tmp | a.out | 4x4 1,1,1,1", 5, 1},
    {"-n 2 a.out", " | a.out | 2x2 1,1", 5, 1},
    {"-N 3 a.out", " | a.out | 3x3 1,1,1", 5, 1},
    {"-N 2-4 a.out", " | a.out | 4x4 1,1,1,1", 5, 1},
    {"--ntasks-per-node=2 a.out", " | a.out | 4x8 2,2,2,2", 5, 1},
    {"a.out", " | a.out | 4x8 2,2,2,2", 5, 1, 0, NULL, "2"},
    {"a.out", " | a.out | 4x8 2,2,2,2", 5, 1, 0, "10", NULL},
    {"-n 4 a.out", " | a.out | 4x4 1,1,1,1", 5, 1, 0, "10", "2"},
    {"--mpi=pmix -c 2 --mem 4g -- a.out -x",
     "--mpi=pmix -c 2 --mem 4g | a.out -x | 4x4 1,1,1,1", 5, 1},
    {"-o out.%t -e err a.out", "-o out.%t -e err | a.out | 4x4 1,1,1,1", 5, 1},
    {"-K1 -vv a.out", "-K1 -v -v | a.out | 4x4 1,1,1,1", 5, 1},
    {"--label --unknown=1 a.out", "--label --unknown=1 | a.out | 4x4 1,1,1,1", 5, 1},
    {"--overlap --exclusive -m block --no-kill a.out", " | a.out | 4x4 1,1,1,1", 5, 1},
    {"--dlrover=on --dlrover-spares 1 a.out", " | a.out | 4x4 1,1,1,1", 5, 1},
    {"a.out", " | a.out | 4x4 1,1,1,1", 4, 1, 4},
    {"a.out", " | a.out | 4x8 2,2,2,2", 4, 1, 4, "10", NULL, 8},
    {"-n 4 a.out", " | a.out | 4x4 1,1,1,1", 4, 1, 4, "10", NULL, 4},
    {"--version", "plain", 5, 1},
    {"-N 5 a.out",
     "srun --nodes=5 needs 5 nodes, but the allocation of 5 has 4 beside its 1 "
     "spare(s) "
     "(--dlrover-spares)",
     5, 1},
    {"-w n1 a.out",
     "srun --nodelist cannot be supervised: the round chooses the nodes; leave it out",
     5, 1},
    {"--pty bash",
     "srun --pty cannot be supervised: a terminal cannot be carried over to a new "
     "round; "
     "add --dlrover=off to this srun",
     5, 1},
    {"--gpus=8 a.out",
     "srun --gpus cannot be supervised: a total does not follow the number of nodes; "
     "say "
     "--gpus-per-node or --gpus-per-task",
     5, 1},
    {"-n x a.out", "srun --ntasks 'x' is not a number from 1 to 1048576", 5, 1},
    {"-n", "srun -n needs an argument", 5, 1},
    {"-%", "srun has no option -% (in '-%')", 5, 1},
    {"-n 4", "srun: no program to run was named", 5, 1},
    {"a.out",
     "--dlrover-spares=5 leaves no node to train on in an allocation of 5: ask for "
     "more "
     "nodes or fewer spares",
     5, 5},
    {"a.out",
     "7 tasks do not divide over 5 nodes, so it is not clear how many 4 nodes should "
     "run: "
     "say srun --ntasks=N",
     5, 1, 0, "7"},
    {"-N 3 -n 2 a.out", "2 task(s) cannot fill 3 nodes: say --nodes=2", 5, 1},
};

static int split(const char *line, char *copy, char **argv)
{
    int argc = 1;

    argv[0] = "srun";
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

static void show(const struct dlr_stepplan *plan, char *buf, size_t size)
{
    size_t n = 0;

    if (plan->plain) {
        snprintf(buf, size, "plain");
        return;
    }
    buf[0] = '\0';
    for (unsigned i = 0; i < plan->noptions; i++)
        n += snprintf(buf + n, size - n, "%s%s", i ? " " : "", plan->options[i]);
    n += snprintf(buf + n, size - n, " |");
    for (char **p = plan->program; *p; p++)
        n += snprintf(buf + n, size - n, " %s", *p);
    n += snprintf(buf + n, size - n, " | %ux%u ", plan->nplaces, plan->world);
    for (unsigned i = 0; i < plan->nplaces; i++)
        n += snprintf(buf + n, size - n, "%s%u", i ? "," : "", plan->tasks[i]);
}

static void every_line_is_planned_or_refused_as_the_table_says(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char copy[512], got[1024], *argv[32];
        struct dlr_stepplan_in in = {.nnodes = rows[i].nnodes,
                                     .spares = rows[i].spares,
                                     .nplaces = rows[i].nplaces,
                                     .ntasks = rows[i].ntasks,
                                     .per_node = rows[i].per_node,
                                     .world = rows[i].world,
                                     .argv = argv};
        struct dlr_stepplan plan;
        struct dlr_err err;

        in.argc = split(rows[i].line, copy, argv);
        if (dlr_stepplan_make(&in, &plan, &err) < 0) {
            snprintf(got, sizeof(got), "%s", err.text);
        } else {
            show(&plan, got, sizeof(got));
            dlr_stepplan_done(&plan);
        }
        if (strcmp(got, rows[i].plan))
            print_error("srun %s\n", rows[i].line);
        assert_string_equal(got, rows[i].plan);
    }
}

static void every_option_has_one_row_and_every_refusal_a_reason(void **state)
{
    for (const struct dlr_srun_option *o = dlr_srun_options; o->name; o++) {
        assert_ptr_equal(dlr_srun_find(o->name, strlen(o->name)), o);
        if (o->letter)
            assert_ptr_equal(dlr_srun_find_letter(o->letter), o);
        assert_int_equal(o->action == DLR_SRUN_REFUSE, o->why != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_planned_or_refused_as_the_table_says),
        cmocka_unit_test(every_option_has_one_row_and_every_refusal_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
