/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "mpi_launcher/unwind/python.h"

static void read_python(struct dlr_held *held, void *arg)
{
    const struct dlr_python *python = arg;
    dlr_frame_text *frames = malloc(DLR_UNWIND_FRAMES * sizeof(*frames));

    if (!frames)
        return;
    held->npython = dlr_python_frames(python, held, frames, DLR_UNWIND_FRAMES);
    held->python = realloc(frames, (held->npython + 1) * sizeof(*frames));
}

/* Reads one thread after the other out of the copies. */
static void tell(struct dlr_native *native, const struct dlr_unwind_thread *threads,
                 const struct dlr_held *held, unsigned n, int64_t deadline_ms,
                 const struct dlr_unwind_ops *ops, void *arg)
{
    DLR_AUTO_FREE dlr_frame_text *frames = calloc(DLR_UNWIND_FRAMES, sizeof(*frames));

    for (unsigned i = 0; frames && i < n; i++) {
        struct dlr_unwound u = {.thread = &threads[i],
                                .native = frames,
                                .python = held[i].python,
                                .npython = held[i].npython,
                                .rc = held[i].rc};

        if (native && held[i].rc == 0)
            u.nnative =
                dlr_native_frames(native, &held[i], deadline_ms, frames, &u.whole);
        ops->thread(arg, &u);
    }
}

static void note(const struct dlr_unwind_ops *ops, void *arg, pid_t pid,
                 const char *text)
{
    char line[DLR_STACK_FRAME];

    snprintf(line, sizeof(line), "process %d: %.220s", (int)pid, text);
    ops->note(arg, line);
}

static int hold_all(pid_t pid, struct dlr_held *held, unsigned n, int64_t deadline_ms,
                    const struct dlr_python *python, const struct dlr_unwind_ops *ops,
                    void *arg)
{
    char line[DLR_STACK_FRAME];
    unsigned failed = 0;

    dlr_hold_threads(held, n, deadline_ms, python->layout ? read_python : NULL,
                     (void *)python);
    for (unsigned i = 0; i < n; i++)
        failed += held[i].rc < 0 && held[i].rc != -ETIMEDOUT;
    if (failed < n)
        return 0;
    dlr_unwind_refusal(pid, held[0].rc, line, sizeof(line));
    ops->note(arg, line);
    return held[0].rc;
}

int dlr_unwind_process(pid_t pid, int64_t deadline_ms, const struct dlr_unwind_ops *ops,
                       void *arg)
{
    DLR_AUTO_FREE struct dlr_unwind_thread *threads =
        calloc(DLR_UNWIND_THREADS, sizeof(*threads));
    DLR_AUTO_FREE struct dlr_held *held = calloc(DLR_UNWIND_THREADS, sizeof(*held));
    struct dlr_python python = {0};
    struct dlr_native *native = NULL;
    struct dlr_err err = {0}, none = {0};
    char line[DLR_STACK_FRAME];
    int n = -ENOMEM, rc;
    unsigned more = 0;

    if (threads && held)
        n = dlr_unwind_threads(pid, threads, &more);
    if (n < 0) {
        dlr_unwind_refusal(pid, n, line, sizeof(line));
        ops->note(arg, line);
        return n;
    }
    if (dlr_native_open(pid, &native, &err) == 0)
        dlr_python_open(native, pid, &python, &none);
    for (int i = 0; i < n; i++)
        held[i].tid = threads[i].tid;
    rc = hold_all(pid, held, (unsigned)n, deadline_ms, &python, ops, arg);
    if (rc == 0 && err.code < 0)
        note(ops, arg, pid, err.text);
    if (rc == 0 && none.code < 0)
        note(ops, arg, pid, none.text);
    if (rc == 0)
        tell(native, threads, held, (unsigned)n, deadline_ms, ops, arg);
    if (rc == 0 && more)
        note(ops, arg, pid, "it has more threads than are read");
    if (rc == 0 && dlr_now_ms() >= deadline_ms)
        note(ops, arg, pid, "the time was too short for all frames");
    dlr_held_done(held, (unsigned)n);
    dlr_native_close(native);
    return rc;
}
