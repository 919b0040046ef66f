/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/node,spank/command */
/* Paths and names that a user wrote, as slurmstepd and the epilog look at them: the
 * first byte is the room for an answer, the rest a path. Nothing is there: no socket is
 * opened, and what is found is the path or shorter.
 */
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "tests/fuzz/fuzz.h"

#define JOB 7

static void sink(void *arg, enum dlr_log_level level, const char *text)
{
    for (const char *c = text; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[DLR_MEMORY_NAME] = "dlrover-0-7", *buf, *path;
    struct dlr_err err = {0};
    size_t room;
    int fd = -1;

    if (size == 0)
        return 0;
    dlr_log_to(sink, NULL, DLR_LOG_DEBUG);
    room = data[0] + 1u;
    path = fuzz_text(data + 1, size - 1);
    buf = malloc(room); /* so that one byte beyond is seen */
    FUZZ_CHECK(buf);
    if (dlr_memory_is(path, name))
        FUZZ_CHECK(strlen(path) == strlen(name) || strlen(path) == strlen(name) + 9);
    if (dlr_memory_top(path, buf, room) == 0)
        FUZZ_CHECK(strlen(buf) < strlen(path) && strncmp(buf, path, strlen(buf)) == 0);
    if (dlr_memory_find(path, buf, room) == 0)
        FUZZ_CHECK(strcmp(buf, path) == 0);
    FUZZ_CHECK(dlr_memory_socket("/dev/shm", path, JOB, &fd, &err) < 0 && fd == -1);
    FUZZ_CHECK(err.text[0]);
    dlr_debug("%s", err.text);
    free(buf);
    free(path);
    return 0;
}
