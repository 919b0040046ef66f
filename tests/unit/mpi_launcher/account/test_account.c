/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run went: each part by its lines, and sums that are exact for any
 * journal, wherever it is cut off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/account/account.h"

#define MAX_LINES 4000

struct lines {
    char *at[MAX_LINES];
    size_t n;
};

static void check_sums(struct dlr_account *a)
{
    int64_t all, sum = 0, at_ms;
    const struct dlr_account_span *spans;
    size_t n;

    dlr_account_settle(a);
    all = dlr_account_to_ms(a) - dlr_account_from_ms(a);
    for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++) {
        assert_true(dlr_account_part(a, c) >= 0);
        sum += dlr_account_part(a, c);
    }
    assert_int_equal(sum, all);
    spans = dlr_account_spans(a, &n);
    at_ms = dlr_account_from_ms(a);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(spans[i].from_ms, at_ms);
        assert_true(spans[i].to_ms > at_ms);
        at_ms = spans[i].to_ms;
    }
    assert_int_equal(at_ms, dlr_account_to_ms(a));
}

static struct dlr_account *account_of(const char *const *lines, size_t n)
{
    struct dlr_account *a = dlr_account_new();

    assert_non_null(a);
    for (size_t i = 0; i < n; i++)
        dlr_account_line(a, lines[i], strlen(lines[i]));
    check_sums(a);
    return a;
}

/* "03:00:01.250" and the rest of an event. */
#define AT(clock, rest) "{\"time\":\"2026-11-21T" clock "Z\",\"event\":" rest "}"
#define START(clock, rest) AT(clock, "\"start\",\"job\":\"1\"" rest)
#define PLAN(clock, round, restore)                                                    \
    AT(clock, "\"plan\",\"round\":" #round ",\"restore\":" restore)
#define STEP(clock, n)                                                                 \
    AT(clock, "\"progress\",\"round\":0,\"step\":" #n ",\"rate\":1.0,\"commits\":" #n)

struct want {
    enum dlr_account_cause cause;
    int64_t ms;
};

static const struct row {
    const char *name, *lines[16];
    struct want want[8]; /* all others are 0; the last has ms 0 */
} rows[] = {
    /* clang-format off */
    {"a round from its beginning to its end",
     {START("03:00:00.000", ""), AT("03:00:01.000", "\"rendezvous\""), PLAN("03:00:03.000", 0, "null"),
      AT("03:00:03.100", "\"prepared\""), AT("03:00:03.200", "\"launch\""), AT("03:00:04.000", "\"running\""),
      AT("03:00:09.000", "\"first_step\",\"round\":0,\"step\":1"), STEP("03:00:11.000", 3),
      AT("03:00:12.000", "\"end\",\"code\":0")},
     {{DLR_ACCOUNT_HEALTH, 1000}, {DLR_ACCOUNT_RENDEZVOUS, 2000}, {DLR_ACCOUNT_PREPARE, 100},
      {DLR_ACCOUNT_LAUNCH, 900}, {DLR_ACCOUNT_START, 5000}, {DLR_ACCOUNT_FIRST, 3000}}},
    {"a silent node is detection, and steps done before are redone",
     {START("03:00:00.000", ""), PLAN("03:00:00.000", 0, "null"),
      AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:10.000", 10),
      AT("03:00:13.000", "\"node_dead\",\"node\":\"n2\",\"silent_ms\":1000"),
      AT("03:00:13.500", "\"round_end\",\"round\":0,\"step\":12"), AT("03:00:14.000", "\"cleared\""),
      PLAN("03:00:14.000", 1, "[0,8]"), AT("03:00:15.000", "\"launch\""), AT("03:00:16.000", "\"running\""),
      AT("03:00:18.000", "\"restored\""), AT("03:00:18.000", "\"first_step\",\"round\":1,\"step\":8"),
      AT("03:00:26.000", "\"progress\",\"round\":1,\"step\":16")},
     {{DLR_ACCOUNT_FIRST, 16000}, {DLR_ACCOUNT_REDONE, 4000}, {DLR_ACCOUNT_DETECT, 1500},
      {DLR_ACCOUNT_END, 500}, {DLR_ACCOUNT_PREPARE, 1000}, {DLR_ACCOUNT_LAUNCH, 1000},
      {DLR_ACCOUNT_LOAD, 2000}}},
    {"what saves cost is taken out of the steps",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      AT("03:00:02.000", "\"cadence\",\"cost_ms\":50.0"), STEP("03:00:04.000", 4)},
     {{DLR_ACCOUNT_FIRST, 3900}, {DLR_ACCOUNT_SAVE, 100}}},
    {"steps that stop for long are unknown, not training",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      STEP("03:10:02.000", 4), STEP("03:10:04.000", 6)},
     {{DLR_ACCOUNT_FIRST, 7000}, {DLR_ACCOUNT_UNKNOWN, 597000}}},
    {"a requeue is the queue, and a clock that goes back takes nothing",
     {START("03:00:00.000", ""), AT("03:00:05.000", "\"requeue\",\"why\":\"x\""),
      START("03:10:00.000", ",\"incarnation\":1"), AT("03:09:00.000", "\"rendezvous\""),
      AT("03:10:01.000", "\"end\",\"code\":1")},
     {{DLR_ACCOUNT_HEALTH, 5000}, {DLR_ACCOUNT_QUEUE, 595000}, {DLR_ACCOUNT_RENDEZVOUS, 1000}}},
    {"a round that a later supervisor adopts has trained all the time",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      AT("03:00:05.000", "\"takeover\",\"node\":\"n2\""), START("03:00:06.000", ",\"generation\":2"),
      AT("03:00:06.500", "\"adopted\",\"round\":0"), STEP("03:00:08.000", 8)},
     {{DLR_ACCOUNT_FIRST, 8000}}},
    {"one that it does not adopt was lost since the last word",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      AT("03:00:05.000", "\"takeover\",\"node\":\"n2\""), START("03:00:06.000", ",\"generation\":2"),
      AT("03:00:07.000", "\"rendezvous\""), AT("03:00:08.000", "\"end\",\"code\":1")},
     {{DLR_ACCOUNT_FIRST, 2000}, {DLR_ACCOUNT_DETECT, 3000}, {DLR_ACCOUNT_HEALTH, 2000},
      {DLR_ACCOUNT_RENDEZVOUS, 1000}}},
    {"a journal that breaks off in a phase leaves what follows unknown",
     {START("03:00:00.000", ""), AT("03:00:01.000", "\"rendezvous\""),
      START("04:00:00.000", ",\"incarnation\":1"), AT("04:00:01.000", "\"rendezvous\"")},
     {{DLR_ACCOUNT_HEALTH, 2000}, {DLR_ACCOUNT_UNKNOWN, 3599000}}},
    {"a suspended job stands still",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      AT("03:00:03.000", "\"suspended\",\"node\":\"n1\""), AT("03:30:03.000", "\"resumed\""),
      STEP("03:30:04.000", 4)},
     {{DLR_ACCOUNT_FIRST, 4000}, {DLR_ACCOUNT_QUEUE, 1800000}}},
    {"lines that were dropped leave a gap",
     {START("03:00:00.000", ""), AT("03:00:01.000", "\"rendezvous\""),
      AT("03:00:09.000", "\"check\",\"dropped_lines\":5"), AT("03:00:10.000", "\"end\",\"code\":0")},
     {{DLR_ACCOUNT_HEALTH, 1000}, {DLR_ACCOUNT_UNKNOWN, 8000}, {DLR_ACCOUNT_RENDEZVOUS, 1000}}},
    {"slurmctld away is the queue until it is back",
     {START("03:00:00.000", ""), AT("03:00:01.000", "\"round_end\""), AT("03:00:02.000", "\"controller_away\""),
      AT("03:00:12.000", "\"controller_back\""), AT("03:00:13.000", "\"end\",\"code\":0")},
     {{DLR_ACCOUNT_HEALTH, 1000}, {DLR_ACCOUNT_END, 2000}, {DLR_ACCOUNT_QUEUE, 10000}}},
    {"ranks that their launcher has started again have waited",
     {AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0"), STEP("03:00:02.000", 2),
      AT("03:00:07.000", "\"ranks\",\"round\":0,\"took_ms\":4000,\"restore\":[0,2]"),
      AT("03:00:09.000", "\"restored\",\"round\":0"), STEP("03:00:10.000", 3)},
     {{DLR_ACCOUNT_FIRST, 3000}, {DLR_ACCOUNT_START, 5000}, {DLR_ACCOUNT_LOAD, 2000}}},
    /* clang-format on */
};

static void each_cause_has_the_time_of_its_lines(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int64_t want[DLR_ACCOUNT_CAUSES] = {0};
        struct dlr_account *a;
        size_t n = 0;

        while (n < 16 && rows[i].lines[n])
            n++;
        a = account_of(rows[i].lines, n);
        for (size_t k = 0; k < 8 && rows[i].want[k].ms; k++)
            want[rows[i].want[k].cause] = rows[i].want[k].ms;
        for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++)
            if (dlr_account_part(a, c) != want[c])
                fail_msg("%s: %s is %lld and not %lld", rows[i].name,
                         dlr_account_cause_name(c), (long long)dlr_account_part(a, c),
                         (long long)want[c]);
        dlr_account_free(a);
    }
}

static void load(const char *path, struct lines *ret)
{
    FILE *f = fopen(path, "re");
    size_t room = 0;

    assert_non_null(f);
    *ret = (struct lines){0};
    while (ret->n < MAX_LINES) {
        ssize_t n;

        ret->at[ret->n] = NULL;
        room = 0;
        if ((n = getline(&ret->at[ret->n], &room, f)) < 0) {
            free(ret->at[ret->n]);
            break;
        }
        if (n && ret->at[ret->n][n - 1] == '\n')
            ret->at[ret->n][n - 1] = '\0';
        ret->n++;
    }
    fclose(f);
}

static void done(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i]);
}

/* Cut there, then with another journal behind it, as a second host would write on. */
static void try_cut(const struct lines *l, size_t cut, const struct lines *other)
{
    struct dlr_account *a = account_of((const char *const *)l->at, cut);

    for (size_t i = 0; i < other->n; i++)
        dlr_account_line(a, other->at[i], strlen(other->at[i]));
    check_sums(a);
    dlr_account_free(a);
}

static void sums_are_exact_wherever_a_journal_is_cut(void **state)
{
    struct lines l, other;
    glob_t found;

    assert_int_equal(glob("tests/journals/*.jsonl", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 5);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        load(found.gl_pathv[i], &l);
        load(found.gl_pathv[(i + 1) % found.gl_pathc], &other);
        for (size_t cut = 0; cut <= l.n; cut++)
            try_cut(&l, cut, &other);
        done(&l);
        done(&other);
    }
    globfree(&found);
}

static void sums_are_exact_wherever_a_line_is_cut(void **state)
{
    struct lines l;

    load("tests/journals/node-loss.jsonl", &l);
    for (size_t i = 0; i < l.n; i++) {
        struct dlr_account *a = account_of((const char *const *)l.at, i);

        for (size_t n = 0; n < strlen(l.at[i]); n += 7)
            dlr_account_line(a, l.at[i], n);
        check_sums(a);
        dlr_account_free(a);
    }
    done(&l);
}

static void progress_is_read_the_same_by_both_ways(void **state)
{
    static const char line[] = STEP("03:00:02.000", 7);
    static const char begin[] =
        AT("03:00:00.000", "\"first_step\",\"round\":0,\"step\":0");
    struct dlr_account *a = dlr_account_new(), *b = dlr_account_new();
    json_t *e = json_loads(line, 0, NULL);

    assert_non_null(e);
    dlr_account_line(a, begin, strlen(begin));
    dlr_account_line(b, begin, strlen(begin));
    dlr_account_line(a, line, strlen(line));
    dlr_account_event(b, e);
    for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++)
        assert_int_equal(dlr_account_part(a, c), dlr_account_part(b, c));
    json_decref(e);
    dlr_account_free(a);
    dlr_account_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_has_the_time_of_its_lines),
        cmocka_unit_test(sums_are_exact_wherever_a_journal_is_cut),
        cmocka_unit_test(sums_are_exact_wherever_a_line_is_cut),
        cmocka_unit_test(progress_is_read_the_same_by_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
