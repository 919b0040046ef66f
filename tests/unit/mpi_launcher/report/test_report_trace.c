/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a trace: read back as Perfetto reads it, for every journal of the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/report/report.h"

#define MAX_TRACKS 64

/* --- a reader of protobuf --------------------------------------------------------- */

struct bytes {
    const unsigned char *at, *end;
};

static uint64_t varint(struct bytes *b)
{
    uint64_t value = 0;
    unsigned char c;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(b->at < b->end);
        c = *b->at++;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return value;
    }
    fail_msg("a varint without an end");
    return 0;
}

/* The next field: its number, and its value or its bytes; false at the end. */
static bool field(struct bytes *b, unsigned *number, uint64_t *value, struct bytes *of)
{
    uint64_t key;

    if (b->at == b->end)
        return false;
    key = varint(b);
    *number = (unsigned)(key >> 3);
    assert_true((key & 7) == 0 || (key & 7) == 2);
    *value = varint(b);
    if ((key & 7) == 2) {
        assert_true(*value <= (uint64_t)(b->end - b->at));
        *of = (struct bytes){b->at, b->at + *value};
        b->at += *value;
    }
    return true;
}

/* --- a viewer --------------------------------------------------------------------- */

struct viewer {
    struct {
        uint64_t uuid, open_ns, last_ns;
        bool open;
        char name[64];
    } tracks[MAX_TRACKS];
    size_t ntracks;
    unsigned slices, instants, counts, clocks;
};

static size_t track_of(struct viewer *v, uint64_t uuid)
{
    for (size_t i = 0; i < v->ntracks; i++)
        if (v->tracks[i].uuid == uuid)
            return i;
    fail_msg("track %llu was not told before", (unsigned long long)uuid);
    return 0;
}

static void see_track(struct viewer *v, struct bytes b)
{
    struct bytes of;
    unsigned number;
    uint64_t value;

    assert_true(v->ntracks < MAX_TRACKS);
    while (field(&b, &number, &value, &of)) {
        if (number == 1)
            v->tracks[v->ntracks].uuid = value;
        else if (number == 2)
            snprintf(v->tracks[v->ntracks].name, sizeof(v->tracks[0].name), "%.*s",
                     (int)(of.end - of.at), (const char *)of.at);
        else if (number == 5)
            track_of(v, value);
    }
    assert_int_not_equal(v->tracks[v->ntracks].uuid, 0);
    v->ntracks++;
}

static void see_event(struct viewer *v, struct bytes b, uint64_t ns)
{
    struct bytes of;
    unsigned number;
    uint64_t value, type = 0, uuid = 0;
    size_t i;

    while (field(&b, &number, &value, &of)) {
        type = number == 9 ? value : type;
        uuid = number == 11 ? value : uuid;
    }
    i = track_of(v, uuid);
    switch (type) {
    case 1:
        assert_false(v->tracks[i].open);
        assert_true(ns >= v->tracks[i].last_ns);
        v->tracks[i].open = true;
        v->tracks[i].open_ns = ns;
        v->slices++;
        break;
    case 2:
        assert_true(v->tracks[i].open && ns >= v->tracks[i].open_ns);
        v->tracks[i].open = false;
        v->tracks[i].last_ns = ns;
        break;
    case 3:
        v->instants++;
        break;
    default:
        assert_int_equal(type, 4);
        v->counts++;
    }
}

static void look(struct viewer *v, const char *data, size_t size)
{
    struct bytes b = {(const unsigned char *)data, (const unsigned char *)data + size};
    struct bytes packet, of = {0};
    unsigned number;
    uint64_t value;

    *v = (struct viewer){0};
    while (field(&b, &number, &value, &packet)) {
        uint64_t ns = 0;

        assert_int_equal(number, 1);
        while (field(&packet, &number, &value, &of)) {
            if (number == 8)
                ns = value;
            else if (number == 60)
                see_track(v, of);
            else if (number == 11)
                see_event(v, of, ns);
            else if (number == 6)
                v->clocks++;
            else
                assert_int_equal(number, 10);
        }
    }
    for (size_t i = 0; i < v->ntracks; i++)
        assert_false(v->tracks[i].open);
    assert_int_equal(v->clocks, 1);
}

/* --- journals --------------------------------------------------------------------- */

static struct dlr_report *report_of(const char *path)
{
    struct dlr_report *r = dlr_report_new();
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;

    assert_non_null(r);
    assert_non_null(in);
    dlr_report_traced(r);
    while ((size = getline(&line, &room, in)) > 0)
        dlr_report_line(r, line, (size_t)size - (line[size - 1] == '\n'));
    dlr_report_finish(r, 0);
    free(line);
    fclose(in);
    return r;
}

static char *trace_of(const struct dlr_report *r, enum dlr_trace_format format,
                      int64_t last_ms, size_t *ret_size)
{
    static const struct dlr_report_about about = {
        .job = "1\"<b>", .run = "a\xff\nb", .now_ms = 1763737200000ll};
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_size);

    assert_non_null(out);
    assert_int_equal(dlr_report_trace(r, &about, format, last_ms, 0, out), 0);
    fclose(out);
    return text;
}

static void every_journal_is_seen_whole_by_both_viewers(void **state)
{
    glob_t found;

    assert_int_equal(glob("tests/journals/*.jsonl", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct dlr_report *r = report_of(found.gl_pathv[i]);
        struct viewer v;
        size_t size;
        char *trace = trace_of(r, DLR_TRACE_PERFETTO, 0, &size);
        json_t *json, *list;

        look(&v, trace, size);
        free(trace);
        assert_string_equal(v.tracks[0].name, "job 1\"<b>, run a? b");
        trace = trace_of(r, DLR_TRACE_JSON, 0, &size);
        json = json_loadb(trace, size, 0, NULL);
        free(trace);
        assert_non_null(json);
        list = json_object_get(json, "traceEvents");
        /* counters have no line of their own there, and one names the process */
        assert_int_equal(json_array_size(list),
                         v.slices + v.instants + v.counts + v.ntracks - 2 + 1);
        json_decref(json);
        dlr_report_free(r);
    }
    globfree(&found);
    (void)state;
}

static void a_lost_node_is_an_incident_and_its_track_says_when(void **state)
{
    struct dlr_report *r = report_of("tests/journals/node-loss.jsonl");
    struct viewer v;
    size_t size;
    char *trace = trace_of(r, DLR_TRACE_JSON, 0, &size);

    assert_non_null(strstr(trace, "\"name\":\"round 1\""));
    assert_non_null(strstr(trace, "\"name\":\"dead\""));
    assert_non_null(strstr(trace, "\"node\":\"n2\""));
    free(trace);
    trace = trace_of(r, DLR_TRACE_PERFETTO, 0, &size);
    look(&v, trace, size);
    free(trace);
    assert_true(v.slices > 10 && v.instants > 10 && v.counts > 4);
    dlr_report_free(r);
    (void)state;
}

static void the_last_seconds_alone(void **state)
{
    struct dlr_report *r = report_of("tests/journals/node-loss.jsonl");
    struct viewer all, last;
    size_t size;
    char *trace = trace_of(r, DLR_TRACE_PERFETTO, 0, &size);

    look(&all, trace, size);
    free(trace);
    trace = trace_of(r, DLR_TRACE_PERFETTO, 2000, &size);
    look(&last, trace, size);
    free(trace);
    assert_in_range(last.slices, 1, all.slices - 1);
    assert_true(last.counts < all.counts && last.instants < all.instants);
    assert_int_equal(last.ntracks, all.ntracks);
    dlr_report_free(r);
    (void)state;
}

static void too_many_for_the_format_are_refused_before_a_byte(void **state)
{
    static const struct dlr_report_about about = {.job = "1", .run = "a"};
    struct dlr_report *r = report_of("tests/journals/node-loss.jsonl");
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(dlr_report_trace(r, &about, DLR_TRACE_JSON, 0, 3, out), -E2BIG);
    fclose(out);
    assert_int_equal(size, 0);
    free(text);
    /* Its last seconds alone are not too much. */
    out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(dlr_report_trace(r, &about, DLR_TRACE_JSON, 0, 60, out), -E2BIG);
    assert_int_equal(dlr_report_trace(r, &about, DLR_TRACE_JSON, 2000, 60, out), 0);
    fclose(out);
    free(text);
    dlr_report_free(r);
    (void)state;
}

static void an_empty_journal_is_an_empty_trace(void **state)
{
    struct dlr_report *r = report_of("/dev/null");
    struct viewer v;
    size_t size;
    char *trace = trace_of(r, DLR_TRACE_PERFETTO, 0, &size);

    look(&v, trace, size);
    assert_int_equal(v.slices + v.instants + v.counts, 0);
    free(trace);
    dlr_report_free(r);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_journal_is_seen_whole_by_both_viewers),
        cmocka_unit_test(a_lost_node_is_an_incident_and_its_track_says_when),
        cmocka_unit_test(the_last_seconds_alone),
        cmocka_unit_test(too_many_for_the_format_are_refused_before_a_byte),
        cmocka_unit_test(an_empty_journal_is_an_empty_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
