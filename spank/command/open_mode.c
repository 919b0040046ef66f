/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/command/open_mode.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define SCRIPT_MAX (16u << 20) /* bytes; Slurm's max_script_size is 4 MB by default */

static bool lines_say(const char *text)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        const char *rest, *at;

        line += line != text;
        rest = dlr_after(line, "#SBATCH");
        at = rest ? strstr(rest, "--op") : NULL; /* no other option begins so */
        if (at && at < rest + strcspn(rest, "\n"))
            return true;
    }
    return false;
}

static bool script_says(const char *path)
{
    DLR_AUTO_FREE char *text = NULL;
    struct stat st;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        dlr_file_load(AT_FDCWD, path, SCRIPT_MAX, &text, NULL, NULL) < 0)
        return true;
    return lines_say(text);
}

bool dlr_open_mode_said(char *const argv[], size_t own)
{
    bool wrap = false;

    for (size_t i = 1; i < own; i++) {
        if (dlr_after(argv[i], "--op"))
            return true;
        wrap |= dlr_after(argv[i], "--wrap") != NULL;
    }
    if (wrap)
        return false;
    return script_says(argv[own] ? argv[own] : "/proc/self/fd/0");
}
