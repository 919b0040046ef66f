/* SPDX-License-Identifier: Apache-2.0 */
/* A run's numbers: each sample by its lines, bounded for any job, and never a byte that
 * a scrape refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/metrics/metrics.h"

#define NOW_MS 1763694010000ll /* 2025-11-21T03:00:10Z */

static void take(struct dlr_metrics *m, const char *line)
{
    dlr_metrics_line(m, line, strlen(line));
}

static char *page_of(struct dlr_metrics *m, enum dlr_metrics_format format)
{
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);

    assert_non_null(out);
    dlr_metrics_write(m, "7", "train", NOW_MS, format, out);
    fclose(out);
    assert_int_equal(strlen(page), size);
    return page;
}

static void has(const char *page, const char *line)
{
    const char *at = strstr(page, line);

    if (!at)
        fail_msg("'%s' is not in\n%s", line, page);
    assert_true(at == page || at[-1] == '\n');
}

#define AT(clock, rest) "{\"time\":\"2025-11-21T" clock "Z\",\"event\":" rest "}"
#define SERIES "{slurm_job=\"7\",run=\"train\""

static struct dlr_metrics *a_run(void)
{
    struct dlr_metrics *m = dlr_metrics_new();

    assert_non_null(m);
    take(m,
         AT("03:00:00.000",
            "\"start\",\"job\":\"7\",\"run\":\"train\",\"incarnation\":2,\"places\":2,"
            "\"spares\":1,\"world\":4,\"max_restarts\":10,"
            "\"nodes\":[\"n1\",\"n2\",\"n3\"]"));
    take(m, AT("03:00:01.000",
               "\"plan\",\"round\":0,\"places\":[{\"node\":\"n1\",\"first\":0,"
               "\"tasks\":2},{\"node\":\"n2\",\"first\":2,\"tasks\":2}],"
               "\"spares\":[\"n3\"],\"out\":[]"));
    take(m, AT("03:00:02.000", "\"running\",\"round\":0"));
    take(m, AT("03:00:03.000", "\"first_step\",\"round\":0,\"step\":1"));
    take(m, AT("03:00:05.000",
               "\"progress\",\"round\":0,\"step\":20,\"rate\":9.5,"
               "\"committed\":[0,18],\"commit_age_ms\":100,\"at_stake_ms\":200,"
               "\"commits\":9,\"aborts\":1"));
    return m;
}

static void samples_are_what_the_journal_says(void **state)
{
    struct dlr_metrics *m = a_run();
    char *page = page_of(m, DLR_METRICS_PROMETHEUS);

    has(page, "dlrover_run_state" SERIES ",state=\"running\"} 1\n");
    has(page, "dlrover_run_state" SERIES ",state=\"failed\"} 0\n");
    has(page, "dlrover_nodes" SERIES ",role=\"training\"} 2\n");
    has(page, "dlrover_nodes" SERIES ",role=\"spare\"} 1\n");
    has(page, "dlrover_ranks" SERIES "} 4\n");
    has(page, "dlrover_requeues_total" SERIES "} 1\n");
    has(page, "dlrover_step" SERIES "} 20\n");
    has(page, "dlrover_steps_per_second" SERIES "} 9.5\n");
    has(page, "dlrover_committed_step" SERIES "} 18\n");
    has(page, "dlrover_commits_total" SERIES "} 9\n");
    has(page, "dlrover_commit_age_seconds" SERIES "} 5.1\n");
    has(page, "dlrover_events_total" SERIES ",event=\"progress\"} 1\n");
    has(page, "dlrover_start_time_seconds" SERIES "} 1763694000\n");
    has(page, "# TYPE dlrover_commits_total counter\n");
    assert_null(strstr(page, "dlrover_exit_code{"));
    assert_null(strstr(page, "# EOF"));
    assert_false(dlr_metrics_over(m));
    free(page);
    dlr_metrics_free(m);
    (void)state;
}

static void the_end_takes_what_is_no_longer_so(void **state)
{
    struct dlr_metrics *m = a_run();
    char *page;

    take(m, AT("03:00:09.000", "\"end\",\"code\":3,\"wall_s\":9,\"rounds\":1"));
    page = page_of(m, DLR_METRICS_OPENMETRICS);
    has(page, "dlrover_exit_code" SERIES "} 3\n");
    has(page, "dlrover_run_state" SERIES ",state=\"failed\"} 1\n");
    has(page, "# TYPE dlrover_commits counter\n");
    has(page, "dlrover_commits_total" SERIES "} 9\n");
    has(page, "# EOF\n");
    assert_null(strstr(page, "dlrover_steps_per_second{"));
    assert_null(strstr(page, "dlrover_at_stake_seconds{"));
    assert_true(dlr_metrics_over(m));
    free(page);
    dlr_metrics_free(m);
    (void)state;
}

/* Every line is a comment of ours or NAME{LABEL="...",...} NUMBER; returns how many of
 * these there are.
 */
static unsigned check_page(const char *page)
{
    unsigned n = 0;

    while (*page) {
        const char *end = strchr(page, '\n'), *space;
        char *rest;

        assert_non_null(end);
        for (const char *c = page; c < end; c++)
            assert_true(*c >= ' ' && *c <= '~');
        if (*page != '#') {
            space = end;
            while (space > page && *space != ' ')
                space--;
            assert_true(space > page && space[-1] == '}');
            (void)strtod(space + 1, &rest);
            assert_ptr_equal(rest, end);
            n++;
        }
        page = end + 1;
    }
    return n;
}

static void a_job_of_any_size_has_as_many_series(void **state)
{
    static const unsigned sizes[] = {4, 16384};
    unsigned n[2];

    for (size_t i = 0; i < 2; i++) {
        struct dlr_metrics *m = dlr_metrics_new();
        char *line = NULL, *page;
        size_t size = 0;
        FILE *out = open_memstream(&line, &size);

        assert_non_null(m);
        assert_non_null(out);
        fputs("{\"time\":\"2025-11-21T03:00:00.000Z\",\"event\":\"start\",\"nodes\":[",
              out);
        for (unsigned node = 0; node < sizes[i]; node++)
            fprintf(out, "%s\"n%u\"", node ? "," : "", node);
        fputs("]}", out);
        fclose(out);
        take(m, line);
        page = page_of(m, DLR_METRICS_PROMETHEUS);
        n[i] = check_page(page);
        assert_in_range(n[i], 50, DLR_METRICS_SERIES);
        free(page);
        free(line);
        dlr_metrics_free(m);
    }
    assert_int_equal(n[0], n[1]);
    (void)state;
}

static void take_file(struct dlr_metrics *m, const char *path)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;

    assert_non_null(in);
    while ((size = getline(&line, &room, in)) > 0)
        dlr_metrics_line(m, line, (size_t)size - (line[size - 1] == '\n'));
    free(line);
    fclose(in);
}

static void no_journal_breaks_a_page(void **state)
{
    glob_t found;

    assert_int_equal(glob("tests/journals/*.jsonl", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct dlr_metrics *m = dlr_metrics_new();

        assert_non_null(m);
        take_file(m, found.gl_pathv[i]);
        for (int f = DLR_METRICS_PROMETHEUS; f <= DLR_METRICS_OPENMETRICS; f++) {
            char *page = page_of(m, (enum dlr_metrics_format)f);

            assert_in_range(check_page(page), 50, DLR_METRICS_SERIES);
            free(page);
        }
        dlr_metrics_free(m);
    }
    globfree(&found);
    (void)state;
}

static void names_of_strangers_stay_inside_their_quotes(void **state)
{
    struct dlr_metrics *m = dlr_metrics_new();
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);

    assert_non_null(m);
    assert_non_null(out);
    dlr_metrics_write(m, "7", "a\"} 1\nb\\\xff\x1b[2J", NOW_MS, DLR_METRICS_PROMETHEUS,
                      out);
    fclose(out);
    has(page, "dlrover_restarts{slurm_job=\"7\",run=\"a\\\"} 1\\nb\\\\??[2J\"} 0\n");
    check_page(page);
    free(page);
    dlr_metrics_free(m);
    (void)state;
}

/* prometheus.io, "Metric and label naming". */
static void names_are_as_prometheus_wants_them(void **state)
{
    const char *name, *type, *help;

    for (size_t i = 0; dlr_metrics_name(i, &name, &type, &help); i++) {
        size_t size = strlen(name);
        int counter = strcmp(type, "counter") == 0;

        assert_int_equal(strncmp(name, "dlrover_", 8), 0);
        for (const char *c = name; *c; c++)
            assert_true(islower((unsigned char)*c) || *c == '_');
        assert_int_equal(size > 6 && strcmp(name + size - 6, "_total") == 0, counter);
        assert_true(counter || strcmp(type, "gauge") == 0);
        assert_true(help[0] && help[strlen(help) - 1] != '.');
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_what_the_journal_says),
        cmocka_unit_test(the_end_takes_what_is_no_longer_so),
        cmocka_unit_test(a_job_of_any_size_has_as_many_series),
        cmocka_unit_test(no_journal_breaks_a_page),
        cmocka_unit_test(names_of_strangers_stay_inside_their_quotes),
        cmocka_unit_test(names_are_as_prometheus_wants_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
