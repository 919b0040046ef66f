/* SPDX-License-Identifier: Apache-2.0 */
/* A process into a tree. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/unwind/process.h"

#define EVALUATOR "_PyEval_EvalFrameDefault" /* runs the frames of Python */
#define PATH_MAX_FRAMES (2 * DLR_UNWIND_FRAMES + 4)

struct branch {
    struct dlr_stack_tree *tree;
    json_t *notes;
    uint32_t rank;
    pid_t pid;
    char program_text[40];
    int rc;
};

/* How many of the native frames the innermost frame of Python has called. */
static unsigned below_python(const struct dlr_unwound *u)
{
    if (u->npython == 0)
        return u->nnative;
    for (unsigned i = 0; i < u->nnative; i++)
        if (dlr_after(u->native[i], EVALUATOR))
            return i;
    return 0;
}

static void describe(const struct dlr_unwound *u, char *buf, size_t size)
{
    const struct dlr_unwind_thread *t = u->thread;

    if (u->rc < 0)
        snprintf(buf, size, "[%s; %s in %s]",
                 u->rc == -ETIMEDOUT ? "it does not stop" : strerror(-u->rc),
                 t->state == 'D' ? "uninterruptible" : "waits",
                 t->wchan[0] ? t->wchan : "?");
    else if (t->state == 'T')
        snprintf(buf, size, "[stopped by a signal]");
    else if (t->state == 'R' || (!t->waits[0] && t->state == '?'))
        snprintf(buf, size, "[runs]");
    else if (t->waits[0])
        snprintf(buf, size, "[%s%s]", t->waits,
                 t->state == 'D' ? "; uninterruptible" : "");
    else
        snprintf(buf, size, "[state %c%s%s]", t->state, t->wchan[0] ? ", " : "",
                 t->wchan);
}

static void take_thread(void *arg, const struct dlr_unwound *u)
{
    struct branch *b = arg;
    const char *path[PATH_MAX_FRAMES];
    char thread[80], waits[DLR_STACK_FRAME];
    size_t n = 0;

    if (!b->program_text[0])
        snprintf(b->program_text, sizeof(b->program_text), "%s", u->thread->comm);
    path[n++] = b->program_text;
    if (u->thread->tid != b->pid) {
        snprintf(thread, sizeof(thread), "thread '%s'", u->thread->comm);
        path[n++] = thread;
    }
    for (unsigned i = u->npython; i-- > 0;)
        path[n++] = u->python[i];
    for (unsigned i = below_python(u); i-- > 0;)
        path[n++] = u->native[i];
    describe(u, waits, sizeof(waits));
    path[n++] = waits;
    if (b->rc == 0)
        b->rc = dlr_stack_tree_add(b->tree, path, n, b->rank);
}

static void take_note(void *arg, const char *text)
{
    struct branch *b = arg;
    char line[DLR_STACK_FRAME];

    snprintf(line, sizeof(line), "rank %u: %.230s", b->rank, text);
    dlr_plain(line);
    json_array_append_new(b->notes, json_string(line));
}

int dlr_unwind_into(struct dlr_stack_tree *tree, pid_t pid, uint32_t rank,
                    int64_t deadline_ms, json_t *notes)
{
    static const struct dlr_unwind_ops ops = {take_thread, take_note};
    struct branch b = {.tree = tree, .notes = notes, .rank = rank, .pid = pid};
    int rc = dlr_unwind_process(pid, deadline_ms, &ops, &b);

    return b.rc < 0 ? b.rc : rc;
}
