/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/words.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "interpose/calls/calls.h"

#define NAMED 4       /* ranks in words; the others are counted */
#define IN_A_ROW 1024 /* in the journal */

struct words {
    char *buf;
    size_t size, used; /* used < size */
    bool bare;         /* without what differs when the same happens again */
};

__attribute__((format(printf, 2, 3))) static void add(struct words *w, const char *fmt,
                                                      ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(w->buf + w->used, w->size - w->used, fmt, ap);
    va_end(ap);
    if (n > 0)
        w->used += (size_t)n < w->size - w->used ? (size_t)n : w->size - w->used - 1;
}

static const char *node_of(const struct dlr_verdict_of *of, uint32_t rank)
{
    return of->plan->places[of->plan->place_of[rank]].node.name;
}

/* "rank 5 (n3)", "ranks 5 (n3) and 7 (n4)" */
static void add_culprits(const struct dlr_verdict_of *of, struct words *w)
{
    const size_t all = of->verdict->culprits, named = all < NAMED ? all : NAMED;
    size_t said = 0;

    add(w, all == 1 ? "rank" : "ranks");
    for (uint32_t r = of->verdict->first; r < of->plan->world && said < named; r++) {
        if (of->parts[r] != DLR_PART_CULPRIT)
            continue;
        said++;
        add(w, "%s %u",
            said == 1                       ? ""
            : said == named && all <= NAMED ? " and"
                                            : ",",
            r);
        if (!w->bare)
            add(w, " (%s)", node_of(of, r));
    }
    if (all > NAMED)
        add(w, " and %zu others", all - NAMED);
}

static void add_bytes(struct words *w, uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    unsigned unit = 0;

    while (bytes >= 10000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    if (bytes > 0)
        add(w, " (%llu %s)", (unsigned long long)bytes, units[unit]);
}

static void add_name(struct words *w, uint32_t call)
{
    const char *name = dlr_mpi_call_name(call);

    if (name)
        add(w, "%s", name);
    else
        add(w, "a call");
}

/* "MPI_Allreduce 812 of world (4 MB)" */
static void add_call(const struct dlr_verdict_of *of, struct words *w)
{
    const struct dlr_verdict *v = of->verdict;

    add_name(w, v->call);
    if (v->number && !w->bare)
        add(w, " %llu", (unsigned long long)v->number);
    if (v->comm == DLR_LOOK_WORLD)
        add(w, " of world");
    else if (v->comm)
        add(w, " of a communicator");
    if (!w->bare)
        add_bytes(w, v->bytes);
}

/* What the first culprit is in, where others are in something else. */
static void add_mismatch(const struct dlr_verdict_of *of, struct words *w)
{
    const struct dlr_look *look = of->ranks[of->verdict->first].after;
    uint32_t own = 0;

    for (uint32_t i = 0; i < look->ncomms && i < DLR_LOOK_COMMS; i++)
        if (look->comms[i].id == of->verdict->comm)
            own = look->comms[i].op;
    if (own && own != of->verdict->call && of->verdict->call) {
        add(w, " in ");
        add_name(w, own);
        add(w, " where others are in ");
        add_call(of, w);
    } else {
        add(w, " in ");
        add_call(of, w);
        add(w, " with another call, root or size than others");
    }
}

static const char *verb(const struct dlr_verdict_of *of, const char *one,
                        const char *more)
{
    return of->verdict->culprits == 1 ? one : more;
}

/* What the culprits do, or do not. */
static void add_deed(const struct dlr_verdict_of *of, struct words *w)
{
    const char *is = verb(of, " is", " are"), *has = verb(of, " has", " have");

    switch (of->verdict->blame) {
    case DLR_BLAME_MISMATCH:
        add(w, "%s", is);
        add_mismatch(of, w);
        return;
    case DLR_BLAME_LEFT:
        add(w, "%s finished and %s waited for in ", has, is + 1);
        break;
    case DLR_BLAME_STOPPED:
        add(w, "%s stopped by a signal", is);
        return;
    case DLR_BLAME_DEADLOCK:
        add(w, " wait for each other in ");
        break;
    case DLR_BLAME_TRACED:
        add(w, "%s held by a debugger", is);
        return;
    case DLR_BLAME_DISK:
        add(w, "%s held in a system call (state D)", is);
        return;
    case DLR_BLAME_NOT_WAITED:
        add(w, "%s begun and %s not wait for ", has, verb(of, "does", "do"));
        break;
    case DLR_BLAME_AHEAD:
        add(w, "%s gone on from ", has);
        break;
    case DLR_BLAME_PEER:
    case DLR_BLAME_ANY_PEER:
        add(w, "%s waited for in ", is);
        break;
    case DLR_BLAME_NETWORK:
        add(w, "%s held in what all have come to, ", is);
        break;
    case DLR_BLAME_UNFINISHED:
        add(w, "%s not finished, all others have", has);
        return;
    case DLR_BLAME_BEHIND:
        add(w, "%s behind the others", is);
        return;
    default:
        add(w, "%s not come to ", has);
        break;
    }
    add_call(of, w);
}

static int64_t since_ms(const struct dlr_verdict_of *of)
{
    return of->wall_ms - (int64_t)(of->verdict->waited_ns / 1000000);
}

static void add_waits(const struct dlr_verdict_of *of, struct words *w)
{
    const time_t since = (time_t)(since_ms(of) / 1000);
    const size_t n = of->verdict->waits;
    char clock[16] = "";
    struct tm tm;

    if (!n)
        return;
    if (localtime_r(&since, &tm))
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    add(w, "; %zu rank%s since %s", n, n == 1 ? " waits" : "s wait", clock);
}

static void add_verdict(const struct dlr_verdict_of *of, struct words *w)
{
    if (of->verdict->blame == DLR_BLAME_NO_DATA) {
        add(w, "nothing is known of %zu rank%s for which others may wait",
            of->verdict->unknown, of->verdict->unknown == 1 ? "" : "s");
    } else if (!of->verdict->culprits) {
        add(w, "no rank goes on, and none is known to wait for another");
    } else {
        add_culprits(of, w);
        add_deed(of, w);
    }
}

void dlr_verdict_words(const struct dlr_verdict_of *of, char *buf, size_t size)
{
    struct words w = {.buf = buf, .size = size};

    buf[0] = '\0';
    add_verdict(of, &w);
    add_waits(of, &w);
}

void dlr_verdict_place(const struct dlr_verdict_of *of, char *buf, size_t size)
{
    struct words w = {.buf = buf, .size = size, .bare = true};

    buf[0] = '\0';
    add(&w, "hang: ");
    add_verdict(of, &w);
}

json_t *dlr_verdict_row(const struct dlr_verdict_of *of, uint32_t round,
                        const char *words)
{
    const struct dlr_verdict *v = of->verdict;
    const char *call = dlr_mpi_call_name(v->call), *last = NULL;
    json_t *ranks = json_array(), *nodes = json_array();
    json_t *row;

    for (uint32_t r = 0; r < of->plan->world && json_array_size(ranks) < IN_A_ROW;
         r++) {
        if (of->parts[r] != DLR_PART_CULPRIT)
            continue;
        json_array_append_new(ranks, json_integer(r));
        if (!last || strcmp(last, node_of(of, r)) != 0)
            json_array_append_new(nodes, json_string(node_of(of, r)));
        last = node_of(of, r);
    }
    row = json_pack("{s:I,s:o,s:o,s:s,s:I,s:I,s:b,s:s}", "round", (json_int_t)round,
                    "ranks", ranks, "nodes", nodes, "class", dlr_blame_name(v->blame),
                    "waits", (json_int_t)v->waits, "since_ms", (json_int_t)since_ms(of),
                    "proven", v->kind == DLR_VERDICT_STUCK, "why", words);
    if (row && call)
        json_object_set_new(row, "call", json_string(call));
    if (row && call && v->number)
        json_object_set_new(row, "number", json_integer((json_int_t)v->number));
    return row;
}
