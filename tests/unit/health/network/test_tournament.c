/* SPDX-License-Identifier: Apache-2.0 */
/* The tournament against a network that is made up: every single fault and every pair of
 * faults among 2 to 9 nodes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/network/tournament.h"

#define MAX 9
#define MOST_ROUNDS 7 /* log2(9) + 3 */

enum level { FINE, SLOW, BAD, DEAD };

/* Of node a (b == a) or of the link between a and b. */
struct fault {
    unsigned a, b;
    enum level level;
};

/* How a fault shows itself. */
struct network {
    const char *name;
    bool latency,
        out;    /* of bandwidth: only what a node sends, or a link's way from a */
    bool wrong; /* bad is: wrong bytes */
    unsigned rails;
    int only_rail;  /* -1: on all */
    unsigned least; /* nodes */
    unsigned leaf;  /* nodes under a switch; between two a quarter of the bandwidth */
    float noise;    /* beyond 5 % */
};

static const struct network networks[] = {
    {"bandwidth", false, false, false, 1, -1, 2},
    {"latency", true, false, false, 1, -1, 2},
    /* of three nodes, what two send may as well be what the third does not get */
    {"bandwidth out", false, true, false, 1, -1, 4},
    {"wrong bytes", false, false, true, 1, -1, 2},
    {"two rails, both", false, false, false, 2, -1, 2},
    {"two rails, the second", false, false, false, 2, 1, 2},
};

/* 5 % either way, the same for a seed, and the network's own noise on one side.
 * The mixer is that of MurmurHash3.
 */
static float noisy(float x, float more, uint32_t *seed)
{
    uint32_t z = *seed += 0x9e3779b9u;

    z = (z ^ z >> 16) * 0x85ebca6bu;
    z = (z ^ z >> 13) * 0xc2b2ae35u;
    z ^= z >> 16;
    return x * (0.95f + (0.1f + more) * (float)(z >> 8) / (float)(1u << 24));
}

static enum level level_of(const struct fault *f, unsigned nf, unsigned a, unsigned b,
                           bool out)
{
    enum level worst = FINE;

    for (unsigned i = 0; i < nf; i++) {
        bool node = f[i].a == f[i].b;
        bool hit =
            node ? f[i].a == a || (!out && f[i].a == b)
                 : (f[i].a == a && f[i].b == b) || (!out && f[i].a == b && f[i].b == a);

        if (hit && f[i].level > worst)
            worst = f[i].level;
    }
    return worst;
}

/* What comes to node `to` from `from`. */
static struct dlr_net_seen see(const struct network *net, const struct fault *f,
                               unsigned nf, unsigned from, unsigned to, unsigned rail,
                               uint32_t *seed)
{
    static const float mbps[] = {1000, 400, 5}, us[] = {300, 1500, 20000};
    enum level level = FINE;
    struct dlr_net_seen s;

    if (net->only_rail < 0 || net->only_rail == (int)rail)
        level = level_of(f, nf, from, to, net->out);
    if (level == DEAD)
        return (struct dlr_net_seen){0};
    s.latency_us = noisy(us[net->latency ? level : FINE], net->noise, seed);
    s.mbps = noisy(mbps[net->latency || (net->wrong && level == BAD) ? FINE : level], 0,
                   seed);
    if (net->leaf && from / net->leaf != to / net->leaf)
        s.mbps /= 4;
    s.wrong = net->wrong && level == BAD;
    return s;
}

static struct dlr_tournament *play(const struct network *net, unsigned n,
                                   const struct fault *f, unsigned nf, uint32_t seed)
{
    DLR_AUTO_FREE struct dlr_net_seen *seen =
        calloc((size_t)n * net->rails, sizeof(*seen));
    DLR_AUTO_FREE unsigned *partner = calloc(n, sizeof(*partner));
    DLR_AUTO_FREE uint64_t *leaf = calloc(n, sizeof(*leaf));
    struct dlr_tournament *t = NULL;

    assert_true(seen && partner && leaf);
    for (unsigned i = 0; i < n && net->leaf; i++)
        leaf[i] = 77 + i / net->leaf;
    assert_int_equal(dlr_tournament_new(n, net->rails, leaf, &t), 0);
    while (dlr_tournament_next(t, partner)) {
        memset(seen, 0, (size_t)n * net->rails * sizeof(*seen));
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(partner[partner[i]], i);
            for (unsigned r = 0; r < net->rails && partner[i] != i; r++)
                seen[i * net->rails + r] = see(net, f, nf, partner[i], i, r, &seed);
        }
        dlr_tournament_record(t, partner, seen);
    }
    return t;
}

static void add(char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *buf, size_t size, const char *fmt, ...)
{
    size_t used = strlen(buf);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(buf + used, size - used, fmt, ap);
    va_end(ap);
}

/* "bad 0, slow 1-2, ": nodes, then links, the lower number first. */
static void findings(const struct dlr_tournament *t, char *buf, size_t size)
{
    static const char *const grades[] = {"good", "slow", "bad", "unknown"};
    DLR_AUTO_FREE struct dlr_net_finding *f = NULL;
    int n = dlr_tournament_judge(t, &f);

    assert_true(n >= 0);
    buf[0] = '\0';
    for (int i = 0; i < n; i++) {
        unsigned lo = f[i].a < f[i].b ? f[i].a : f[i].b,
                 hi = f[i].a < f[i].b ? f[i].b : f[i].a;

        add(buf, size, "%s %u", grades[f[i].grade], lo);
        if (f[i].kind == DLR_NET_LINK)
            add(buf, size, "-%u", hi);
        if (f[i].rail >= 0)
            add(buf, size, "/%d", f[i].rail);
        add(buf, size, ", ");
    }
}

/* --- which faults anybody could tell apart ---------------------------------------- */

/* The level of each ordered pair; where all are slow, slow is what is usual. */
static void signature(const struct network *net, unsigned n, const struct fault *f,
                      unsigned nf, char *sig)
{
    enum level least = DEAD;
    unsigned k = 0;

    for (unsigned a = 0; a < n; a++)
        for (unsigned b = 0; b < n; b++) {
            enum level l = a == b ? DEAD : level_of(f, nf, a, b, net->out);

            sig[k++] = (char)l;
            least = l < least ? l : least;
        }
    for (unsigned i = 0; i < k; i++)
        if (least == SLOW && sig[i] == SLOW)
            sig[i] = FINE;
}

static unsigned all_faults(const struct network *net, unsigned n, struct fault *ret)
{
    unsigned k = 0;

    for (unsigned a = 0; a < n; a++)
        for (unsigned b = net->out ? 0 : a; b < n; b++)
            for (enum level l = SLOW; l <= BAD; l++)
                ret[k++] = (struct fault){a, b, l};
    return k;
}

struct fault_set {
    struct fault f[2];
    unsigned n;
    uint64_t looks; /* of its signature */
};

/* Every set of no fault, one and two, in this order. */
struct catalogue {
    struct fault_set *sets;
    unsigned n;
};

static void list_set(const struct network *net, unsigned n, struct fault_set s,
                     struct catalogue *c)
{
    char sig[MAX * MAX];

    signature(net, n, s.f, s.n, sig);
    s.looks = 14695981039346656037ull; /* FNV-1a */
    for (unsigned i = 0; i < n * n; i++)
        s.looks = (s.looks ^ (uint64_t)sig[i]) * 1099511628211ull;
    c->sets[c->n++] = s;
}

static struct catalogue list_sets(const struct network *net, unsigned n)
{
    struct fault all[2 * MAX * MAX];
    unsigned nall = all_faults(net, n, all);
    struct catalogue c = {calloc((size_t)nall * nall + 1, sizeof(struct fault_set)), 0};

    assert_non_null(c.sets);
    list_set(net, n, (struct fault_set){0}, &c);
    for (unsigned i = 0; i < nall; i++)
        list_set(net, n, (struct fault_set){{all[i]}, 1, 0}, &c);
    for (unsigned i = 0; i < nall; i++)
        for (unsigned j = i + 1; j < nall; j++)
            if (all[i].a != all[j].a || all[i].b != all[j].b)
                list_set(net, n, (struct fault_set){{all[i], all[j]}, 2, 0}, &c);
    return c;
}

/* The sets of the fewest faults that look like s: how many, and the first. */
static unsigned explanations(const struct catalogue *c, const struct fault_set *s,
                             const struct fault_set **ret)
{
    unsigned found = 0;

    for (unsigned i = 0; i < c->n; i++) {
        if (found && c->sets[i].n > (*ret)->n)
            break;
        if (c->sets[i].looks == s->looks && !found++)
            *ret = &c->sets[i];
    }
    return found;
}

static bool have_met(const struct dlr_tournament *t, const struct fault *f)
{
    for (unsigned i = 0; i < dlr_tournament_pairs(t); i++) {
        struct dlr_net_pair p = dlr_tournament_pair(t, i);

        if ((p.a == f->a && p.b == f->b) || (p.a == f->b && p.b == f->a))
            return true;
    }
    return false;
}

/* The two ways of a link are told as one, the worse. */
static bool is_told_by_other(const struct fault_set *s, unsigned i)
{
    const struct fault *f = &s->f[i], *o = &s->f[1 - i];

    return s->n == 2 && f->a != f->b && f->a == o->b && f->b == o->a &&
           (o->level > f->level || (o->level == f->level && i));
}

/* Nobody knows a link whose nodes have not met. */
static void expected(const struct network *net, const struct dlr_tournament *t,
                     const struct fault_set *s, char *buf, size_t size)
{
    static const char *const grades[] = {"good", "slow", "bad"};

    buf[0] = '\0';
    for (unsigned links = 0; links < 2; links++)
        for (unsigned i = 0; i < s->n; i++) {
            const struct fault *f = &s->f[i];
            unsigned lo = f->a < f->b ? f->a : f->b, hi = f->a < f->b ? f->b : f->a;

            if ((f->a != f->b) != links || (links && !have_met(t, f)) ||
                is_told_by_other(s, i))
                continue;
            add(buf, size, "%s %u", grades[f->level], lo);
            if (links)
                add(buf, size, "-%u", hi);
            if (net->only_rail >= 0)
                add(buf, size, "/%d", net->only_rail);
            add(buf, size, ", ");
        }
}

/* The same words, in any order. */
static bool same_words(const char *a, const char *b)
{
    char word[32];
    const char *p = a;

    if (strlen(a) != strlen(b))
        return false;
    while (*p) {
        size_t n = strcspn(p, ",") + 2;

        dlr_format(word, sizeof(word), "%.*s", (int)n, p);
        if (!strstr(b, word))
            return false;
        p += n;
    }
    return true;
}

struct tally {
    unsigned told, open;
};

/* Of several explanations one is told, or nothing of a node. */
static void check_open(const struct network *net, const struct dlr_tournament *t,
                       const struct catalogue *c, const struct fault_set *s,
                       const char *got)
{
    char want[256];

    for (unsigned i = 0; i < c->n; i++) {
        expected(net, t, &c->sets[i], want, sizeof(want));
        if (c->sets[i].looks == s->looks && same_words(want, got))
            return;
    }
    for (const char *p = got; *p; p += strcspn(p, ",") + 2)
        if (memchr(p, '-', strcspn(p, ",")) == NULL)
            fail_msg("%s: a node is named, and none can be: '%s'", net->name, got);
}

static void check_set(const struct network *net, unsigned n, const struct catalogue *c,
                      const struct fault_set *s, struct tally *tally)
{
    char got[2048], want[256], planted[256];
    const struct fault_set *best = NULL;
    unsigned ways = explanations(c, s, &best);
    struct dlr_tournament *t = play(net, n, s->f, s->n, n * 7919u + s->f[0].a);

    assert_true(dlr_tournament_rounds(t) <= MOST_ROUNDS);
    findings(t, got, sizeof(got));
    expected(net, t, s, planted, sizeof(planted));
    expected(net, t, best, want, sizeof(want));
    if (ways > 1)
        check_open(net, t, c, s, got);
    else if (!same_words(want, got))
        fail_msg("%s, %u nodes, planted %s: '%s' and not '%s'", net->name, n, planted,
                 got, want);
    tally->told += ways == 1;
    tally->open += ways > 1;
    dlr_tournament_free(t);
}

static void every_single_and_pair_of_faults_is_told(void **state)
{
    for (size_t w = 0; w < sizeof(networks) / sizeof(networks[0]); w++) {
        struct tally tally = {0};

        for (unsigned n = networks[w].least; n <= MAX; n++) {
            struct catalogue c = list_sets(&networks[w], n);

            for (unsigned i = 0; i < c.n; i++)
                check_set(&networks[w], n, &c, &c.sets[i], &tally);
            free(c.sets);
        }
        print_message("%s: %u sets of faults told, %u that nobody can tell apart\n",
                      networks[w].name, tally.told, tally.open);
        assert_true(tally.told > 30 * tally.open);
    }
}

/* --- larger ones, and no data ----------------------------------------------------- */

#define FAULTS_MAX 6

static const struct network plain = {"", false, false, false, 1, -1, 2, 0};
static const struct network leaves = {"", false, false, false, 1, -1, 2, 8};
static const struct network two_leaves = {"", false, false, false, 1, -1, 2, 48};
static const struct network noise = {"", false, false, false, 1, -1, 2, 0, 1.5f};
static const struct network pair_of_rails = {"", false, false, false, 2, 1, 2, 0};

static const struct {
    const char *name;
    const struct network *net;
    unsigned n;
    struct fault f[FAULTS_MAX];
    unsigned nf;
    const char *want;
} cases[] = {
    {"a silent node is unknown, not bad", &plain, 8, {{3, 3, DEAD}}, 1, "unknown 3, "},
    {"a silent link is unknown", &plain, 4, {{1, 2, DEAD}}, 1, "unknown 1-2, "},
    {"two silent nodes",
     &plain,
     5,
     {{0, 0, DEAD}, {1, 1, DEAD}},
     2,
     "unknown 0, unknown 1, "},
    {"of two nodes a silent link", &plain, 2, {{0, 1, DEAD}}, 1, "unknown 0-1, "},
    {"nobody hears anybody",
     &plain,
     3,
     {{0, 0, DEAD}, {1, 1, DEAD}},
     2,
     "unknown 1-2, unknown 0-2, unknown 0-1, "},
    {"a silent node and a bad one",
     &plain,
     9,
     {{2, 2, DEAD}, {7, 7, BAD}},
     2,
     "unknown 2, bad 7, "},
    {"a rail that is silent", &pair_of_rails, 6, {{4, 4, DEAD}}, 1, "unknown 4/1, "},
    {"a third of the nodes",
     &plain,
     16,
     {{0, 0, BAD}, {1, 1, SLOW}, {5, 5, BAD}, {9, 9, BAD}, {14, 14, SLOW}},
     5,
     "bad 0, slow 1, bad 5, bad 9, slow 14, "},
    {"all is well among 1000", &plain, 1000, {{0}}, 0, ""},
    {"two of 1000, and a link",
     &plain,
     1000,
     {{17, 17, BAD}, {999, 999, SLOW}},
     2,
     "bad 17, slow 999, "},
    {"links between leaves are slower", &leaves, 64, {{0}}, 0, ""},
    {"half of the links are slower", &two_leaves, 64, {{0}}, 0, ""},
    {"so they are, and a link is slow",
     &two_leaves,
     64,
     {{40, 40, SLOW}},
     1,
     "slow 40, "},
    {"latency is anything up to two and a half times the least",
     &noise,
     64,
     {{0}},
     0,
     ""},
    {"a bad node behind one of them", &leaves, 64, {{63, 63, BAD}}, 1, "bad 63, "},
};

static void what_is_told_of_larger_networks(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t seed = 1; seed <= 20; seed++) {
            struct dlr_tournament *t =
                play(cases[i].net, cases[i].n, cases[i].f, cases[i].nf, seed << 20);
            char got[4096];

            findings(t, got, sizeof(got));
            dlr_tournament_free(t);
            if (!dlr_streq(got, cases[i].want))
                fail_msg("%s: '%s'", cases[i].name, got);
        }
}

static void a_good_network_takes_the_logarithm_of_its_nodes(void **state)
{
    static const unsigned sizes[][2] = {{2, 1},   {3, 3},   {4, 3},    {5, 4},
                                        {8, 3},   {9, 4},   {16, 4},   {17, 5},
                                        {100, 7}, {512, 9}, {4096, 12}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct dlr_tournament *t = play(&plain, sizes[i][0], NULL, 0, 5);

        assert_int_equal(dlr_tournament_rounds(t), sizes[i][1]);
        for (unsigned k = 0; k < dlr_tournament_pairs(t); k++)
            assert_int_equal(dlr_tournament_pair(t, k).tries, 1);
        dlr_tournament_free(t);
    }
}

/* Whoever has met nobody but bad ones, good or bad itself. */
static void who_met_only_bad_ones_meets_good_ones(void **state)
{
    for (unsigned bad = 0; bad < 2; bad++) {
        struct dlr_tournament *t = play(&plain, 16, NULL, 0, 1);
        struct fault f[FAULTS_MAX];
        DLR_AUTO_FREE struct dlr_net_finding *found = NULL;
        unsigned nf = 0;

        if (bad)
            f[nf++] = (struct fault){0, 0, BAD};
        for (unsigned i = 0; i < dlr_tournament_pairs(t); i++)
            if (dlr_tournament_pair(t, i).a == 0) {
                unsigned b = dlr_tournament_pair(t, i).b;

                f[nf++] = (struct fault){b, b, BAD};
            }
        dlr_tournament_free(t);
        t = play(&plain, 16, f, nf, 1);
        assert_int_equal(dlr_tournament_judge(t, &found), nf);
        for (unsigned i = 0; i < nf; i++) {
            assert_int_equal(found[i].kind, DLR_NET_NODE);
            assert_true(bad || found[i].a != 0);
        }
        dlr_tournament_free(t);
    }
}

/* Of n nodes the first two meet twice: each time's second is better, or as bad. */
static void of_two_measurements_the_better_counts_but_wrong_bytes_stay(void **state)
{
    static const struct dlr_net_seen good = {50, 900, false};
    static const struct {
        unsigned n;
        struct dlr_net_seen first, second;
        const char *want;
    } rows[] = {
        {2, {50, 5, false}, {50, 900, false}, ""},
        {2, {50, 900, true}, {50, 900, false}, "bad 0-1, "},
        {2, {50, 5, false}, {50, 6, false}, "bad 0-1, "},
        {2, {0, 0, false}, {50, 900, false}, ""},
        {4, {50, 50, false}, {50, 900, false}, ""},
        {4, {50, 900, true}, {50, 900, false}, "bad 0-1, "},
        {4, {50, 50, false}, {50, 60, false}, "bad 0-1, "},
        {4, {0, 0, false}, {50, 900, false}, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned partner[4], meetings = 0;
        struct dlr_tournament *t;
        char got[256];

        assert_int_equal(dlr_tournament_new(rows[i].n, 1, NULL, &t), 0);
        while (dlr_tournament_next(t, partner)) {
            struct dlr_net_seen seen[4] = {good, good, good, good};

            if (partner[0] == 1)
                seen[0] = seen[1] = meetings++ ? rows[i].second : rows[i].first;
            dlr_tournament_record(t, partner, seen);
        }
        assert_int_equal(meetings, 2);
        findings(t, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        dlr_tournament_free(t);
    }
}

static void one_node_is_no_tournament(void **state)
{
    struct dlr_tournament *t;

    assert_int_equal(dlr_tournament_new(1, 1, NULL, &t), -EINVAL);
    assert_int_equal(dlr_tournament_new(4, 0, NULL, &t), -EINVAL);
    assert_int_equal(dlr_tournament_new(4, DLR_TOURNAMENT_RAILS + 1, NULL, &t),
                     -EINVAL);
    assert_null(dlr_tournament_free(NULL));
}

/* --- the check "network" ---------------------------------------------------------- */

static const struct {
    const struct network *net;
    struct fault f;
    unsigned node;
    bool no_stragglers;
    enum dlr_health_verdict verdict;
    const char *reason; /* numbers as # */
} words[] = {
    {&networks[0],
     {0},
     2,
     false,
     DLR_HEALTH_OK,
     "at best of # nodes # us, # MB/s out, # in"},
    {&networks[0],
     {2, 2, BAD},
     2,
     false,
     DLR_HEALTH_FAIL,
     "at best of # nodes it sends # MB/s, # are usual"},
    {&networks[0],
     {2, 2, SLOW},
     2,
     false,
     DLR_HEALTH_WARN,
     "a straggler: at best of # nodes it sends # MB/s, # are usual"},
    {&networks[0],
     {2, 2, SLOW},
     2,
     true,
     DLR_HEALTH_FAIL,
     "a straggler: at best of # nodes it sends # MB/s, # are usual"},
    {&networks[1],
     {2, 2, BAD},
     2,
     false,
     DLR_HEALTH_FAIL,
     "at best of # nodes latency # us, # are usual"},
    {&networks[3],
     {2, 2, BAD},
     2,
     true,
     DLR_HEALTH_FAIL,
     "at best of # nodes wrong bytes"},
    {&networks[5],
     {2, 2, BAD},
     2,
     false,
     DLR_HEALTH_FAIL,
     "rail #: at best of # nodes it sends # MB/s, # are usual"},
    {&networks[0],
     {2, 2, DEAD},
     2,
     true,
     DLR_HEALTH_WARN,
     "at best of # nodes no data"},
    {&networks[0],
     {2, 1, BAD},
     2,
     false,
     DLR_HEALTH_WARN,
     "link with n#: it gets # MB/s, # are usual"},
    {&networks[4],
     {2, 1, SLOW},
     1,
     true,
     DLR_HEALTH_WARN,
     "link with n#: it sends # MB/s, # are usual"},
    {&networks[5],
     {2, 1, SLOW},
     2,
     false,
     DLR_HEALTH_WARN,
     "link with n#, rail #: it gets # MB/s, # are usual"},
    {&networks[0],
     {2, 2, BAD},
     0,
     false,
     DLR_HEALTH_OK,
     "at best of # nodes # us, # MB/s out, # in"},
};

static void hide_numbers(const char *text, char *buf)
{
    for (; *text; text++)
        if (*text < '0' || *text > '9')
            *buf++ = *text;
        else if (text[1] < '0' || text[1] > '9')
            *buf++ = '#';
    *buf = '\0';
}

static void verdicts_say_what_was_measured_and_what_is_usual(void **state)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct dlr_tournament *t =
            play(words[i].net, 4, &words[i].f, words[i].f.level != FINE, 3);
        DLR_AUTO_FREE struct dlr_net_finding *f = NULL;
        int n = dlr_tournament_judge(t, &f);
        struct dlr_health_result r;
        char reason[sizeof(r.reason)];

        dlr_tournament_say(t, f, (unsigned)n, names, words[i].node,
                           words[i].no_stragglers, &r);
        hide_numbers(r.reason, reason);
        assert_string_equal(reason, words[i].reason);
        assert_int_equal(r.verdict, words[i].verdict);
        assert_string_equal(r.check, "network");
        dlr_tournament_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_single_and_pair_of_faults_is_told),
        cmocka_unit_test(what_is_told_of_larger_networks),
        cmocka_unit_test(a_good_network_takes_the_logarithm_of_its_nodes),
        cmocka_unit_test(who_met_only_bad_ones_meets_good_ones),
        cmocka_unit_test(of_two_measurements_the_better_counts_but_wrong_bytes_stay),
        cmocka_unit_test(one_node_is_no_tournament),
        cmocka_unit_test(verdicts_say_what_was_measured_and_what_is_usual),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
