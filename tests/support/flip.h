/* SPDX-License-Identifier: Apache-2.0 */
/* A bit of a file changed behind everybody's back. */
#ifndef DLR_TESTS_SUPPORT_FLIP_H
#define DLR_TESTS_SUPPORT_FLIP_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

/* Flips a bit of byte at of folder/name; the same call once more puts it right. */
static inline void flip_bit(const char *folder, const char *name, off_t at)
{
    char path[256];
    unsigned char byte;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

#endif
