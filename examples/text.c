/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/text.h"

#include "examples/charlm.h"
#include "examples/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MIN = 4096 };

struct text {
    uint8_t *codes;
    size_t n, room;
    struct stat *read; /* what was read already */
    unsigned files;
};

static int append(struct text *text, const unsigned char *bytes, size_t n)
{
    if (text->room - text->n < n) {
        size_t room = 2 * text->room + n;
        uint8_t *bigger = realloc(text->codes, room);

        if (!bigger)
            return -ENOMEM;
        text->codes = bigger;
        text->room = room;
    }
    for (size_t i = 0; i < n; i++)
        text->codes[text->n++] = charlm_code(bytes[i]);
    return 0;
}

static int append_file(struct text *text, FILE *file)
{
    unsigned char bytes[4096];
    size_t n;
    int rc = 0;

    while (rc == 0 && (n = fread(bytes, 1, sizeof(bytes), file)) > 0)
        rc = append(text, bytes, n);
    return rc == 0 && ferror(file) ? -EIO : rc;
}

static int was_read(const struct text *text, const struct stat *st)
{
    for (unsigned i = 0; i < text->files; i++)
        if (text->read[i].st_dev == st->st_dev && text->read[i].st_ino == st->st_ino)
            return 1;
    return 0;
}

/* Leaves out what is no regular file, or was read under another name. */
static int append_entry(struct text *text, int dir, const char *name)
{
    struct stat st;
    FILE *file;
    int rc, fd;

    if (fstatat(dir, name, &st, 0) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || was_read(text, &st))
        return 0;
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    file = fdopen(fd, "r");
    if (!file) {
        rc = -errno;
        close(fd);
        return rc;
    }
    rc = append_file(text, file);
    fclose(file);
    text->read[text->files++] = st;
    return rc;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int load(struct text *text, const char *dir)
{
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0, n;
    struct dirent **names = NULL;

    if (dirfd < 0)
        return -errno;
    n = scandirat(dirfd, ".", &names, NULL, by_name);
    if (n < 0)
        rc = -errno;
    text->read = calloc(n > 0 ? n : 1, sizeof(*text->read));
    if (!text->read)
        rc = -ENOMEM;
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = append_entry(text, dirfd, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    close(dirfd);
    return rc;
}

int text_load(const char *dir, uint8_t **ret_codes, size_t *ret_n)
{
    struct text text = {0};
    int rc = load(&text, dir);

    free(text.read);
    if (rc == 0 && text.n < TEXT_MIN)
        rc = -ENODATA;
    if (rc < 0) {
        free(text.codes);
        return rc;
    }
    *ret_codes = text.codes;
    *ret_n = text.n;
    return 0;
}

void text_draw(const uint8_t *codes, size_t n, uint64_t seed, uint64_t step,
               unsigned rank, size_t length, size_t batch, uint8_t *samples)
{
    uint64_t stream = random_at(random_at(seed, step), rank);

    for (size_t s = 0; s < batch; s++, samples += length)
        memcpy(samples, codes + random_at(stream, s) % (n - length + 1), length);
}
