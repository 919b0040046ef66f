/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=access,statfs stand-ins */
/* A committed version is written while steps go on: who is asked for a rank's file, and
 * what becomes of the version when one of them fails. Ranks 0 and 2 on a node, rank 1
 * on its partner; node 2 is nobody's. And when it is due where nobody has said how
 * often.
 */
#include <errno.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include <cmocka.h>

#include "ckpt/base/version.h"
#include "ckpt/manifest/manifest.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

#define WORLD 3
#define NODES 3
#define SLICE "4096 100 8192 0000abcd"

static struct dlr_plan plan;
static struct dlr_sup_planning planning;
static struct dlr_sup_copies *keepers; /* the engine of the copies */
static struct dlr_sup_disk *s;
static struct dlr_job_config conf;
static struct dlr_runinfo info;
static struct dlr_members table;
static unsigned nlost;
static unsigned copies;
static uint64_t step;
static struct {
    unsigned node, rank;
    uint64_t id;
    char path[32];
} asked[16];
static struct dlr_version older; /* that is kept */
static unsigned nasked, saved, forgot, kept = 5;
static int load_rc;
static const char *unread = ""; /* a manifest of former times */
static char named[64];          /* files in the manifest, in the order of ranks */
static char why[256];           /* of the last persisted that has failed */
static char from[64]; /* the bound, nodes, lost and covered of the last that has not */
static json_int_t every_s; /* of the last that has not */
static int64_t clock_ms = 1000;
static char said[512];
static unsigned nsaid;
static struct {
    int called, access; /* what asking for the directory comes to */
    unsigned looks;
    struct statfs fs;
} disk;

/* --- instead of the other files of the supervisor --------------------------------- */

int64_t dlr_sup_now(void)
{
    return clock_ms;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
    nsaid++;
}
const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}

void dlr_plan_done(struct dlr_plan *p)
{
}

static void note_asked(unsigned node, unsigned rank, uint64_t id, const json_t *msg)
{
    assert_true(nasked < sizeof(asked) / sizeof(*asked));
    asked[nasked].rank = rank;
    asked[nasked].id = id;
    dlr_format(asked[nasked].path, sizeof(asked[nasked].path), "%s",
               json_string_value(json_object_get(msg, "path")));
    asked[nasked++].node = node;
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    const json_t *with = json_object_get(msg, "with");
    uint64_t rank, id;

    assert_int_equal(dlr_msg_uint(msg, "rank", WORLD - 1, &rank), 0);
    assert_int_equal(dlr_msg_uint(msg, "id", INT64_MAX, &id), 0);
    note_asked(node, (unsigned)rank, id, msg);
    for (size_t i = 0; i < json_array_size(with); i++) {
        const json_t *pair = json_array_get(with, i);

        note_asked(node, (unsigned)json_integer_value(json_array_get(pair, 0)),
                   (uint64_t)json_integer_value(json_array_get(pair, 1)), msg);
    }
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
int dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                    const char *text)
{
    return 0;
}
unsigned dlr_sup_copies(const struct dlr_sup_copies *sup)
{
    return copies;
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return rank == 1;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
int dlr_sup_holder_node(const struct dlr_sup_copies *sup, unsigned place,
                        unsigned holder)
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
void dlr_sup_vetted_write(struct dlr_sup_versions *versions, struct dlr_version v)
{
    older = v;
}
double dlr_sup_losses_hours(const struct dlr_sup_nodes *nodes)
{
    return 100;
}
unsigned dlr_sup_losses_nodes(const struct dlr_sup_nodes *nodes)
{
    return nlost;
}
unsigned dlr_parity_sets_group(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned ret_ranks[DLR_PARITY_DATA_MAX])
{
    return 2;
}
struct dlr_sup_file *dlr_sup_file_new(const char *path, const char *text)
{
    struct dlr_sup_file *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    dlr_format(f->path, sizeof(f->path), "%s", path);
    return f;
}
void dlr_sup_file_done(struct dlr_sup_file **f)
{
    free(*f);
}
int dlr_sup_file_call(struct dlr_sup_io *io, dlr_offload_fn fn, struct dlr_sup_file **f)
{
    int none = -1;

    disk.looks++;
    return disk.called < 0 ? disk.called : fn(*f, &none);
}
int __wrap_access(const char *path, int mode);
int __wrap_statfs(const char *path, struct statfs *ret);
int __wrap_access(const char *path, int mode)
{
    assert_string_equal(path, "/s/persist");
    errno = disk.access;
    return disk.access ? -1 : 0;
}
int __wrap_statfs(const char *path, struct statfs *ret)
{
    *ret = disk.fs;
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
    every_s = json_integer_value(json_object_get(fields, "every_s"));
    text = json_string_value(json_object_get(fields, "bound"));
    snprintf(from, sizeof(from), "%s %lld %lld %lld", text ? text : "",
             json_integer_value(json_object_get(fields, "nodes")),
             json_integer_value(json_object_get(fields, "lost")),
             json_integer_value(json_object_get(fields, "covered")));
    json_decref(fields);
}
uint32_t dlr_persist_tag(void)
{
    return 7;
}
int dlr_persist_path(const char *dir, char kind, unsigned i,
                     const struct dlr_persist_write *write, char *ret, size_t size)
{
    assert_int_equal(write->tag, 7);
    return dlr_format(ret, size, "%c%u", kind, i);
}
int dlr_persist_count(const struct dlr_plan_file *files, unsigned n, unsigned *ret_n,
                      uint64_t *ret_bytes, struct dlr_err *err)
{
    assert_int_equal(n, WORLD);
    named[0] = '\0';
    for (unsigned r = 0; r < n; r++) {
        assert_int_equal(files[r].copy.rank, r);
        assert_int_equal(files[r].slice.at, 4096);
        assert_int_equal(files[r].copy.bytes, 8192);
        snprintf(named + strlen(named), sizeof(named) - strlen(named), "%s ",
                 files[r].path);
    }
    return 0;
}
int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     unsigned keep, struct dlr_err *err)
{
    saved++;
    return dlr_fail(err, 0, "%s", unread);
}
int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files,
                     unsigned *ret_nfiles, struct dlr_err *err)
{
    if (load_rc < 0)
        return load_rc;
    *ret_files = calloc(kept, sizeof(**ret_files));
    *ret_nfiles = kept;
    return 0;
}
void dlr_persist_forget(const char *dir, const struct dlr_persist_write *write,
                        const atomic_bool *stop)
{
    forgot++;
}
/* It is done at once. */
struct dlr_offload {
    int rc, fd;
    max_align_t arg[];
};
struct dlr_offload *dlr_offload_new(size_t size)
{
    return calloc(1, sizeof(struct dlr_offload) + size);
}
void *dlr_offload_arg(struct dlr_offload *a)
{
    return a->arg;
}
struct dlr_offload *dlr_offload_free(struct dlr_offload *a)
{
    free(a);
    return NULL;
}
int dlr_offload_start(struct dlr_offload *a, struct dlr_fork_server *apart,
                      dlr_offload_fn fn, int fd)
{
    a->fd = fd;
    a->rc = fn(a->arg, &a->fd);
    return 0;
}
int dlr_offload_fd(const struct dlr_offload *a)
{
    return -1;
}
int dlr_offload_end(struct dlr_offload *a, int *ret_rc, int *ret_fd)
{
    *ret_rc = a->rc;
    *ret_fd = a->fd;
    return 0;
}

/* --- the rig ---------------------------------------------------------------------- */

static struct dlr_plan_place places[] = {{.from = 0, .tasks = 2},
                                         {.from = 2, .tasks = 1}};
static unsigned ranks[] = {0, 2, 1};

static void new_disk(void)
{
    s = dlr_sup_disk_new(
        &(struct dlr_sup_disk_env){
            .copies = keepers, .conf = &conf, .info = &info, .plan = &plan},
        NULL, NULL);
    assert_non_null(s);
    dlr_sup_periodic_start(s);
}

static int begin_all(void **state)
{
    static const unsigned generation;
    static struct dlr_sup_nodes nodes;

    conf.checkpoint = true;
    conf.persist_every.steps = 1;
    keepers = dlr_sup_copies_new(
        &(struct dlr_sup_copies_env){
            .nodes = &nodes, .planning = &planning, .generation = &generation},
        NULL, NULL);
    assert_non_null(keepers);
    table.list = calloc(NODES, sizeof(*table.list));
    table.n = NODES;
    plan.world = WORLD;
    plan.nplaces = 2;
    plan.places = places;
    plan.ranks = ranks;
    new_disk();
    return 0;
}

static int end_all(void **state)
{
    free(table.list);
    dlr_sup_disk_free(s);
    keepers->slot_bytes = NULL;
    dlr_sup_copies_free(keepers);
    return 0;
}

static void answer(unsigned node, uint64_t id, int rc, const char *text)
{
    json_t *msg =
        json_pack("{s:I,s:i,s:s}", "id", (json_int_t)id, "rc", -rc, "why", text);

    dlr_sup_on_done(keepers, node, msg);
    json_decref(msg);
}

static void done(unsigned node, unsigned rank, int rc, const char *text)
{
    unsigned i = 0;

    while (asked[i].rank != rank)
        i++;
    answer(node, asked[i].id, rc, rc == 0 ? SLICE : text);
}

/* A version is committed: each node is asked for one file. */
static int begin_open(void **state)
{
    for (unsigned i = 0; i < NODES; i++) {
        dlr_format(table.list[i].node.name, DLR_TOPO_NAME, "n%u", i);
        table.list[i].here = true;
    }
    copies = 1;
    keepers->sets.rows = 0;
    nasked = saved = forgot = 0;
    load_rc = 0;
    why[0] = '\0';
    dlr_sup_periodic_commit(s, (struct dlr_version){1, ++step});
    assert_int_equal(nasked, WORLD);
    assert_int_equal(older.step, step); /* a node has one slot for both */
    assert_int_equal(asked[0].node, 0);
    assert_int_equal(asked[1].node, 0);
    assert_int_equal(asked[2].node, 1);
    return 0;
}

/* The same, and rank 2 is written. */
static int begin(void **state)
{
    begin_open(state);
    done(0, 2, 0, "");
    return 0;
}

/* The version came to its end; the next one may be written. */
static void assert_end(unsigned written, const char *because)
{
    dlr_sup_periodic_tick(s);
    assert_string_equal(why, because);
    assert_int_equal(saved, written);
    assert_int_equal(forgot, !written);
    assert_int_equal(s->nfiles, written || s->nfiles ? kept : 0);
    answer(0, asked[0].id, 0, SLICE); /* nobody waits for it */
    dlr_sup_periodic_tick(s);
    assert_int_equal(saved, written);
    assert_int_equal(forgot, !written);
}

/* --- tests ------------------------------------------------------------------------ */

static void a_partner_writes_what_the_owner_cannot(void **state)
{
    done(0, 0, -EIO, "the data process died");
    assert_int_equal(nasked, WORLD + 1);
    assert_int_equal(asked[3].node, 1);
    assert_int_equal(asked[3].rank, 0);
    assert_int_equal(asked[3].id, asked[0].id);
    assert_string_equal(asked[3].path, "p0");
    assert_string_equal(why, "");
    done(1, 1, 0, "");
    assert_int_equal(saved + forgot, 0); /* rank 0's file is still missing */
    done(1, 0, 0, "");
    assert_end(1, "");
    assert_string_equal(named, "p0 n1 n0 ");
    assert_string_equal(from, "user 2 0 1");
}

/* It is asked once the owner has answered for all of its ranks. */
static void a_partner_writes_one_file_in_a_nodes_place(void **state)
{
    done(0, 0, -EIO, "the data process died");
    assert_int_equal(nasked, WORLD);
    done(0, 2, -EIO, "the data process died");
    assert_int_equal(nasked, WORLD + 2);
    for (unsigned i = WORLD; i < nasked; i++) {
        assert_int_equal(asked[i].node, 1);
        assert_string_equal(asked[i].path, "p0");
    }
    assert_int_equal(asked[3].rank, 0);
    assert_int_equal(asked[4].rank, 2);
    done(1, 2, 0, "");
    assert_int_equal(nasked, WORLD + 2);
    done(1, 0, 0, "");
    done(1, 1, 0, "");
    assert_end(1, "");
    assert_string_equal(named, "p0 n1 p0 ");
}

static void what_is_too_much_for_the_partners_file_is_one_each(void **state)
{
    done(0, 0, -EIO, "a");
    done(0, 2, -EIO, "a");
    done(1, 0, -EFBIG, "a long header");
    done(1, 2, -EFBIG, "a long header");
    assert_int_equal(nasked, WORLD + 4);
    assert_int_equal(asked[5].node, 1);
    assert_string_equal(asked[5].path, "r0");
    assert_string_equal(asked[6].path, "r2");
    done(1, 0, 0, "");
    done(1, 1, 0, "");
    done(1, 2, 0, "");
    assert_end(1, "");
    assert_string_equal(named, "r0 n1 r2 ");
}

/* The partner left between the first answer and the last, or another node has given the
 * version up.
 */
static void nobody_is_asked_when_it_is_too_late(void **state)
{
    static const bool away[] = {true, false};

    for (unsigned i = 0; i < 2; i++) {
        if (i > 0)
            begin_open(state);
        done(0, 0, -EIO, "a");
        table.list[1].here = !away[i];
        done(1, 1, away[i] ? 0 : -ENOSPC, "full");
        done(0, 2, 0, "");
        assert_int_equal(nasked, WORLD);
        assert_end(0, away[i] ? "rank 0: a" : "rank 1: full");
    }
}

static void a_node_writes_one_file(void **state)
{
    static const struct {
        unsigned rank;
        const char *path;
    } rows[WORLD] = {{0, "n0"}, {2, "n0"}, {1, "n1"}};

    for (unsigned i = 0; i < WORLD; i++) {
        assert_int_equal(asked[i].rank, rows[i].rank);
        assert_string_equal(asked[i].path, rows[i].path);
        assert_int_equal(saved + forgot, 0);
        done(asked[i].node, asked[i].rank, 0, "");
    }
    assert_int_equal(nasked, WORLD);
    assert_end(1, "");
    assert_string_equal(named, "n0 n1 n0 ");
}

static void a_manifest_that_cannot_be_read_is_said_once(void **state)
{
    unread = "'m' is malformed";
    said[0] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        if (i > 0)
            begin_open(state);
        done(0, 0, 0, "");
        done(0, 2, 0, "");
        done(1, 1, 0, "");
        assert_end(1, "");
        assert_string_equal(
            said,
            i ? "" : "'m' is malformed: it stays, and so do the files of its version");
        said[0] = '\0';
    }
    unread = "";
}

/* What it had before is likelier to be there than nothing. */
static void an_unreadable_directory_is_known_as_it_was(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        if (i > 0)
            begin_open(state);
        load_rc = i > 0 ? -EIO : 0;
        done(0, 0, 0, "");
        done(0, 2, 0, "");
        done(1, 1, 0, "");
        assert_end(1, "");
        assert_int_equal(s->nfiles, kept);
    }
}

/* A header of so many regions would be longer than readers take. */
static void what_is_too_much_for_one_file_is_one_each(void **state)
{
    done(0, 0, -EFBIG, "a long header");
    done(0, 2, -EFBIG, "a long header");
    done(1, 1, 0, "");
    assert_int_equal(nasked, WORLD + 2);
    assert_int_equal(asked[3].node, 0);
    assert_string_equal(asked[3].path, "r0");
    assert_int_equal(asked[4].node, 0);
    assert_string_equal(asked[4].path, "r2");
    done(0, 0, 0, "");
    done(0, 2, -EFBIG, "still"); /* its partner tries, then it is over */
    assert_int_equal(asked[5].node, 1);
    done(1, 2, -EFBIG, "still");
    assert_end(0, "rank 2: still; then on n1: still");
}

static void an_answer_that_does_not_say_where_is_a_failure(void **state)
{
    copies = 0;
    answer(0, asked[0].id, 0, "4096 100");
    done(1, 1, 0, "");
    done(0, 2, 0, "");
    assert_end(0, "rank 0: what the node says of the file is malformed");
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
    assert_int_equal(asked[4].node, 0);
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
        keepers->sets.rows = rows[i].rows;
        table.list[1].here = !rows[i].away;
        done(0, 0, rows[i].rc, "no");
        done(1, 1, 0, "");
        assert_int_equal(nasked, WORLD);
        assert_end(0, "rank 0: no");
    }
}

/* --- nobody has said how often ---------------------------------------------------- */

/* A supervisor of its own, with the settings of a job that was given none. */
static int begin_default(void **state)
{
    static uint64_t slot_bytes[WORLD] = {1000, 1000, 1000};

    dlr_sup_disk_free(s);
    dlr_job_config_init(&conf);
    dlr_format(info.dir, sizeof(info.dir), "/s");
    keepers->slot_bytes = slot_bytes;
    clock_ms = 1000;
    nlost = 3;
    memset(&disk, 0, sizeof(disk));
    disk.fs.f_bsize = 1;
    disk.fs.f_bavail = 9000; /* 3 ranks in two versions and a third */
    nasked = saved = forgot = nsaid = 0;
    why[0] = said[0] = '\0';
    new_disk();
    assert_non_null(s->periodic);
    return 0;
}

static void commit_at(int64_t at_ms)
{
    clock_ms = at_ms;
    nasked = saved = forgot = 0;
    dlr_sup_periodic_commit(s, (struct dlr_version){1, ++step});
}

static void all_done(int rc, const char *text)
{
    for (unsigned i = 0, n = nasked; i < n; i++)
        done(asked[i].node, asked[i].rank, rc, text);
    dlr_sup_periodic_tick(s);
}

static void without_a_word_what_is_worth_it_is_written(void **state)
{
    commit_at(60999); /* a run that is short sees nothing */
    assert_int_equal(nasked + disk.looks, 0);
    commit_at(61000);
    assert_int_equal(nasked, WORLD);
    commit_at(130000); /* the first is not done */
    assert_int_equal(nasked + nsaid, 0);
    nasked = WORLD;
    all_done(0, "");
    assert_int_equal(saved, 1);
    assert_string_equal(from, "most 2 3 1");
    assert_int_equal(every_s, 86400);
    commit_at(61000 + 1000 * every_s - 1);
    assert_int_equal(nasked, 0);
    commit_at(61000 + 1000 * every_s + 1000);
    assert_int_equal(nasked, WORLD);
    assert_int_equal(disk.looks, 1);
    all_done(0, "");
    assert_int_equal(nsaid, 0);
}

static void a_directory_that_is_no_place_is_one_line(void **state)
{
    static const struct {
        const char *name, *why;
        int called, access;
        long type;
        unsigned long room;
    } rows[] = {
        {"memory", "'/s/persist' is memory, not a disk", 0, 0, TMPFS_MAGIC, 9000},
        {"full", "'/s/persist' has not the 9e-06 GB free that 3 versions take", 0, 0, 0,
         8999},
        {"not ours", "cannot write into '/s/persist': Permission denied", 0, EACCES, 0,
         9000},
        {"not there", "cannot write into '/s/persist': No such file or directory",
         -ENOENT, 0, 0, 9000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row '%s'\n", rows[i].name);
        begin_default(state);
        disk.called = rows[i].called;
        disk.access = rows[i].access;
        disk.fs.f_type = rows[i].type;
        disk.fs.f_bavail = rows[i].room;
        commit_at(61000);
        assert_string_equal(why, rows[i].why);
        assert_non_null(strstr(said, rows[i].why));
        commit_at(1000000000);
        assert_int_equal(nasked, 0);
        assert_int_equal(nsaid, 1);
    }
}

static void a_directory_that_hangs_is_asked_for_again(void **state)
{
    disk.called = -ETIMEDOUT;
    commit_at(61000);
    commit_at(62000); /* not with each commit */
    assert_int_equal(disk.looks, 1);
    disk.called = 0;
    commit_at(121000);
    assert_int_equal(nasked, WORLD);
    assert_int_equal(nsaid, 0);
    all_done(0, "");
}

/* It is there, and other nodes do not see it. */
static void what_fails_twice_before_it_was_ever_written_is_one_line(void **state)
{
    copies = 0;
    commit_at(61000);
    all_done(-ENOENT, "not here");
    assert_string_equal(why, "rank 0: not here");
    assert_int_equal(nsaid, 0);
    commit_at(121000);
    all_done(-ENOENT, "not here");
    assert_int_equal(nsaid, 1);
    assert_non_null(strstr(said, "auto): rank 0: not here; it takes"));
    commit_at(1000000000);
    assert_int_equal(nasked, 0);
    assert_int_equal(nsaid, 1);
}

static void who_has_no_slot_for_it_is_told_when_it_matters(void **state)
{
    json_t *msg = json_pack("{s:b}", "tight", 1);

    dlr_sup_periodic_ready(s, 2, msg);
    json_decref(msg);
    assert_int_equal(nsaid, 0);
    commit_at(61000);
    assert_int_equal(nsaid, 1);
    assert_non_null(strstr(said, "auto): n2 has no memory for one more slot"));
    all_done(0, "");
    commit_at(1000000000);
    assert_int_equal(nasked, WORLD);
    assert_int_equal(nsaid, 1);
    all_done(0, "");
}

static void what_could_not_be_written_is_due_again_soon_and_once(void **state)
{
    int64_t at_ms, every_ms;

    copies = 0;
    commit_at(61000);
    all_done(0, "");
    every_ms = 1000 * every_s;
    at_ms = 62000 + every_ms;
    commit_at(at_ms);
    all_done(-EIO, "bad");
    commit_at(at_ms + 59000);
    assert_int_equal(nasked, 0);
    commit_at(at_ms + 60000);
    assert_int_equal(nasked, WORLD);
    all_done(-EIO, "bad");
    commit_at(at_ms + every_ms);
    assert_int_equal(nasked, 0);
    commit_at(at_ms + 61000 + every_ms);
    assert_int_equal(nasked, WORLD);
    all_done(0, "");
}

/* Nobody answers for an agent that has died. */
static void what_is_cut_is_due_again(void **state)
{
    commit_at(61000);
    dlr_sup_periodic_cut(s, "the agent of n2 died");
    assert_string_equal(why, "the agent of n2 died");
    assert_false(dlr_sup_periodic_writes(s));
    all_done(0, "");
    assert_int_equal(nsaid, 0);
    commit_at(121000);
    assert_int_equal(nasked, WORLD);
    all_done(0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_partner_writes_what_the_owner_cannot, begin),
        cmocka_unit_test_setup(a_partner_writes_one_file_in_a_nodes_place, begin_open),
        cmocka_unit_test_setup(what_is_too_much_for_the_partners_file_is_one_each,
                               begin_open),
        cmocka_unit_test_setup(nobody_is_asked_when_it_is_too_late, begin_open),
        cmocka_unit_test_setup(a_node_writes_one_file, begin_open),
        cmocka_unit_test_setup(a_manifest_that_cannot_be_read_is_said_once, begin_open),
        cmocka_unit_test_setup(an_unreadable_directory_is_known_as_it_was, begin_open),
        cmocka_unit_test_setup(what_is_too_much_for_one_file_is_one_each, begin_open),
        cmocka_unit_test_setup(an_answer_that_does_not_say_where_is_a_failure,
                               begin_open),
        cmocka_unit_test_setup(it_is_given_up_when_the_partner_fails_too, begin),
        cmocka_unit_test_setup(both_ranks_may_need_it, begin),
        cmocka_unit_test_setup(an_answer_said_twice_counts_once, begin),
        cmocka_unit_test_setup(after_one_is_given_up_nobody_is_asked_for_it, begin),
        cmocka_unit_test_setup(nobody_is_asked_where_none_could_write_it, begin),
        cmocka_unit_test_setup(without_a_word_what_is_worth_it_is_written,
                               begin_default),
        cmocka_unit_test_setup(a_directory_that_is_no_place_is_one_line, begin_default),
        cmocka_unit_test_setup(a_directory_that_hangs_is_asked_for_again,
                               begin_default),
        cmocka_unit_test_setup(what_fails_twice_before_it_was_ever_written_is_one_line,
                               begin_default),
        cmocka_unit_test_setup(who_has_no_slot_for_it_is_told_when_it_matters,
                               begin_default),
        cmocka_unit_test_setup(what_could_not_be_written_is_due_again_soon_and_once,
                               begin_default),
        cmocka_unit_test_setup(what_is_cut_is_due_again, begin_default),
    };

    return cmocka_run_group_tests(tests, begin_all, end_all);
}
