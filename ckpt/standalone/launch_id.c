/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/launch_id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

#define TEXT_OUT                                                                       \
    "dlrover-start 2\njob %" PRId64 "\nstep %" PRId64 "\nport %" PRId64                \
    "\nspace %016" PRIx64 "\nprogram %016" PRIx64 "\nworld %" PRIu32 "\n"
#define TEXT_IN                                                                        \
    "dlrover-start 2 job %20" SCNd64 " step %20" SCNd64 " port %20" SCNd64             \
    " space %16" SCNx64 " program %16" SCNx64 " world %10" SCNu32

static int64_t number(const char *name)
{
    const char *text = getenv(name);
    unsigned value;

    return text && dlr_parse_uint(text, UINT32_MAX, &value) == 0 ? (int64_t)value : -1;
}

void dlr_standalone_start_get(int world, struct dlr_standalone_start *ret)
{
    const char *space = getenv("PMIX_NAMESPACE");
    char program[DLR_META_PROGRAM_MAX];

    *ret = (struct dlr_standalone_start){.job = number("SLURM_JOB_ID"),
                                         .step = -1,
                                         .port = number("MASTER_PORT"),
                                         .world = (uint32_t)world};
    /* Several sruns or mpiruns may start the nodes of one program. */
    if (number("SLURM_STEP_NUM_TASKS") == world)
        ret->step = number("SLURM_STEP_ID");
    if (space && number("OMPI_COMM_WORLD_SIZE") == world)
        ret->space = dlr_slot_key(space);
    dlr_standalone_program(program);
    if (*program)
        ret->program = dlr_slot_key(program);
}

static bool both(int64_t a, int64_t b)
{
    return a >= 0 && b >= 0;
}

bool dlr_standalone_start_differs(const struct dlr_standalone_start *a,
                                  const struct dlr_standalone_start *b)
{
    if (a->world != b->world || (both(a->job, b->job) && a->job != b->job) ||
        (both(a->port, b->port) && a->port != b->port))
        return true;
    if (both(a->step, b->step) && a->step != b->step)
        return true;
    if (a->space && b->space && a->space != b->space)
        return true;
    /* A launcher may start several programs as one. */
    if (both(a->port, b->port) || both(a->step, b->step) || (a->space && b->space))
        return false;
    return a->program && b->program && a->program != b->program;
}

void dlr_standalone_start_text(const struct dlr_standalone_start *start,
                               char buf[DLR_STANDALONE_START_MAX])
{
    dlr_format(buf, DLR_STANDALONE_START_MAX, TEXT_OUT, start->job, start->step,
               start->port, start->space, start->program, start->world);
}

int dlr_standalone_start_parse(const char *text, struct dlr_standalone_start *ret)
{
    char again[DLR_STANDALONE_START_MAX];
    struct dlr_standalone_start s;

    if (sscanf(text, TEXT_IN, &s.job, &s.step, &s.port, &s.space, &s.program,
               &s.world) != 6)
        return -EBADMSG;
    dlr_standalone_start_text(&s, again);
    if (!dlr_streq(again, text))
        return -EBADMSG;
    *ret = s;
    return 0;
}

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && dlr_streq(text + n - m, end);
}

/* Behind the interpreter: the first file that is Python's by its name, whatever runs it
 * (pdb, coverage); else the first word that is no option.
 */
static const char *script_of(const char *word, const char *end)
{
    const char *first = "";

    for (; word < end; word += strlen(word) + 1) {
        if (dlr_streq(word, "-c") || dlr_streq(word, "-"))
            return first;
        if (ends_in(word, ".py"))
            return word;
        if (!*first && *word != '-')
            first = word;
    }
    return first;
}

void dlr_standalone_program_of(const char *words, size_t bytes,
                               char ret[DLR_META_PROGRAM_MAX])
{
    const char *name = bytes > 0 && !words[bytes - 1] ? file_of(words) : "";

    if (dlr_after(name, "python"))
        name = file_of(script_of(words + strlen(words) + 1, words + bytes));
    if (!dlr_standalone_is_plain(name))
        name = "";
    snprintf(ret, DLR_META_PROGRAM_MAX, "%.*s", DLR_META_PROGRAM_MAX - 1, name);
}

void dlr_standalone_program(char ret[DLR_META_PROGRAM_MAX])
{
    DLR_AUTO_CLOSE int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    char words[4096];
    ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof(words) - 1);

    if (n < 0)
        n = 0;
    words[n] = '\0'; /* where they are longer */
    dlr_standalone_program_of(words, (size_t)n + 1, ret);
}
