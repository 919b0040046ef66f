/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/doctor/plugstack.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define DEPTH 8 /* includes inside includes */
#define BLANKS " \t\n"

struct reader {
    const char *root, *plugin_dirs;
    struct dlr_plugstack *stack;
    struct dlr_err *err;
};

static int read_conf(struct reader *r, const char *conf, unsigned depth);

static void find_plugin(const struct reader *r, const char *name, char ret[PATH_MAX])
{
    const char *dir = name[0] == '/' || !r->plugin_dirs ? "" : r->plugin_dirs;
    char real[PATH_MAX];

    while (*dir) {
        size_t len = strcspn(dir, ":");

        if (len && dlr_format(ret, PATH_MAX, "%.*s/%s", (int)len, dir, name) == 0 &&
            dlr_format(real, sizeof(real), "%s%s", r->root, ret) == 0 &&
            access(real, F_OK) == 0)
            return;
        dir += len + (dir[len] == ':');
    }
    dlr_format(ret, PATH_MAX, "%s", name);
}

static int add_line(struct reader *r, const char *conf, unsigned line, bool required,
                    const char *plugin, char *words)
{
    struct dlr_plugstack *stack = r->stack;
    struct dlr_plugstack_line *more =
        realloc(stack->lines, (stack->n + 1) * sizeof(*more));
    struct dlr_plugstack_line *l;
    char *rest = words, *word;
    size_t used = 0;

    if (!more)
        return dlr_fail(r->err, -ENOMEM, "out of memory");
    stack->lines = more;
    l = &more[stack->n++];
    memset(l, 0, sizeof(*l));
    dlr_format(l->conf, sizeof(l->conf), "%s", conf);
    l->line = line;
    l->required = required;
    find_plugin(r, plugin, l->plugin);
    while ((word = strtok_r(NULL, BLANKS, &rest)))
        used += (size_t)snprintf(l->words + used, sizeof(l->words) - used, "%s%s",
                                 used ? " " : "", word);
    return 0;
}

static int include(struct reader *r, const char *conf, const char *pattern,
                   unsigned depth)
{
    const char *slash = strrchr(conf, '/');
    char full[PATH_MAX];
    glob_t found;
    int rc = pattern[0] == '/'
                 ? dlr_format(full, sizeof(full), "%s%s", r->root, pattern)
                 : dlr_format(full, sizeof(full), "%s%.*s%s", r->root,
                              slash ? (int)(slash - conf + 1) : 0, conf, pattern);

    if (rc < 0)
        return dlr_fail(r->err, rc, "'%s' includes too long a name", conf);
    if (depth == 0)
        return dlr_fail(r->err, -ELOOP, "'%s' includes '%.128s', which goes too deep",
                        conf, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return 0; /* Slurm is content with no match */
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = read_conf(r, found.gl_pathv[i] + strlen(r->root), depth - 1);
    globfree(&found);
    return rc;
}

static int read_line(struct reader *r, const char *conf, unsigned line, char *text,
                     unsigned depth)
{
    char *rest = NULL, *kind, *path;

    text[strcspn(text, "#")] = '\0';
    kind = strtok_r(text, BLANKS, &rest);
    if (!kind)
        return 0;
    path = strtok_r(NULL, BLANKS, &rest);
    if (path && dlr_streq(kind, "include"))
        return include(r, conf, path, depth);
    if (path && (dlr_streq(kind, "optional") || dlr_streq(kind, "required")))
        return add_line(r, conf, line, kind[0] == 'r', path, rest);
    if (!r->stack->bad[0])
        dlr_format(r->stack->bad, sizeof(r->stack->bad), "%.300s:%u", conf, line);
    return 0;
}

static int read_conf(struct reader *r, const char *conf, unsigned depth)
{
    char full[PATH_MAX], text[DLR_PLUGSTACK_LINE];
    DLR_AUTO_FCLOSE FILE *f = NULL;
    unsigned line = 0;
    int rc = dlr_format(full, sizeof(full), "%s%s", r->root, conf);

    if (rc < 0)
        return dlr_fail(r->err, rc, "the name of '%.128s...' is too long", conf);
    f = fopen(full, "re");
    if (!f && errno == ENOENT)
        return 0;
    if (!f)
        return dlr_fail(r->err, -errno, "cannot read '%s': %s", conf, strerror(errno));
    while (rc == 0 && fgets(text, sizeof(text), f))
        rc = read_line(r, conf, ++line, text, depth);
    return rc;
}

int dlr_plugstack_load(const char *root, const char *conf, const char *plugin_dirs,
                       struct dlr_plugstack *ret, struct dlr_err *err)
{
    struct reader r = {root, plugin_dirs, ret, err};
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = read_conf(&r, conf, DEPTH);
    if (rc < 0)
        dlr_plugstack_done(ret);
    return rc;
}

void dlr_plugstack_done(struct dlr_plugstack *stack)
{
    free(stack->lines);
    memset(stack, 0, sizeof(*stack));
}
