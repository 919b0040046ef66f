/* SPDX-License-Identifier: Apache-2.0 */
/* A committed version is written while steps go on: who is asked for a rank's file, and what becomes
 * of the version when one of them fails. Two ranks, each other's partners; node 2 is nobody's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/cadence.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/persist.h"
#include "mpi_launcher/sup_periodic.h"

#define WORLD 2
#define NODES 3

static struct dlr_sup s;
static unsigned copies;
static uint64_t step;
static struct {
    unsigned node, rank;
    uint64_t id;
} asked[16];
static unsigned nasked, saved, forgot, kept = 5;
static char why[256]; /* of the last persisted that has failed */

/* --- instead of the other files of the supervisor ---------------------------------------- */

int64_t dlr_sup_now(void)
{
    return 1000;
}
void dlr_sup_say(struct dlr_sup *sup, const char *fmt, ...)
{
}
void dlr_sup_send(struct dlr_sup *sup, unsigned node, json_t *msg)
{
    uint64_t rank;

    assert_true(nasked < sizeof(asked) / sizeof(*asked));
    assert_int_equal(dlr_msg_uint(msg, "rank", WORLD - 1, &rank), 0);
    assert_int_equal(dlr_msg_uint(msg, "id", INT64_MAX, &asked[nasked].id), 0);
    asked[nasked].rank = (unsigned)rank;
    asked[nasked++].node = node;
    json_decref(msg);
}
json_t *dlr_sup_version(const struct dlr_version *v)
{
    return json_null();
}
int dlr_sup_file_mkdirs(void *arg, int *fd)
{
    return 0;
}
int dlr_sup_file_do(struct dlr_sup *sup, dlr_aside_fn fn, const char *path,
                    const char *text)
{
    return 0;
}
unsigned dlr_sup_copies(const struct dlr_sup *sup)
{
    return copies;
}
int dlr_sup_place_of(const struct dlr_sup *sup, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup *sup, unsigned place)
{
    return (int)place;
}
int dlr_sup_holder_node(const struct dlr_sup *sup, unsigned place, unsigned holder)
{
    return (int)(holder ? 1 - place : place);
}
uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return 1;
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
bool dlr_policy_is_lost(const struct dlr_policy *p, unsigned node)
{
    return false;
}
double dlr_cadence_persist_s(const struct dlr_cadence_risk *risk, double *ret_mtbf_s)
{
    return 0;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    char object[512];
    va_list ap;
    json_t *fields;
    const char *text;

    snprintf(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    fields = json_vpack_ex(NULL, 0, object, ap);
    va_end(ap);
    assert_non_null(fields);
    assert_string_equal(event, "persisted");
    text = json_string_value(json_object_get(fields, "why"));
    snprintf(why, sizeof(why), "%s", text ? text : "");
    json_decref(fields);
}
int dlr_persist_path(const char *dir, int32_t rank, struct dlr_version v, char *ret,
                     size_t size)
{
    return dlr_format(ret, size, "/dev/null"); /* it is there */
}
int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     unsigned keep, struct dlr_err *err)
{
    saved++;
    return 0;
}
int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files,
                     unsigned *ret_nfiles, struct dlr_err *err)
{
    *ret_files = calloc(kept, sizeof(**ret_files));
    *ret_nfiles = kept;
    return 0;
}
void dlr_persist_forget(const char *dir, unsigned world, struct dlr_version v,
                        const atomic_bool *stop)
{
    forgot++;
}
/* It is done at once. */
struct dlr_aside {
    int rc, fd;
    max_align_t arg[];
};
struct dlr_aside *dlr_aside_new(size_t size)
{
    return calloc(1, sizeof(struct dlr_aside) + size);
}
void *dlr_aside_arg(struct dlr_aside *a)
{
    return a->arg;
}
struct dlr_aside *dlr_aside_free(struct dlr_aside *a)
{
    free(a);
    return NULL;
}
int dlr_aside_start(struct dlr_aside *a, struct dlr_apart *apart, dlr_aside_fn fn,
                    int fd)
{
    a->fd = fd;
    a->rc = fn(a->arg, &a->fd);
    return 0;
}
int dlr_aside_fd(const struct dlr_aside *a)
{
    return -1;
}
int dlr_aside_end(struct dlr_aside *a, int *ret_rc, int *ret_fd)
{
    *ret_rc = a->rc;
    *ret_fd = a->fd;
    return 0;
}

/* --- the rig ------------------------------------------------------------------------------ */

static int begin_all(void **state)
{
    s.conf.checkpoint = true;
    s.conf.persist_every.steps = 1;
    s.members.list = calloc(NODES, sizeof(*s.members.list));
    s.members.n = NODES;
    s.plan.world = s.plan.nplaces = WORLD;
    dlr_sup_periodic_start(&s);
    return 0;
}

static int end_all(void **state)
{
    free(s.members.list);
    free(s.files);
    return 0;
}

/* A version is committed: both ranks' own nodes are asked. */
static int begin(void **state)
{
    for (unsigned i = 0; i < NODES; i++) {
        dlr_format(s.members.list[i].node.name, DLR_TOPO_NAME, "n%u", i);
        s.members.list[i].here = true;
    }
    copies = 1;
    s.sets.rows = 0;
    nasked = saved = forgot = 0;
    why[0] = '\0';
    dlr_sup_periodic_commit(&s, (struct dlr_version){1, ++step});
    assert_int_equal(nasked, WORLD);
    assert_int_equal(asked[0].node, 0);
    assert_int_equal(asked[1].node, 1);
    return 0;
}

static void done(unsigned node, unsigned rank, int rc, const char *text)
{
    assert_true(dlr_sup_periodic_done(&s, node, asked[rank].id, rc, text));
}

/* The version came to its end; the next one may be written. */
static void assert_end(unsigned written, const char *because)
{
    dlr_sup_periodic_tick(&s);
    assert_string_equal(why, because);
    assert_int_equal(saved, written);
    assert_int_equal(forgot, !written);
    assert_int_equal(s.nfiles, written || s.nfiles ? kept : 0);
    assert_false(dlr_sup_periodic_done(&s, 0, asked[0].id, 0, ""));
}

/* --- tests -------------------------------------------------------------------------------- */

static void a_partner_writes_what_the_owner_cannot(void **state)
{
    done(0, 0, -EIO, "the data process died");
    assert_int_equal(nasked, WORLD + 1);
    assert_int_equal(asked[2].node, 1);
    assert_int_equal(asked[2].rank, 0);
    assert_int_equal(asked[2].id, asked[0].id); /* into the same file */
    assert_string_equal(why, "");
    done(1, 1, 0, "");
    assert_int_equal(saved + forgot, 0); /* rank 0's file is still missing */
    done(1, 0, 0, "");
    assert_end(1, "");
}

static void it_is_given_up_when_the_partner_fails_too(void **state)
{
    done(0, 0, -EIO, "bad disk");
    done(1, 1, 0, "");
    done(1, 0, -ENOENT, "not held here");
    assert_int_equal(nasked, WORLD + 1); /* nobody a third time */
    assert_end(0, "rank 0: bad disk; then on n1: not held here");
}

static void both_ranks_may_need_it(void **state)
{
    done(0, 0, -EIO, "a");
    done(1, 1, -EROFS, "b");
    assert_int_equal(nasked, WORLD + 2);
    assert_int_equal(asked[3].node, 0);
    done(0, 1, 0, "");
    done(1, 0, 0, "");
    assert_end(1, "");
}

static void an_answer_said_twice_counts_once(void **state)
{
    done(0, 0, -EIO, "a");
    done(0, 0, -EIO, "a");
    done(0, 0, 0, "");
    done(2, 0, 0, "");
    assert_int_equal(nasked, WORLD + 1);
    done(1, 1, 0, "");
    done(1, 1, 0, "");
    assert_int_equal(saved + forgot, 0);
    done(1, 0, 0, "");
    assert_end(1, "");
}

static void after_one_is_given_up_nobody_is_asked_for_it(void **state)
{
    done(0, 0, -ENOSPC, "full");
    done(1, 1, -EIO, "b");
    assert_int_equal(nasked, WORLD);
    assert_end(0, "rank 0: full");
}

static void nobody_is_asked_where_none_could_write_it(void **state)
{
    static const struct {
        const char *name;
        int rc;
        unsigned copies, rows;
        bool away;
    } rows[] = {{"full", -ENOSPC, 1, 0, false},
                {"over quota", -EDQUOT, 1, 0, false},
                {"no copies", -EIO, 0, 0, false},
                {"parity", -EIO, 1, 1, false},
                {"its partner is away", -EIO, 1, 0, true}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].name);
        if (i > 0)
            begin(state);
        copies = rows[i].copies;
        s.sets.rows = rows[i].rows;
        s.members.list[1].here = !rows[i].away;
        done(0, 0, rows[i].rc, "no");
        done(1, 1, 0, "");
        assert_int_equal(nasked, WORLD);
        assert_end(0, "rank 0: no");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_partner_writes_what_the_owner_cannot, begin),
        cmocka_unit_test_setup(it_is_given_up_when_the_partner_fails_too, begin),
        cmocka_unit_test_setup(both_ranks_may_need_it, begin),
        cmocka_unit_test_setup(an_answer_said_twice_counts_once, begin),
        cmocka_unit_test_setup(after_one_is_given_up_nobody_is_asked_for_it, begin),
        cmocka_unit_test_setup(nobody_is_asked_where_none_could_write_it, begin),
    };

    return cmocka_run_group_tests(tests, begin_all, end_all);
}
