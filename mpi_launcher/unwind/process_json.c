/* SPDX-License-Identifier: Apache-2.0 */
/* A process as an object. */
#include <errno.h>
#include <string.h>

#include "mpi_launcher/unwind/process.h"

struct object {
    json_t *threads, *notes;
    size_t bytes;
};

/* Names of programs and files may hold any byte. */
static json_t *text(struct object *o, const char *from)
{
    char plain[DLR_STACK_FRAME];
    size_t n = strnlen(from, sizeof(plain) - 1);

    for (size_t i = 0; i < n; i++)
        plain[i] = from[i];
    plain[n] = '\0';
    for (char *c = plain; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    o->bytes += n + 4;
    return json_string(plain);
}

static json_t *frames(struct object *o, const dlr_frame_text *from, unsigned n)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n && o->bytes < DLR_STACK_BYTES; i++)
        json_array_append_new(list, text(o, from[i]));
    return list;
}

static void take_thread(void *arg, const struct dlr_unwound *u)
{
    const struct dlr_unwind_thread *t = u->thread;
    char state[2] = {t->state, '\0'};
    struct object *o = arg;
    json_t *j = json_object();

    json_object_set_new(j, "tid", json_integer(t->tid));
    json_object_set_new(j, "comm", text(o, t->comm));
    json_object_set_new(j, "state", text(o, state));
    json_object_set_new(j, "wchan", text(o, t->wchan));
    json_object_set_new(j, "waits", text(o, t->waits));
    json_object_set_new(j, "native", frames(o, u->native, u->nnative));
    json_object_set_new(j, "whole", json_boolean(u->whole));
    json_object_set_new(j, "python", frames(o, u->python, u->npython));
    if (u->rc < 0)
        json_object_set_new(
            j, "error",
            json_string(u->rc == -ETIMEDOUT ? "it does not stop" : strerror(-u->rc)));
    json_array_append_new(o->threads, j);
}

static void take_note(void *arg, const char *note)
{
    struct object *o = arg;

    json_array_append_new(o->notes, text(o, note));
}

json_t *dlr_unwind_json(pid_t pid, int64_t deadline_ms, int *ret_rc)
{
    static const struct dlr_unwind_ops ops = {take_thread, take_note};
    struct object o = {.threads = json_array(), .notes = json_array()};

    *ret_rc = dlr_unwind_process(pid, deadline_ms, &ops, &o);
    return json_pack("{s:i,s:o,s:o}", "pid", (int)pid, "threads", o.threads, "notes",
                     o.notes);
}
