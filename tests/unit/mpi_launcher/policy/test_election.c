/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/election.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"

#define VOTE_MS 1000

/* A few agents whose messages arrive at once, later or never. */
struct agent {
    const char *name;
    struct dlr_election *e;
    bool dead;   /* neither speaks nor hears */
    bool ctld;   /* reaches slurmctld */
    bool gone;   /* which calls the batch node down */
    bool missed; /* or does not hear it */
    unsigned won, deposed, asked_ctld;
    struct world *world;
};

struct world {
    struct agent all[6];
    unsigned n;
    bool cut[6][6]; /* [from][to]: nothing gets through */
    int64_t now;
};

static unsigned find(const struct world *w, const char *name)
{
    for (unsigned i = 0; i < w->n; i++)
        if (dlr_streq(w->all[i].name, name))
            return i;
    fail();
    return 0;
}

static bool passes(const struct world *w, unsigned from, unsigned to)
{
    return !w->all[from].dead && !w->all[to].dead && !w->cut[from][to];
}

/* As the agent does: "silent" counts as a vote, and is answered with one. */
static void ask(void *arg, const char *node)
{
    struct agent *me = arg;
    struct world *w = me->world;
    unsigned from = (unsigned)(me - w->all), to = find(w, node);

    if (!passes(w, from, to) || !w->all[to].e)
        return;
    dlr_election_vote(w->all[to].e, me->name, true, w->now);
    if (passes(w, to, from))
        dlr_election_vote(me->e, node, dlr_election_is_silent(w->all[to].e), w->now);
}

static void witness(void *arg)
{
    struct agent *me = arg;

    me->asked_ctld++;
}

static void win(void *arg)
{
    ((struct agent *)arg)->won++;
}

static void stand_down(void *arg)
{
    ((struct agent *)arg)->deposed++;
}

static const struct dlr_election_ops ops = {ask, witness, win, stand_down};

/* names: "n1 n2 n3"; the first is the batch node and has no election. */
static void build(struct world *w, const char *names)
{
    static char text[64];
    const char *list[6];
    char *rest = text;

    memset(w, 0, sizeof(*w));
    dlr_format(text, sizeof(text), "%s", names);
    for (char *name; (name = strsep(&rest, " "));) {
        list[w->n] = name;
        w->all[w->n] = (struct agent){.name = name, .ctld = true, .world = w};
        w->n++;
    }
    for (unsigned i = 1; i < w->n; i++)
        assert_int_equal(dlr_election_new(list[i], list[0], list, w->n, VOTE_MS, &ops,
                                          &w->all[i], &w->all[i].e, NULL),
                         0);
    w->all[0].dead = true;
}

static void demolish(struct world *w)
{
    for (unsigned i = 0; i < w->n; i++)
        dlr_election_free(w->all[i].e);
}

static void pass(struct world *w, int64_t ms)
{
    for (int64_t end = w->now + ms; w->now < end; w->now += VOTE_MS / 2) {
        for (unsigned i = 1; i < w->n; i++) {
            struct agent *a = &w->all[i];

            if (a->dead || !a->e)
                continue;
            if (a->asked_ctld > 0) {
                a->asked_ctld = 0;
                dlr_election_witness(a->e,
                                     !a->ctld    ? DLR_WITNESS_NONE
                                     : a->gone   ? DLR_WITNESS_GONE
                                     : a->missed ? DLR_WITNESS_MISSES
                                                 : DLR_WITNESS_ANSWERS,
                                     w->now);
            }
            dlr_election_tick(a->e, w->now);
        }
    }
}

static void all_silent(struct world *w)
{
    for (unsigned i = 1; i < w->n; i++)
        if (!w->all[i].dead)
            dlr_election_silent(w->all[i].e, true, w->now);
}

static void the_winner_is_the_lowest_of_a_majority(void **state)
{
    static const struct {
        const char *what, *names;
        const char *dead, *sees; /* space before each name */
        const char *no_ctld;
        const char *winner; /* "" nobody */
    } rows[] = {
        {"four live", "n1 n2 n3 n4 n5", "", "", "", "n2"},
        {"the lowest is dead too", "n1 n2 n3 n4 n5", " n2", "", "", "n3"},
        {"half of four is no majority", "n1 n2 n3 n4 n5", " n2 n3", "", "", ""},
        {"the lowest still hears", "n1 n2 n3 n4 n5", "", " n2", "", "n3"},
        {"two of four still hear", "n1 n2 n3 n4 n5", "", " n2 n3", "", ""},
        {"batch host in the middle of the names", "n3 n1 n2 n4 n5", "", "", "", "n1"},
        {"three: two of two", "n1 n2 n3", "", "", "", "n2"},
        {"three: one of two, slurmctld answers", "n1 n2 n3", " n2", "", "", "n3"},
        {"three: one of two, slurmctld does not", "n1 n2 n3", " n2", "", " n3", ""},
        {"two: slurmctld answers", "n1 n2", "", "", "", "n2"},
        {"two: slurmctld does not", "n1 n2", "", "", " n2", ""},
        {"four: one of three is none", "n1 n2 n3 n4", " n2 n3", "", "", ""},
        {"names are compared as text", "n1 n10 n2 n3", "", "", "", "n10"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct world w;

        print_message("row '%s'\n", rows[i].what);
        build(&w, rows[i].names);
        for (unsigned k = 1; k < w.n; k++) {
            char name[16];

            dlr_format(name, sizeof(name), " %s", w.all[k].name);
            w.all[k].dead = strstr(rows[i].dead, name);
            w.all[k].ctld = !strstr(rows[i].no_ctld, name);
            if (!w.all[k].dead && !strstr(rows[i].sees, name))
                dlr_election_silent(w.all[k].e, true, w.now);
        }
        pass(&w, 5 * VOTE_MS);
        for (unsigned k = 1; k < w.n; k++)
            assert_int_equal(w.all[k].won, dlr_streq(w.all[k].name, rows[i].winner));
        demolish(&w);
    }
}

/* n2 and n3 do not hear each other, n4 and n5 hear both: the lowest wins, the other
 * waits as long as somebody tells of it. Here nobody does, so the hold is what is
 * tested: with a cut between the two halves neither half of four has a majority.
 */
static void halves_that_cannot_meet_elect_nobody(void **state)
{
    struct world w;

    build(&w, "n1 n2 n3 n4 n5");
    for (unsigned i = 1; i <= 2; i++)
        for (unsigned k = 3; k <= 4; k++)
            w.cut[i][k] = w.cut[k][i] = true;
    all_silent(&w);
    pass(&w, 10 * VOTE_MS);
    for (unsigned i = 1; i < w.n; i++)
        assert_int_equal(w.all[i].won, 0);
    memset(w.cut, 0, sizeof(w.cut));
    pass(&w, 3 * VOTE_MS);
    assert_int_equal(w.all[1].won, 1);
    assert_int_equal(w.all[2].won + w.all[3].won + w.all[4].won, 0);
    demolish(&w);
}

/* One leaf switch takes the batch node and half of the others. */
static void a_minority_has_slurmctld_as_its_witness(void **state)
{
    static const struct {
        const char *what, *dead;
        bool ctld, gone, host;
        int64_t ms;
        const char *winner;
        bool missed;
    } rows[] = {
        {"half of four", " n2 n3", true, true, false, 3, "n4"},
        {"one of four", " n2 n3 n4", true, true, false, 3, "n5"},
        {"slurmctld hears the batch node", " n2 n3", true, false, false, 2000, ""},
        {"slurmctld misses a ping", " n2 n3", true, false, false, 120, "", true},
        {"and the next", " n2 n3", true, false, false, 140, "n4", true},
        {"slurmctld is away", " n2 n3", false, false, true, 2000, ""},
        {"a hung supervisor, not yet", " n2 n3", true, false, true, 800, ""},
        {"a hung supervisor, the last limit", " n2 n3", true, false, true, 1000, "n4"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct world w;

        print_message("row '%s'\n", rows[i].what);
        build(&w, "n1 n2 n3 n4 n5");
        for (unsigned k = 1; k < w.n; k++) {
            char name[16];

            dlr_format(name, sizeof(name), " %s", w.all[k].name);
            w.all[k].dead = strstr(rows[i].dead, name);
            w.all[k].ctld = rows[i].ctld;
            w.all[k].gone = rows[i].gone;
            w.all[k].missed = rows[i].missed;
            dlr_election_host(w.all[k].e, rows[i].host);
        }
        all_silent(&w);
        pass(&w, rows[i].ms * VOTE_MS);
        for (unsigned k = 1; k < w.n; k++)
            assert_int_equal(w.all[k].won, dlr_streq(w.all[k].name, rows[i].winner));
        demolish(&w);
    }
}

static void a_win_takes_a_whole_vote_time(void **state)
{
    struct world w;

    build(&w, "n1 n2 n3 n4");
    all_silent(&w);
    pass(&w, VOTE_MS);
    assert_int_equal(w.all[1].won, 0);
    pass(&w, VOTE_MS);
    assert_int_equal(w.all[1].won, 1);
    demolish(&w);
}

static void a_supervisor_that_is_back_ends_it(void **state)
{
    struct world w;

    build(&w, "n1 n2 n3 n4");
    all_silent(&w);
    pass(&w, 3 * VOTE_MS);
    assert_int_equal(w.all[1].won, 1);
    dlr_election_silent(w.all[1].e, false, w.now);
    assert_int_equal(w.all[1].deposed, 1);
    dlr_election_silent(w.all[1].e, false, w.now);
    assert_int_equal(w.all[1].deposed, 1);
    demolish(&w);
}

static void votes_age(void **state)
{
    struct world w;

    build(&w, "n1 n2 n3 n4");
    all_silent(&w);
    dlr_election_tick(w.all[1].e, w.now);
    w.all[2].dead = w.all[3].dead = true; /* both right after they have voted */
    assert_true(dlr_election_live(w.all[1].e, "n3", w.now));
    pass(&w, 5 * VOTE_MS);
    assert_false(dlr_election_live(w.all[1].e, "n3", w.now));
    assert_int_equal(w.all[1].won, 0);
    demolish(&w);
}

static void strangers_and_the_batch_node_have_no_vote(void **state)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4"};
    struct dlr_election *e = NULL;
    struct dlr_err err;
    struct world w;

    build(&w, "n1 n2 n3 n4");
    w.all[2].dead = w.all[3].dead = true;
    dlr_election_silent(w.all[1].e, true, 0);
    for (int64_t now = 0; now < 5 * VOTE_MS; now += VOTE_MS / 2) {
        dlr_election_vote(w.all[1].e, "n1", true, now);
        dlr_election_vote(w.all[1].e, "n9", true, now);
        dlr_election_vote(w.all[1].e, "n2", true, now);
        dlr_election_tick(w.all[1].e, now);
    }
    assert_int_equal(w.all[1].won, 0);
    demolish(&w);
    assert_int_equal(
        dlr_election_new("n1", "n1", names, 4, VOTE_MS, &ops, NULL, &e, &err), -ENOENT);
    assert_int_equal(
        dlr_election_new("n7", "n1", names, 4, VOTE_MS, &ops, NULL, &e, &err), -ENOENT);
    assert_string_equal(err.text, "'n7' is not among those who may vote");
}

/* --- many ------------------------------------------------------------------------- */

#define MANY 1024

static struct {
    struct dlr_election *e[MANY]; /* NULL: dead */
    unsigned connections, witnesses, winner, wins;
    bool connected[MANY][MANY];
    int64_t now;
} many;

static void ask_many(void *arg, const char *node)
{
    size_t i = (size_t)arg, k = strtoul(node + 1, NULL, 10);
    struct dlr_election *me = many.e[i], *to = many.e[k];
    char name[16];

    many.connections += !many.connected[i][k];
    many.connected[i][k] = true;
    snprintf(name, sizeof(name), "n%04u", (unsigned)i);
    if (!to)
        return;
    dlr_election_vote(to, name, true, many.now);
    dlr_election_vote(me, node, dlr_election_is_silent(to), many.now);
}
static void witness_of_many(void *arg)
{
    many.witnesses++;
}
static void win_of_many(void *arg)
{
    many.winner = (unsigned)(size_t)arg;
    many.wins++;
}
static const struct dlr_election_ops ops_of_many = {ask_many, witness_of_many,
                                                    win_of_many, stand_down};

static void begin_many(void)
{
    static char text[MANY][16];
    const char *list[MANY];

    memset(&many, 0, sizeof(many));
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof(text[i]), "n%04u", i);
        list[i] = text[i];
    }
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(dlr_election_new(list[i], "batch", list, MANY, VOTE_MS,
                                          &ops_of_many, (void *)i, &many.e[i], NULL),
                         0);
}

static void kill_many(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        many.e[i] = dlr_election_free(many.e[i]);
}

static void pass_many(int64_t ms)
{
    for (int64_t end = many.now + ms; many.now < end; many.now += VOTE_MS / 2)
        for (unsigned i = MANY; i-- > 0;) /* the last first: they know of nobody yet */
            if (many.e[i])
                dlr_election_tick(many.e[i], many.now);
}

/* A connection is made for each who is asked: all of each other would be a million. */
static void of_many_the_lowest_asks_all_and_the_others_few(void **state)
{
    static const struct {
        const char *what;
        unsigned dead;    /* of the lowest */
        unsigned each;    /* connections that each makes, at most */
        int64_t ms;       /* until one has won */
        unsigned winners; /* one that dies later, and the next */
    } rows[] = {
        {"all live", 0, 20, 3 * VOTE_MS, 1},
        {"a rack of the lowest is dead", 100, 140, 5 * VOTE_MS, 1},
        {"the winner dies, too", 10, 128, 4 * VOTE_MS, 2},
        {"no majority", MANY / 2 + 1, 600, 8 * VOTE_MS, 0},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].what);
        begin_many();
        kill_many(0, rows[i].dead);
        for (unsigned k = MANY; k-- > 0;)
            if (many.e[k])
                dlr_election_silent(many.e[k], true, 0);
        pass_many(rows[i].ms);
        assert_int_equal(many.wins, rows[i].winners > 0);
        assert_int_equal(many.winner, many.wins ? rows[i].dead : 0);
        if (rows[i].winners > 1) {
            kill_many(rows[i].dead, rows[i].dead + 1);
            pass_many(4 * VOTE_MS);
            assert_int_equal(many.wins, 2);
            assert_int_equal(many.winner, rows[i].dead + 1);
        }
        print_message("  %u connections, %u questions to slurmctld\n", many.connections,
                      many.witnesses);
        assert_true(many.connections < MANY * rows[i].each);
        assert_true(many.witnesses <= 4);
        kill_many(0, MANY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_winner_is_the_lowest_of_a_majority),
        cmocka_unit_test(halves_that_cannot_meet_elect_nobody),
        cmocka_unit_test(a_minority_has_slurmctld_as_its_witness),
        cmocka_unit_test(a_win_takes_a_whole_vote_time),
        cmocka_unit_test(a_supervisor_that_is_back_ends_it),
        cmocka_unit_test(votes_age),
        cmocka_unit_test(strangers_and_the_batch_node_have_no_vote),
        cmocka_unit_test(of_many_the_lowest_asks_all_and_the_others_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
