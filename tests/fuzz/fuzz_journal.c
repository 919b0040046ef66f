/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/cli */
/* A journal as `dlrover status` and `dlrover events` read it: line by line, to a view,
 * to JSON and to plain words. Nothing that comes out may steer a terminal.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/status_view.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"
#include "tests/fuzz/fuzz.h"

#define NOW_MS 1763737200000ll /* a time near that of the corpus */

static void check_plain(const char *text, bool lines)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        FUZZ_CHECK((*c >= ' ' && *c != 0x7f) || (lines && *c == '\n'));
}

static void show(struct dlr_cli_state *state)
{
    static const struct dlr_cli_run run = {.job = "1", .run = "a-0"};
    char *text = NULL;
    size_t size = 0;
    struct dlr_cli_look look = {
        .out = open_memstream(&text, &size), .width = 80, .height = 24};

    FUZZ_CHECK(look.out);
    dlr_cli_view(&look, state, &run, NOW_MS);
    fclose(look.out);
    check_plain(text, true);
    free(text);
    json_decref(dlr_cli_view_json(state, &run, NOW_MS));
}

static void take(struct dlr_cli_state *state, const char *line, size_t size)
{
    json_t *event = dlr_cli_event_parse(line, size);
    char words[DLR_JOURNAL_EVENT_TEXT];

    dlr_cli_state_line(state, line, size);
    if (event) {
        dlr_journal_event_text(event, words, sizeof(words));
        check_plain(words, false);
    }
    json_decref(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    struct dlr_cli_reader reader;
    struct dlr_cli_state state;
    struct dlr_err err;
    size_t length;
    char *line;

    if (file < 0) {
        file = memfd_create("journal", MFD_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    dlr_cli_reader_init(&reader, path);
    dlr_cli_state_init(&state);
    while (dlr_cli_reader_next(&reader, &line, &length, &err) > 0)
        take(&state, line, length);
    dlr_cli_state_settle(&state);
    show(&state);
    dlr_cli_state_done(&state);
    dlr_cli_reader_done(&reader);
    return 0;
}
