/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/report */
/* A journal as `dlrover report` reads it: the parts of its time are never negative and
 * add up to the whole, at each line; and nothing of it is markup on the page.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/account/account.h"
#include "mpi_launcher/report/report.h"
#include "tests/fuzz/fuzz.h"

static void check_sums(const struct dlr_account *a)
{
    int64_t sum = 0;

    for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++) {
        FUZZ_CHECK(dlr_account_part(a, c) >= 0);
        sum += dlr_account_part(a, c);
    }
    FUZZ_CHECK(sum == dlr_account_to_ms(a) - dlr_account_from_ms(a));
}

static void check_page(const struct dlr_report *r)
{
    static const struct dlr_report_about about = {
        .job = "1", .run = "a", .now_ms = 1763737200000ll};
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);

    FUZZ_CHECK(out);
    dlr_report_html(r, &about, out);
    fflush(out);
    for (size_t i = 0; i < size; i++)
        FUZZ_CHECK(page[i] == '\n' || (page[i] >= ' ' && page[i] <= '~'));
    dlr_report_text(r, &about, out);
    fclose(out);
    for (size_t i = 0; i < size; i++)
        FUZZ_CHECK(page[i] == '\n' ||
                   ((unsigned char)page[i] >= ' ' && page[i] != 0x7f));
    free(page);
    json_decref(dlr_report_json(r, &about));
}

/* A trace that a viewer takes: JSON says by itself that dlr_trace_plain() made text of
 * strangers whole.
 */
static void check_trace(const struct dlr_report *r)
{
    static const struct dlr_report_about about = {.job = "1", .run = "a"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *json;

    FUZZ_CHECK(out);
    dlr_report_trace(r, &about, DLR_TRACE_PERFETTO, 0, 0, out);
    rewind(out);
    dlr_report_trace(r, &about, DLR_TRACE_JSON, 1000, 0, out);
    fclose(out);
    json = json_loadb(text, size, JSON_DISABLE_EOF_CHECK, NULL);
    FUZZ_CHECK(json);
    json_decref(json);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlr_account *a = dlr_account_new();
    struct dlr_report *r = dlr_report_new();
    const char *at = (const char *)data, *end = at + size;

    FUZZ_CHECK(a && r);
    if (size && data[size - 1] & 1)
        dlr_report_traced(r);
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((nl ? nl : end) - at);
        char *line = strndup(at, n); /* as the reader hands it out: with a NUL */

        FUZZ_CHECK(line);
        n = strlen(line);
        dlr_account_line(a, line, n);
        dlr_report_line(r, line, n);
        free(line);
        at += (nl ? (size_t)(nl - at) : n) + 1;
        if (data[0] & 1) {
            dlr_account_settle(a);
            check_sums(a);
        }
    }
    dlr_account_settle(a);
    check_sums(a);
    dlr_report_finish(r, 0);
    check_page(r);
    check_trace(r);
    dlr_account_free(a);
    dlr_report_free(r);
    return 0;
}
