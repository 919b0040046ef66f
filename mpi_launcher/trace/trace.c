/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/trace/trace.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/trace/perfetto.h"
#include "mpi_launcher/trace/plain.h"

#define TEXT_MAX 1024 /* bytes of a text that are kept */

/* --- JSON ------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text)
{
    char plain[TEXT_MAX];

    putc('"', out);
    for (const char *c = dlr_trace_plain(text, plain, sizeof(plain)); *c; c++) {
        if (*c == '"' || *c == '\\')
            putc('\\', out);
        putc(*c, out);
    }
    putc('"', out);
}

static void put_args(FILE *out, const struct dlr_trace_arg *args)
{
    fputs(",\"args\":{", out);
    for (const struct dlr_trace_arg *a = args; a && a->name; a++) {
        if (a != args)
            putc(',', out);
        put_text(out, a->name);
        putc(':', out);
        if (a->text)
            put_text(out, a->text);
        else
            fprintf(out, "%lld", (long long)a->number);
    }
    fputs("}}", out);
}

/* Microseconds with three digits behind the point, exactly. */
static void put_time(FILE *out, const char *key, int64_t ns)
{
    fprintf(out, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000),
            (long long)(ns % 1000));
}

static void begin_event(struct dlr_trace *t, const char *ph, uint64_t track,
                        const char *name)
{
    fprintf(t->out, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%llu,\"name\":", ph,
            (unsigned long long)track);
    put_text(t->out, name);
}

/* --- both ------------------------------------------------------------------------- */

void dlr_trace_begin(struct dlr_trace *t, FILE *out, enum dlr_trace_format format)
{
    *t = (struct dlr_trace){.out = out, .format = format};
    if (format == DLR_TRACE_PERFETTO)
        dlr_perfetto_begin(out);
    else
        fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
              "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
              "\"dlrover\"}}",
              out);
}

void dlr_trace_end(struct dlr_trace *t)
{
    if (t->format == DLR_TRACE_JSON)
        fputs("\n]}\n", t->out);
}

void dlr_trace_track(struct dlr_trace *t, uint64_t uuid, uint64_t parent,
                     const char *name, const char *unit)
{
    const struct dlr_trace_arg args[] = {{.name = "name", .text = name}, {0}};

    if (t->format == DLR_TRACE_PERFETTO) {
        dlr_perfetto_track(t->out, uuid, parent, name, unit);
    } else if (!unit) {
        begin_event(t, "M", uuid, "thread_name");
        put_args(t->out, args);
    }
}

void dlr_trace_slice(struct dlr_trace *t, uint64_t track, int64_t from_ns,
                     int64_t to_ns, const char *name, const struct dlr_trace_arg *args)
{
    t->written++;
    if (t->format == DLR_TRACE_PERFETTO) {
        dlr_perfetto_event(t->out, DLR_PERFETTO_BEGIN, track, from_ns, name, args);
        dlr_perfetto_event(t->out, DLR_PERFETTO_END, track, to_ns, NULL, NULL);
        return;
    }
    begin_event(t, "X", track, name);
    put_time(t->out, "ts", from_ns);
    put_time(t->out, "dur", to_ns - from_ns);
    put_args(t->out, args);
}

void dlr_trace_instant(struct dlr_trace *t, uint64_t track, int64_t ns,
                       const char *name, const struct dlr_trace_arg *args)
{
    t->written++;
    if (t->format == DLR_TRACE_PERFETTO) {
        dlr_perfetto_event(t->out, DLR_PERFETTO_INSTANT, track, ns, name, args);
        return;
    }
    begin_event(t, "i", track, name);
    put_time(t->out, "ts", ns);
    fputs(",\"s\":\"t\"", t->out);
    put_args(t->out, args);
}

/* A counter of JSON is told apart by its name, which the number of its track makes. */
void dlr_trace_count(struct dlr_trace *t, uint64_t track, int64_t ns, int64_t value)
{
    const struct dlr_trace_arg args[] = {{.name = "value", .number = value}, {0}};
    char name[32];

    t->written++;
    if (t->format == DLR_TRACE_PERFETTO) {
        dlr_perfetto_count(t->out, track, ns, value);
        return;
    }
    dlr_format(name, sizeof(name), "counter %llu", (unsigned long long)track);
    begin_event(t, "C", track, name);
    put_time(t->out, "ts", ns);
    put_args(t->out, args);
}
