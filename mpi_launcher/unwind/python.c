/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/unwind/thread.h"

#define THREADS_MAX 4096
#define TABLE_MAX (256u << 10) /* bytes of a table of lines */
#define LETTERS 128            /* of a name that are read */
#define OWNED_BY_C 3           /* no frame of a program: the interpreter's own */
#define MEMBERS 64             /* bytes of a structure's name, at most */

/* Where things are, in bytes: offsetof() of each in the headers of that release. */
struct dlr_python_layout {
    unsigned version; /* Py_Version >> 16 */
    size_t interpreters, first_thread;
    size_t next_thread, thread_id, native_id;
    size_t current; /* of a thread: the frame, or what points at it */
    int cframe;     /* where that has the frame; -1: the thread has it */
    size_t previous, code, instruction, owner;
    size_t filename, name, first_line, lines, instructions;
    size_t ascii, compact; /* sizes of what stands before the letters */
};

static const struct dlr_python_layout layouts[] = {
    {.version = 0x030b,
     .interpreters = 40,
     .first_thread = 16,
     .next_thread = 8,
     .thread_id = 152,
     .native_id = 160,
     .current = 56,
     .cframe = 8,
     .previous = 48,
     .code = 32,
     .instruction = 56,
     .owner = 69,
     .filename = 112,
     .name = 128,
     .first_line = 72,
     .lines = 136,
     .instructions = 184,
     .ascii = 48,
     .compact = 72},
    {.version = 0x030c,
     .interpreters = 40,
     .first_thread = 72,
     .next_thread = 8,
     .thread_id = 136,
     .native_id = 144,
     .current = 56,
     .cframe = 0,
     .previous = 8,
     .code = 0,
     .instruction = 56,
     .owner = 70,
     .filename = 112,
     .name = 128,
     .first_line = 68,
     .lines = 136,
     .instructions = 192,
     .ascii = 40,
     .compact = 56},
    {.version = 0x030d,
     .interpreters = 632,
     .first_thread = 7344,
     .next_thread = 8,
     .thread_id = 152,
     .native_id = 160,
     .current = 72,
     .cframe = -1,
     .previous = 8,
     .code = 0,
     .instruction = 56,
     .owner = 70,
     .filename = 112,
     .name = 128,
     .first_line = 68,
     .lines = 136,
     .instructions = 200,
     .ascii = 40,
     .compact = 56},
};
#define NLAYOUTS (sizeof(layouts) / sizeof(*layouts))

static bool fetch(const struct dlr_python *p, uint64_t at, void *buf, size_t size)
{
    return at && dlr_unwind_memory(p->pid, at, buf, size) == (ssize_t)size;
}

static uint64_t pointer(const struct dlr_python *p, uint64_t at)
{
    uint64_t value = 0;

    return fetch(p, at, &value, sizeof(value)) ? value : 0;
}

/* --- text ------------------------------------------------------------------------- */

static size_t put_letter(uint32_t c, char *buf)
{
    if (c < 0x80) {
        buf[0] = (char)c;
        return 1;
    }
    buf[0] = '?';
    return 1;
}

/* A str of the process; "" when it is none. Letters other than ASCII become '?'. */
static void text_at(const struct dlr_python *p, uint64_t at, char buf[LETTERS + 1])
{
    unsigned char head[48], letters[4 * LETTERS];
    uint64_t type, length;
    uint32_t state;
    size_t width, used = 0;

    buf[0] = '\0';
    if (!fetch(p, at, head, sizeof(head)))
        return;
    memcpy(&type, head + 8, sizeof(type));
    memcpy(&length, head + 16, sizeof(length));
    memcpy(&state, head + 32, sizeof(state));
    width = state >> 2 & 7;
    if (type != p->unicode_type || !(state >> 5 & 1) || length > 1u << 20 ||
        (width != 1 && width != 2 && width != 4))
        return;
    at += state >> 6 & 1 ? p->layout->ascii : p->layout->compact;
    /* of a long path the end */
    if (length > LETTERS) {
        at += (length - LETTERS) * width;
        length = LETTERS;
    }
    if (!fetch(p, at, letters, length * width))
        return;
    for (size_t i = 0; i < length; i++) {
        uint32_t c = 0;

        memcpy(&c, letters + i * width, width);
        used += put_letter(c, buf + used);
    }
    buf[used] = '\0';
}

/* --- lines ------------------------------------------------------------------------ */

/* A number of 6 bits a byte, the lowest first. */
static uint64_t number_at(const unsigned char *table, size_t size, size_t *at)
{
    uint64_t value = 0;
    unsigned shift = 0;

    while (*at < size) {
        unsigned char byte = table[(*at)++];

        if (shift < 60)
            value |= (uint64_t)(byte & 63) << shift;
        shift += 6;
        if (!(byte & 64))
            break;
    }
    return value;
}

static int64_t difference(uint64_t value)
{
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

unsigned dlr_python_line(const unsigned char *table, size_t size, unsigned first,
                         uint64_t offset)
{
    int64_t line = first;
    uint64_t end = 0;
    size_t at = 0;

    while (at < size) {
        unsigned kind = table[at] >> 3 & 15;

        end += ((table[at] & 7u) + 1) * 2;
        at++;
        if (kind == 13 || kind == 14)
            line += difference(number_at(table, size, &at));
        else if (kind >= 10 && kind <= 12)
            line += kind - 10;
        if (offset < end)
            return kind == 15 || line <= 0 || line > INT32_MAX ? first : (unsigned)line;
        /* where an entry begins has its highest bit set */
        while (at < size && !(table[at] & 0x80))
            at++;
    }
    return first;
}

static unsigned line_of(const struct dlr_python *p, uint64_t code, uint64_t instruction)
{
    const struct dlr_python_layout *l = p->layout;
    uint64_t bytes = pointer(p, code + l->lines), size = 0;
    int32_t first = 0;
    unsigned char *table;
    unsigned line;

    fetch(p, code + l->first_line, &first, sizeof(first));
    if (!fetch(p, bytes + 16, &size, sizeof(size)) || size == 0 || size > TABLE_MAX ||
        instruction < code + l->instructions || first < 0)
        return first > 0 ? (unsigned)first : 0;
    table = malloc(size);
    if (!table)
        return (unsigned)first;
    line = fetch(p, bytes + 32, table, size)
               ? dlr_python_line(table, size, (unsigned)first,
                                 instruction - code - l->instructions)
               : (unsigned)first;
    free(table);
    return line;
}

/* --- frames ----------------------------------------------------------------------- */

static uint64_t find_thread(const struct dlr_python *p, const struct dlr_held *held)
{
    const struct dlr_python_layout *l = p->layout;
    uint64_t interpreter = pointer(p, p->runtime + l->interpreters);
    uint64_t thread = interpreter ? pointer(p, interpreter + l->first_thread) : 0;

    for (unsigned i = 0; thread && i < THREADS_MAX; i++) {
        if (pointer(p, thread + l->native_id) == (uint64_t)held->tid ||
            (held->thread_pointer &&
             pointer(p, thread + l->thread_id) == held->thread_pointer))
            return thread;
        thread = pointer(p, thread + l->next_thread);
    }
    return 0;
}

static bool name_frame(const struct dlr_python *p, const unsigned char *frame,
                       char text[DLR_STACK_FRAME])
{
    const struct dlr_python_layout *l = p->layout;
    char name[LETTERS + 1], file[LETTERS + 1];
    const char *base;
    uint64_t code, instruction;

    memcpy(&code, frame + l->code, sizeof(code));
    memcpy(&instruction, frame + l->instruction, sizeof(instruction));
    if (pointer(p, code + 8) != p->code_type)
        return false;
    text_at(p, pointer(p, code + l->name), name);
    text_at(p, pointer(p, code + l->filename), file);
    base = strrchr(file, '/');
    base = base ? base + 1 : file;
    snprintf(text, DLR_STACK_FRAME, "%s (%.80s:%u)", name[0] ? name : "?", base,
             line_of(p, code, instruction));
    return true;
}

unsigned dlr_python_frames(const struct dlr_python *p, const struct dlr_held *held,
                           dlr_frame_text *ret, unsigned max)
{
    const struct dlr_python_layout *l = p->layout;
    uint64_t thread = find_thread(p, held), frame;
    unsigned n = 0;

    frame = thread ? pointer(p, thread + l->current) : 0;
    if (frame && l->cframe >= 0)
        frame = pointer(p, frame + (size_t)l->cframe);
    for (unsigned i = 0; frame && i < 2 * DLR_UNWIND_FRAMES && n < max; i++) {
        unsigned char bytes[MEMBERS + 16];

        if (!fetch(p, frame, bytes, sizeof(bytes)))
            break;
        if (bytes[l->owner] != OWNED_BY_C) {
            if (!name_frame(p, bytes, ret[n]))
                break;
            n++;
        }
        memcpy(&frame, bytes + l->previous, sizeof(frame));
    }
    return n;
}

/* --- a process -------------------------------------------------------------------- */

int dlr_python_open(struct dlr_native *native, pid_t pid, struct dlr_python *ret,
                    struct dlr_err *err)
{
    struct dlr_python p = {.pid = pid,
                           .runtime = dlr_native_python_symbol(native, "_PyRuntime")};
    uint64_t version = 0;

    if (!p.runtime)
        return 0;
    p.code_type = dlr_native_python_symbol(native, "PyCode_Type");
    p.unicode_type = dlr_native_python_symbol(native, "PyUnicode_Type");
    fetch(&p, dlr_native_python_symbol(native, "Py_Version"), &version,
          sizeof(version));
    for (size_t i = 0; i < NLAYOUTS; i++)
        if (layouts[i].version == version >> 16)
            p.layout = &layouts[i];
    if (!version)
        return dlr_fail(err, -ENOSYS, "frames of Python before 3.11 are not known");
    if (!p.layout)
        return dlr_fail(err, -ENOSYS, "frames of Python %u.%u are not known",
                        (unsigned)(version >> 24), (unsigned)(version >> 16 & 0xff));
    *ret = p;
    return 1;
}
