/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_journal_replace,dlr_user_line */
/* Which nodes a later srun of the job does without: what is written of them, and read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

#define NODES 3

static struct dlr_runinfo info = {.incarnation = 1};
static struct dlr_sup_nodes *nodes;
static bool given_up[NODES], barred[NODES];
static char told[64]; /* the numbers of those that were lost before */

void __wrap_dlr_journal_replace(struct dlr_journal *j, const char *path,
                                const char *text);
void __wrap_dlr_journal_replace(struct dlr_journal *j, const char *path,
                                const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}

static void on_lost_before(void *arg, unsigned node)
{
    size_t at = strlen(told);

    dlr_format(told + at, sizeof(told) - at, "%u ", node);
}
static bool is_given_up(void *arg, unsigned node)
{
    return given_up[node];
}
static bool is_barred(void *arg, unsigned node)
{
    return barred[node];
}

static int begin(void **state)
{
    static const struct dlr_sup_nodes_ops ops = {
        .lost_before = on_lost_before, .given_up = is_given_up, .barred = is_barred};
    char n0[] = "n0", n1[] = "n1", n2[] = "n2";
    char *names[NODES] = {n0, n1, n2};
    struct dlr_sup_io *io = dlr_sup_io_new(NULL, NULL);
    struct dlr_err err;

    dlr_format(info.job_dir, sizeof(info.job_dir), "/tmp/dlr-lost-XXXXXX");
    assert_non_null(mkdtemp(info.job_dir));
    nodes = dlr_sup_nodes_new(&(struct dlr_sup_nodes_env){.io = io, .info = &info},
                              &ops, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, NULL, &err), 0);
    for (unsigned i = 0; i < NODES; i++)
        given_up[i] = barred[i] = false;
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    char path[DLR_RUN_PATH + 16];

    snprintf(path, sizeof(path), "%s/.lost-1", info.job_dir);
    unlink(path);
    dlr_sup_io_free(nodes->env.io);
    dlr_sup_nodes_free(nodes);
    return rmdir(info.job_dir);
}

static void set(unsigned node, bool here, bool apart, bool known)
{
    struct dlr_member *m = &nodes->members.list[node];

    m->here = here;
    m->apart = apart;
    dlr_format(m->boot, sizeof(m->boot), known ? "b" : "");
}

static void nothing_is_written_where_none_was_lost(void **state)
{
    char path[DLR_RUN_PATH + 16];

    set(0, true, false, true);
    set(1, false, false, false); /* it may still come */
    set(2, false, false, true);
    barred[2] = true;
    dlr_sup_save_lost(nodes);
    snprintf(path, sizeof(path), "%s/.lost-1", info.job_dir);
    assert_int_equal(access(path, F_OK), -1);
}

/* One that is back stays apart in later sruns, and counts as there. */
static void lost_nodes_are_read_again(void **state)
{
    set(0, false, false, false);
    given_up[0] = true;
    set(1, true, true, true);
    set(2, false, false, true);
    dlr_sup_save_lost(nodes);
    set(0, false, false, false);
    set(1, false, false, false);
    dlr_sup_load_lost(nodes);
    assert_string_equal(told, "0 2 ");
    for (unsigned i = 0; i < NODES; i++)
        assert_true(nodes->members.list[i].apart);
}

/* Else a node that is well again would be left out for good. */
static void the_last_one_that_comes_back_is_written_too(void **state)
{
    set(0, true, false, true);
    set(1, true, false, true);
    set(2, false, false, true);
    dlr_sup_save_lost(nodes);
    set(2, true, false, true);
    dlr_sup_save_lost(nodes);
    dlr_sup_load_lost(nodes);
    assert_string_equal(told, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(nothing_is_written_where_none_was_lost),
        T(lost_nodes_are_read_again),
        T(the_last_one_that_comes_back_is_written_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
