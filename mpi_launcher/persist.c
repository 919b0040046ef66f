/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/persist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/msg.h"
#include "common/str.h"

#define MANIFEST_MAX (64u << 20) /* bytes: 64 per rank at DLR_PLAN_RANKS_MAX */
#define SUFFIX ".slot"

int dlr_persist_path(const char *dir, int32_t rank, struct dlr_version version,
                     char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/r%d-%u-%llu" SUFFIX, dir, rank, version.round,
                      (unsigned long long)version.step);
}

static int open_dir(const char *dir, struct dlr_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", dir, strerror(errno));
    return fd;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Each rank of one version, once, of one world and layout. */
static int check_whole(const struct dlr_plan_file *files, unsigned n,
                       struct dlr_err *err)
{
    const struct dlr_plan_copy *first = &files[0].copy;
    DLR_AUTO_FREE bool *seen = calloc(n ? n : 1, sizeof(*seen));

    if (!seen)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (n == 0 || n != first->world)
        return dlr_fail(err, -EINVAL, "%u of %u ranks in the manifest", n,
                        n ? first->world : 0);
    for (unsigned i = 0; i < n; i++) {
        const struct dlr_plan_copy *c = &files[i].copy;

        if (c->rank < 0 || (unsigned)c->rank >= n || seen[c->rank])
            return dlr_fail(err, -EINVAL, "rank %d twice or out of range", c->rank);
        if (c->world != first->world || c->layout != first->layout ||
            !dlr_version_eq(c->version, first->version))
            return dlr_fail(err, -EINVAL, "rank %d is of another version", c->rank);
        seen[c->rank] = true;
    }
    return 0;
}

static json_t *manifest(const struct dlr_plan_file *files, unsigned n)
{
    const struct dlr_plan_copy *first = &files[0].copy;
    json_t *list = json_array();
    char layout[17];

    dlr_format(layout, sizeof(layout), "%016llx", (unsigned long long)first->layout);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:I}", "rank", files[i].copy.rank,
                                        "file", base_name(files[i].path), "bytes",
                                        (json_int_t)files[i].copy.bytes));
    return json_pack("{s:i, s:s, s:i, s:I, s:I, s:s, s:o}", "v", DLR_MSG_VERSION, "t",
                     "manifest", "world", (int)first->world, "vround",
                     (json_int_t)first->version.round, "step",
                     (json_int_t)first->version.step, "layout", layout, "files", list);
}

static bool named(const struct dlr_plan_file *files, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (dlr_streq(base_name(files[i].path), name))
            return true;
    return false;
}

/* Best effort: what cannot be removed only takes room. */
static void prune(const char *dir, const struct dlr_plan_file *files, unsigned n)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        if (e->d_name[0] != 'r' || len < sizeof(SUFFIX) ||
            !dlr_streq(e->d_name + len - strlen(SUFFIX), SUFFIX))
            continue;
        if (!named(files, n, e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    }
}

int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open_dir(dir, err);
    DLR_AUTO_JSON json_t *m = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct iovec part;
    int rc;

    if (fd < 0)
        return fd;
    rc = check_whole(files, n, err);
    if (rc < 0)
        return rc;
    m = manifest(files, n);
    text = m ? dlr_msg_text(m) : NULL;
    if (!text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    part = (struct iovec){text, strlen(text)};
    rc = dlr_file_replace(fd, DLR_PERSIST_MANIFEST, 0600, &part, 1, err);
    if (rc < 0)
        return rc;
    prune(dir, files, n);
    return 0;
}

static int parse_file(const char *dir, const json_t *j, const struct dlr_plan_copy *all,
                      struct dlr_plan_file *ret)
{
    uint64_t rank, bytes;
    const char *name;

    if (dlr_msg_uint(j, "rank", all->world - 1, &rank) < 0 ||
        dlr_msg_uint(j, "bytes", INT64_MAX, &bytes) < 0 ||
        dlr_msg_str(j, "file", &name) < 0 || strchr(name, '/') || name[0] != 'r')
        return -EBADMSG;
    ret->copy = *all;
    ret->copy.rank = (int32_t)rank;
    ret->copy.bytes = bytes;
    return dlr_format(ret->path, sizeof(ret->path), "%s/%s", dir, name);
}

static int parse_head(const json_t *m, struct dlr_plan_copy *ret,
                      const json_t **ret_list)
{
    uint64_t world, vround, step;
    const char *layout;
    char *end;

    *ret_list = json_object_get(m, "files");
    if (!dlr_streq(dlr_msg_type(m), "manifest") ||
        dlr_msg_uint(m, "world", DLR_PLAN_RANKS_MAX, &world) < 0 || world == 0 ||
        dlr_msg_uint(m, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(m, "step", INT64_MAX, &step) < 0 ||
        dlr_msg_str(m, "layout", &layout) < 0 || !json_is_array(*ret_list) ||
        json_array_size(*ret_list) != world)
        return -EBADMSG;
    ret->world = (uint32_t)world;
    ret->version = (struct dlr_version){(uint32_t)vround, step};
    ret->layout = strtoull(layout, &end, 16);
    return *layout == '\0' || *end != '\0' ? -EBADMSG : 0;
}

int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open_dir(dir, err);
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    DLR_AUTO_JSON json_t *m = NULL;
    struct dlr_plan_copy all = {0};
    const json_t *list;
    size_t size = 0;
    int rc;

    if (fd < 0)
        return fd;
    rc = dlr_file_load(fd, DLR_PERSIST_MANIFEST, MANIFEST_MAX, &text, &size, err);
    if (rc < 0)
        return rc;
    m = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(m) || !json_is_string(json_object_get(m, "t")) ||
        parse_head(m, &all, &list) < 0)
        return dlr_fail(err, -EBADMSG, "'%s/" DLR_PERSIST_MANIFEST "' is malformed",
                        dir);
    files = calloc(all.world, sizeof(*files));
    if (!files)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (unsigned i = 0; i < all.world; i++)
        if (parse_file(dir, json_array_get(list, i), &all, &files[i]) < 0)
            return dlr_fail(err, -EBADMSG,
                            "file %u of the manifest in '%s' is malformed", i, dir);
    rc = check_whole(files, all.world, err);
    if (rc < 0)
        return rc;
    *ret_n = all.world;
    *ret_files = DLR_STEAL(files);
    return 0;
}
