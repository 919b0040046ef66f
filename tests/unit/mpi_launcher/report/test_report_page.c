/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a report: what somebody else wrote stays text, for any journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/report/escape.h"
#include "mpi_launcher/report/report.h"

static char *page_of(const char *text)
{
    char *buf = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&buf, &size);

    assert_non_null(out);
    dlr_page(out, "<p title=\"%s\">", text);
    fclose(out);
    return buf;
}

static void text_of_others_cannot_become_markup(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain", "plain"},
        {"<script>&'\"", "&#60;script&#62;&#38;&#39;&#34;"},
        {"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "&#252; &#8364; &#128512;"},
        {"a\nb\tc", "a b c"},
        {"\x1b[31m\x7f", "?[31m?"},
        {"\xe2\x80\xae right to left", "? right to left"},
        {"\xc0\xbc overlong", "? overlong"},
        {"\xff\xfe\x80", "???"},
        {"cut \xe2\x82", "cut ??"},
        {"\xed\xa0\x80", "?"},
        {NULL, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char want[256], *page = page_of(rows[i].text);

        snprintf(want, sizeof(want), "<p title=\"%s\">", rows[i].want);
        assert_string_equal(page, want);
        free(page);
    }
}

static char *print(const struct dlr_report *r,
                   void (*fn)(const struct dlr_report *r,
                              const struct dlr_report_about *about, FILE *out))
{
    static const struct dlr_report_about about = {
        .job = "1<b>", .run = "a&b", .others = 2, .now_ms = 1763737200000ll};
    char *buf = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&buf, &size);

    assert_non_null(out);
    fn(r, &about, out);
    fclose(out);
    return buf;
}

/* Every text of an event, where a report shows it. */
static const char *const hostile[] = {
    "{\"time\":\"2026-11-21T03:00:00.000Z\",\"event\":\"start\",\"job\":\"<img "
    "src=x>\",\"run\":\"r\","
    "\"nodes\":[\"n<1>\"],\"version\":\"</footer><script>\"}",
    "{\"time\":\"2026-11-21T03:00:00.100Z\",\"event\":\"plan\",\"round\":0,\"restore\":"
    "null,\"places\":"
    "[{\"node\":\"n<1>\",\"first\":0,\"tasks\":1,\"leaf\":\"<leaf>\",\"partner\":\"<p>"
    "\"}],\"spares\":[]}",
    "{\"time\":\"2026-11-21T03:00:01.000Z\",\"event\":\"worker_exit\",\"node\":\"n<1>"
    "\",\"rank\":0,"
    "\"stderr\":\"<script>alert(1)</script>\"}",
    "{\"time\":\"2026-11-21T03:00:02.000Z\",\"event\":\"round_end\",\"round\":0,"
    "\"cause\":\"<c>\","
    "\"why\":\"\\\"><script>x\\u202e\"}",
    "{\"time\":\"2026-11-21T03:00:03.000Z\",\"event\":\"network\",\"node\":\"<net>\","
    "\"uses\":\"<eth0>\"}",
    "{\"time\":\"2026-11-21T03:00:04.000Z\",\"event\":\"end\",\"code\":1,\"why\":\"<"
    "end>\"}",
};

static struct dlr_report *report_of(const char *const *lines, size_t n)
{
    struct dlr_report *r = dlr_report_new();

    assert_non_null(r);
    for (size_t i = 0; i < n; i++)
        dlr_report_line(r, lines[i], strlen(lines[i]));
    dlr_report_finish(r, 0);
    return r;
}

static void no_text_of_a_journal_is_markup(void **state)
{
    static const char *const never[] = {"<script", "<img", "<leaf", "<c>",  "<end>",
                                        "<net>",   "<eth", "n<1>",  "1<b>", "a&b"};
    struct dlr_report *r = report_of(hostile, sizeof(hostile) / sizeof(*hostile));
    char *page = print(r, dlr_report_html), *text = print(r, dlr_report_text);

    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        assert_null(strstr(page, never[i]));
    assert_non_null(strstr(page, "&#60;script&#62;alert(1)&#60;/script&#62;"));
    for (const char *c = page; *c; c++)
        assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    assert_non_null(strstr(text, "<script>alert(1)</script>")); /* text is text */
    free(page);
    free(text);
    dlr_report_free(r);
}

/* As the supervisor tells it: before the round's end, or once its lines are there. */
static void a_tasks_own_advice_is_shown(void **state)
{
    static const char exit_line[] =
        "{\"time\":\"2026-11-21T03:00:0%d.000Z\",\"event\":\"worker_exit\",\"node\":"
        "\"n1\",\"rank\":0,\"code\":1,\"advice\":\"%s\"}";
    static const char end_line[] =
        "{\"time\":\"2026-11-21T03:00:02.000Z\",\"event\":\"round_end\",\"round\":0,"
        "\"cause\":\"program\",\"why\":\"rank 0 exited with code 1\"}";
    char before[256], after[256], longer[2048], many[1100] = "";
    const char *const rows[][2] = {
        {before, end_line}, {end_line, after}, {longer, end_line}};

    memset(many, 'x', sizeof(many) - 1);
    snprintf(before, sizeof(before), exit_line, 1, "Ask <Eva>.\\u001b[2J");
    snprintf(after, sizeof(after), exit_line, 3, "Ask <Eva>.\\u001b[2J");
    snprintf(longer, sizeof(longer), exit_line, 1, many);
    for (unsigned i = 0; i < 3; i++) {
        struct dlr_report *r = report_of(rows[i], 2);
        char *page = print(r, dlr_report_html), *text = print(r, dlr_report_text);

        assert_int_equal(strstr(page, "<p>Ask &#60;Eva&#62;.?[2J</p>") != NULL, i < 2);
        assert_int_equal(strstr(text, "    Ask <Eva>.?[2J\n") != NULL, i < 2);
        assert_int_equal(strstr(text, "failed by itself") != NULL, i == 2);
        free(page);
        free(text);
        dlr_report_free(r);
    }
}

static void a_journal_without_a_line_is_a_page_too(void **state)
{
    struct dlr_report *r = report_of(NULL, 0);
    char *page = print(r, dlr_report_html), *text = print(r, dlr_report_text);

    assert_non_null(strstr(page, "Nothing that the journal knows of"));
    assert_non_null(strstr(text, "nothing that the journal knows of"));
    free(page);
    free(text);
    dlr_report_free(r);
}

/* Rounds and incidents without end: the newest are shown, the others counted. */
static void a_page_is_bounded(void **state)
{
    struct dlr_report *r = dlr_report_new();
    char line[300], *page;

    for (int i = 0; i < 3000; i++) {
        snprintf(line, sizeof(line),
                 "{\"time\":\"2026-11-21T03:%02d:%02d.000Z\",\"event\":\"plan\","
                 "\"round\":%d,"
                 "\"restore\":null,\"places\":[],\"spares\":[]}",
                 i / 60, i % 60, i);
        dlr_report_line(r, line, strlen(line));
        snprintf(line, sizeof(line),
                 "{\"time\":\"2026-11-21T03:%02d:%02d.500Z\",\"event\":\"round_end\","
                 "\"round\":%d,"
                 "\"cause\":\"program\",\"why\":\"rank 1 exited with code 1\"}",
                 i / 60, i % 60, i);
        dlr_report_line(r, line, strlen(line));
    }
    dlr_report_finish(r, 0);
    page = print(r, dlr_report_html);
    assert_true(strlen(page) < 2u << 20);
    assert_non_null(strstr(page, "2600 older ones are not shown"));
    assert_non_null(strstr(page, "Rounds (3000)"));
    free(page);
    dlr_report_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_others_cannot_become_markup),
        cmocka_unit_test(no_text_of_a_journal_is_markup),
        cmocka_unit_test(a_tasks_own_advice_is_shown),
        cmocka_unit_test(a_journal_without_a_line_is_a_page_too),
        cmocka_unit_test(a_page_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
