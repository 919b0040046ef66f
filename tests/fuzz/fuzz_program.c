/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/task */
/* The program of a task, which its user has written: whatever it is, the reader ends and
 * gives the name of a loader.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "spank/task/program.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct dlr_program program;
    int rc;

    fd = fd < 0 ? memfd_create("program", MFD_CLOEXEC) : fd;
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    rc = dlr_program_read(fd, &program);
    FUZZ_CHECK(rc <= 0);
    if (rc == 0)
        FUZZ_CHECK(memchr(program.loader, '\0', sizeof(program.loader)));
    return 0;
}
