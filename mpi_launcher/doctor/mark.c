/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/doctor/mark.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define MAX_BYTES (256u << 20)
#define OUR_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

/* What stands behind the mark of this name, "" when there is none. */
static void find(const char *text, size_t size, const char *name,
                 char ret[DLR_MARK_TEXT])
{
    static const char mark[] = "@(#)"; /* apart, or this program's own would be found */
    const char *end = text + size;
    size_t len = strlen(name);

    ret[0] = '\0';
    while ((text = memmem(text, (size_t)(end - text), mark, sizeof(mark) - 1))) {
        text += sizeof(mark) - 1;
        if ((size_t)(end - text) < len || memcmp(text, name, len) != 0)
            continue;
        for (text += len; text < end && !*text; text++)
            ; /* the name's field may be longer */
        size = (size_t)(end - text);
        dlr_format(ret, DLR_MARK_TEXT, "%.*s",
                   (int)(size < DLR_MARK_TEXT ? size : DLR_MARK_TEXT - 1), text);
        return;
    }
}

void dlr_marks_find(const char *text, size_t size, struct dlr_marks *ret)
{
    find(text, size, "dlrover ", ret->version);
    find(text, size, "spank_dlrover ", ret->slurm);
}

int dlr_marks_load(const char *path, struct dlr_marks *ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size;
    int rc = dlr_file_load(AT_FDCWD, path, MAX_BYTES, &text, &size, err);

    if (rc < 0)
        return rc;
    if (size < sizeof(Elf32_Ehdr) || memcmp(text, ELFMAG, SELFMAG) != 0 ||
        text[EI_CLASS] != OUR_CLASS)
        return dlr_fail(err, -ENOEXEC, "'%s' is no library of this machine", path);
    dlr_marks_find(text, size, ret);
    return 0;
}
