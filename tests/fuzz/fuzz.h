/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz targets share. A target is one file that defines LLVMFuzzerTestOneInput()
 * and says what it is linked with (mk/libraries.mk); tests/fuzz/corpus/NAME/ holds what
 * it begins with.
 */
#ifndef DLR_TESTS_FUZZ_H
#define DLR_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold whatever comes; its failure is a crash of the target. */
#define FUZZ_CHECK(what)                                                               \
    do {                                                                               \
        if (!(what))                                                                   \
            __builtin_trap();                                                          \
    } while (0)

/* The bytes as a string on the heap; the caller frees it. Bytes behind a NUL are lost.
 */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Cuts the next line off *text; NULL after the last. */
static inline char *fuzz_line(char **text)
{
    char *line = *text, *end = line ? strchrnul(line, '\n') : NULL;

    if (!line)
        return NULL;
    *text = *end ? end + 1 : NULL;
    *end = '\0';
    return line;
}

#endif
