/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/simulator/site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define COLUMNS_MAX 256
#define CELL 64          /* of those that count */
#define GROUP_SECONDS 60 /* nodes that go down so close to each other have one cause */
#define GROUP_LEAST 4    /* when they are so many */
#define DAY 86400.0
#define NODES_MAX 1e7
#define ELAPSED_MAX 1e10

/* --- lines of cells with '|' between ---------------------------------------------- */

struct table {
    const char *at; /* rest of the text */
    int column[8];  /* of each name that is wanted, -1: none */
    unsigned wanted;
};

static void get_cell(const char *line, size_t size, int column, char *cell)
{
    const char *end = line + size, *at = line, *bar;

    cell[0] = '\0';
    for (; column > 0 && at; column--)
        if ((at = memchr(at, '|', (size_t)(end - at))))
            at++;
    if (column < 0 || !at)
        return;
    bar = memchr(at, '|', (size_t)(end - at));
    snprintf(cell, CELL, "%.*s",
             (int)((bar ? bar : end) - at < CELL ? (bar ? bar : end) - at : CELL - 1),
             at);
}

/* The next line's cells; false after the last. */
static bool next_line(struct table *t, char cells[][CELL])
{
    size_t size = strcspn(t->at, "\n");

    if (!*t->at)
        return false;
    for (unsigned i = 0; i < t->wanted; i++)
        get_cell(t->at, size, t->column[i], cells[i]);
    t->at += size + (t->at[size] == '\n');
    return true;
}

/* names: those wanted, in order; each may have another after a '/'. The first need must
 * be there.
 */
static int open_table(struct table *t, const char *text, const char *const *names,
                      unsigned n, unsigned need, struct dlr_err *err)
{
    char cell[CELL];
    size_t size = strcspn(text, "\n");

    *t = (struct table){.at = text + size + (text[size] == '\n'), .wanted = n};
    for (unsigned i = 0; i < n; i++) {
        const char *other = strchr(names[i], '/');
        size_t length = other ? (size_t)(other - names[i]) : strlen(names[i]);

        t->column[i] = -1;
        for (int c = 0; c < COLUMNS_MAX && t->column[i] < 0; c++) {
            get_cell(text, size, c, cell);
            if ((strlen(cell) == length && !strncasecmp(cell, names[i], length)) ||
                (other && !strcasecmp(cell, other + 1)))
                t->column[i] = c;
        }
        if (t->column[i] < 0 && i < need)
            return dlr_fail(err, -EINVAL, "its first line names no column %.*s",
                            (int)length, names[i]);
    }
    return 0;
}

/* "2026-11-21T03:04:05"; -1: none. Of all the same zone: only differences count. */
static double time_of(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    return end && !*end ? (double)timegm(&tm) : -1;
}

static double number_of(const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);

    return end == text || *end || !(value >= 0 && value <= most) ? -1 : value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* --- jobs ------------------------------------------------------------------------- */

struct list {
    double *values;
    size_t n, room;
};

static int add(struct list *list, double value)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 1024;
        double *more = realloc(list->values, room * sizeof(*more));

        if (!more)
            return -ENOMEM;
        list->values = more;
        list->room = room;
    }
    list->values[list->n++] = value;
    return 0;
}

static void drop(struct list *list)
{
    free(list->values);
}

static int add_job(struct dlr_site *site, char cells[][CELL], struct list *waits)
{
    double nodes = number_of(cells[2], NODES_MAX);
    double elapsed = number_of(cells[3], ELAPSED_MAX);
    double eligible = time_of(cells[4]), start = time_of(cells[5]);

    if (strchr(cells[0], '.'))
        return 0; /* a step */
    if (nodes < 0 || elapsed < 0) {
        site->skipped++;
        return 0;
    }
    if (elapsed <= 0)
        return 0; /* it has not run */
    site->jobs++;
    site->node_days += nodes * elapsed / DAY;
    site->node_fail += dlr_after(cells[1], "NODE_FAIL") != NULL;
    return eligible >= 0 && start >= eligible ? add(waits, start - eligible) : 0;
}

int dlr_site_sacct_parse(const char *text, struct dlr_site *site, struct dlr_err *err)
{
    static const char *const names[] = {"JobID",      "State",    "NNodes/AllocNodes",
                                        "ElapsedRaw", "Eligible", "Start"};
    DLR_CLEANUP(drop) struct list waits = {0};
    char cells[6][CELL];
    struct table t;
    int rc = open_table(&t, text, names, 6, 4, err);

    if (rc < 0)
        return rc;
    site->queue_s = -1;
    while (next_line(&t, cells))
        if (add_job(site, cells, &waits) < 0)
            return dlr_fail(err, -ENOMEM, "no memory for its jobs");
    if (site->node_days <= 0)
        return dlr_fail(err, -ENODATA, "no job in it has run");
    if (waits.n) {
        qsort(waits.values, waits.n, sizeof(*waits.values), by_size);
        site->queue_s = waits.values[waits.n / 2];
    }
    return 0;
}

/* --- nodes ------------------------------------------------------------------------ */

/* Losses that come within a minute of the one before are one group. */
static void group(struct dlr_site *site, const struct list *starts)
{
    for (size_t i = 0, n; i < starts->n; i += n) {
        n = 1;
        while (i + n < starts->n &&
               starts->values[i + n] - starts->values[i + n - 1] <= GROUP_SECONDS)
            n++;
        if (n >= GROUP_LEAST)
            site->groups++;
        else
            site->downs += n;
    }
}

int dlr_site_events_parse(const char *text, struct dlr_site *site, struct dlr_err *err)
{
    static const char *const names[] = {"NodeName", "State", "TimeStart/Start",
                                        "TimeEnd/End"};
    DLR_CLEANUP(drop) struct list starts = {0};
    char cells[4][CELL];
    double down = 0, over = 0;
    struct table t;
    int rc = open_table(&t, text, names, 4, 3, err);

    if (rc < 0)
        return rc;
    while (next_line(&t, cells)) {
        double start = time_of(cells[2]), end = time_of(cells[3]);

        if (!cells[0][0] ||
            (!dlr_after(cells[1], "DOWN") && !dlr_after(cells[1], "FAIL")))
            continue; /* the cluster's own, a drain */
        if (start < 0) {
            site->skipped++;
            continue;
        }
        if (end > start) {
            down += end - start;
            over++;
        }
        if (add(&starts, start) < 0)
            return dlr_fail(err, -ENOMEM, "no memory for its events");
    }
    if (!starts.n)
        return dlr_fail(err, -ENODATA, "no node in it was lost");
    qsort(starts.values, starts.n, sizeof(*starts.values), by_size);
    group(site, &starts);
    site->down_s = over > 0 ? down / over : -1;
    return 0;
}

void dlr_site_apply(const struct dlr_site *site, struct dlr_sim_conf *conf)
{
    double days = site->node_days / 1000;

    if (days > 0) {
        conf->node_rate = (double)(site->downs ? site->downs : site->node_fail) / days;
        if (site->downs || site->groups)
            conf->leaf_rate = (double)site->groups / days;
        if (site->queue_s >= 0)
            conf->queue = site->queue_s > conf->queue ? site->queue_s : conf->queue;
    }
    if ((site->downs || site->groups) && site->down_s > 0)
        conf->down = site->down_s;
}
