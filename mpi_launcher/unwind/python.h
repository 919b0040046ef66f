/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Python code, out of the interpreter's own structures, so that neither its
 * lock nor a word of the program is needed. CPython 3.11 to 3.13.
 */
#ifndef DLR_MPI_LAUNCHER_UNWIND_PYTHON_H
#define DLR_MPI_LAUNCHER_UNWIND_PYTHON_H

#include "mpi_launcher/unwind/hold.h"
#include "mpi_launcher/unwind/native.h"

struct dlr_python_layout;

struct dlr_python {
    pid_t pid;
    uint64_t runtime, code_type, unicode_type; /* addresses there */
    const struct dlr_python_layout *layout;
};

/* 1 when the process is a Python that can be read, 0 when it is none; -ENOSYS with text
 * for one of another version.
 */
int dlr_python_open(struct dlr_native *native, pid_t pid, struct dlr_python *ret,
                    struct dlr_err *err);

/* The frames of a thread that is held, the innermost first: "function (file.py:12)". At
 * most max; 0 when it runs no Python. What the memory holds is believed nothing of:
 * garbage ends the list.
 */
unsigned dlr_python_frames(const struct dlr_python *python, const struct dlr_held *held,
                           dlr_frame_text *ret, unsigned max);

/* The line of the instruction that is offset bytes into the code, by its table of
 * locations (CPython 3.11 and later); first when the table does not say.
 */
unsigned dlr_python_line(const unsigned char *table, size_t size, unsigned first,
                         uint64_t offset);

#endif
