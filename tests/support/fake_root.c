/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "common/base/str.h"

void fake_root_put(const char *root, const char *path, const char *text)
{
    char full[1024], *slash;
    FILE *f;

    dlr_format(full, sizeof(full), "%s%s", root, path);
    slash = strrchr(full, '/');
    *slash = '\0';
    assert_int_equal(dlr_mkdirs(full, 0755, NULL), 0);
    *slash = '/';
    if (dlr_after(text, "-> ")) {
        assert_int_equal(symlink(dlr_after(text, "-> "), full), 0);
        return;
    }
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

int fake_root_clear(const char *root)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -rf %s/*", root);
    return system(command);
}
