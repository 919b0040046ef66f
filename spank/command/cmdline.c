/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/command/cmdline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"

#define PIECE 65536
#define LIMIT (64u << 20) /* far above what execve(2) takes */

char **dlr_cmdline_split(char *text, size_t size)
{
    size_t count = 0, at = 0;
    char **argv;

    text[size] = '\0';
    for (size_t i = 0; i < size; i += strlen(text + i) + 1)
        count++;
    argv = calloc(count + 1, sizeof(*argv));
    if (!argv)
        return NULL;
    for (size_t i = 0; i < size; i += strlen(text + i) + 1)
        argv[at++] = text + i;
    return argv;
}

/* A file of /proc has no size to ask for. */
static int read_text(int fd, char **ret_text, size_t *ret_size)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0, room = 0;

    for (;;) {
        ssize_t n;

        if (room - size < 2) {
            char *more = room < LIMIT ? realloc(text, room + PIECE) : NULL;

            if (!more)
                return room < LIMIT ? -ENOMEM : -E2BIG;
            text = more;
            room += PIECE;
        }
        n = read(fd, text + size, room - size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += n;
    }
    *ret_text = DLR_STEAL(text);
    *ret_size = size;
    return 0;
}

static int load(const char *path, char **ret_text, char ***ret_words,
                struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    int rc = fd < 0 ? -errno : read_text(fd, &text, &size);

    if (rc < 0)
        return dlr_fail(err, rc, "cannot read %s: %s", path, strerror(-rc));
    *ret_words = dlr_cmdline_split(text, size);
    if (!*ret_words)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *ret_text = DLR_STEAL(text);
    return 0;
}

int dlr_cmdline_argv(char **ret_text, char ***ret_words, struct dlr_err *err)
{
    return load("/proc/self/cmdline", ret_text, ret_words, err);
}

int dlr_cmdline_environ(char **ret_text, char ***ret_words, struct dlr_err *err)
{
    return load("/proc/self/environ", ret_text, ret_words, err);
}
