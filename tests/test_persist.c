/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/persist.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/str.h"

static char dir[64];

static int make_dir(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-persist-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char cmd[128];

    dlr_format(cmd, sizeof(cmd), "rm -r '%s'", dir);
    return system(cmd);
}

static void touch(const char *name)
{
    char path[128];
    int fd;

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void fill(struct dlr_plan_file *files, unsigned n)
{
    memset(files, 0, n * sizeof(*files));
    for (unsigned i = 0; i < n; i++) {
        files[i].copy = (struct dlr_plan_copy){.rank = (int32_t)(n - 1 - i),
                                               .world = n,
                                               .version = {2, 120},
                                               .bytes = 4096 + i,
                                               .layout = 0xfedcba9876543210};
        dlr_persist_path(dir, files[i].copy.rank, files[i].copy.version, files[i].path,
                         sizeof(files[i].path));
    }
}

static void a_manifest_survives_the_way_and_prunes(void **state)
{
    struct dlr_plan_file files[3];
    DLR_AUTO_FREE struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    unsigned n = 0;

    fill(files, 3);
    touch("r0-2-120.safetensors");
    touch("r0-1-90.safetensors");
    touch("notes.slot.txt");
    assert_int_equal(dlr_persist_save(dir, files, 3, 1, &err), 0);
    assert_true(there("r0-2-120.safetensors"));
    assert_false(there("r0-1-90.safetensors"));
    assert_true(there("notes.slot.txt"));
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), 0);
    assert_int_equal(n, 3);
    for (unsigned i = 0; i < 3; i++) { /* in the order of ranks */
        assert_int_equal(got[2 - i].copy.rank, files[i].copy.rank);
        assert_int_equal(got[2 - i].copy.world, 3);
        assert_true(dlr_version_eq(got[2 - i].copy.version, files[i].copy.version));
        assert_int_equal(got[2 - i].copy.bytes, files[i].copy.bytes);
        assert_true(got[2 - i].copy.layout == 0xfedcba9876543210);
        assert_string_equal(got[2 - i].path, files[i].path);
    }
}

static void what_is_not_whole_is_refused(void **state)
{
    struct dlr_plan_file files[2];
    struct dlr_err err = {0};

    fill(files, 2);
    assert_int_equal(dlr_persist_save(dir, files, 1, 1, &err), -EINVAL);
    assert_string_equal(err.text, "1 of 2 ranks in the manifest");
    assert_int_equal(dlr_persist_save(dir, files, 0, 1, &err), -EINVAL);
    files[1].copy.rank = files[0].copy.rank;
    assert_int_equal(dlr_persist_save(dir, files, 2, 1, &err), -EINVAL);
    assert_string_equal(err.text, "rank 1 twice or out of range");
    fill(files, 2);
    files[1].copy.version.step++;
    assert_int_equal(dlr_persist_save(dir, files, 2, 1, &err), -EINVAL);
    assert_string_equal(err.text, "rank 0 is of another version");
}

static void save_version(uint32_t vround, uint64_t step, unsigned keep)
{
    struct dlr_plan_file files[2];
    struct dlr_err err = {0};

    fill(files, 2);
    for (unsigned i = 0; i < 2; i++) {
        files[i].copy.version = (struct dlr_version){vround, step};
        dlr_persist_path(dir, files[i].copy.rank, files[i].copy.version, files[i].path,
                         sizeof(files[i].path));
        touch(strrchr(files[i].path, '/') + 1);
    }
    assert_int_equal(dlr_persist_save(dir, files, 2, keep, &err), 0);
}

static void so_many_versions_are_kept(void **state)
{
    DLR_AUTO_FREE struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    unsigned n = 0;

    save_version(0, 100, 2);
    save_version(0, 200, 2);
    touch("r0-0-150.safetensors");                   /* of a write that failed */
    touch(".r0-0-150.safetensors.0123456789abcdef"); /* of one that a crash cut short */
    touch("r0-1-60.safetensors");                    /* of one that goes on */
    touch(".r0-1-60.safetensors.0123456789abcdef");
    save_version(1, 50, 2); /* newer, though its step is lower */
    assert_false(there("manifest-0-100.json"));
    assert_false(there("r0-0-100.safetensors"));
    assert_false(there("r0-0-150.safetensors"));
    assert_false(there(".r0-0-150.safetensors.0123456789abcdef"));
    assert_true(there("r0-1-60.safetensors"));
    assert_true(there(".r0-1-60.safetensors.0123456789abcdef"));
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_true(dlr_version_eq(got[0].copy.version, (struct dlr_version){1, 50}));
    assert_true(dlr_version_eq(got[2].copy.version, (struct dlr_version){0, 200}));
    for (unsigned i = 0; i < n; i++)
        assert_true(there(strrchr(got[i].path, '/') + 1));
    save_version(1, 70, 0);
    assert_true(there("manifest-0-200.json"));
}

static void write_manifest(const char *text)
{
    char path[128];
    DLR_AUTO_FCLOSE FILE *f = NULL;

    dlr_format(path, sizeof(path), "%s/manifest.json", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
}

static void a_bad_manifest_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"v\":1,\"t\":7}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":0,\"vround\":0,\"step\":1,\"layout\":"
        "\"0\","
        "\"files\":[]}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":1,\"vround\":0,\"step\":1,\"layout\":"
        "\"0\","
        "\"files\":[]}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":1,\"vround\":0,\"step\":1,\"layout\":"
        "\"xy\","
        "\"files\":[{\"rank\":0,\"file\":\"r0.slot\",\"bytes\":1}]}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":1,\"vround\":0,\"step\":1,\"layout\":"
        "\"0\","
        "\"files\":[{\"rank\":1,\"file\":\"r0.slot\",\"bytes\":1}]}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":1,\"vround\":0,\"step\":1,\"layout\":"
        "\"0\","
        "\"files\":[{\"rank\":0,\"file\":\"r/../x\",\"bytes\":1}]}",
        "{\"v\":1,\"t\":\"manifest\",\"world\":1,\"vround\":0,\"step\":-1,\"layout\":"
        "\"0\","
        "\"files\":[{\"rank\":0,\"file\":\"r0.slot\",\"bytes\":1}]}",
    };
    struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    unsigned n = 0;

    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), -ENOENT);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i]);
        write_manifest(rows[i]);
        assert_int_equal(dlr_persist_load(dir, &got, &n, &err), -EBADMSG);
    }
    save_version(0, 1, 1);
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err),
                     0); /* passed over, and told */
    assert_int_equal(n, 2);
    assert_non_null(strstr(err.text, "manifest.json"));
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_manifest_survives_the_way_and_prunes,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(so_many_versions_are_kept, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_not_whole_is_refused, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_bad_manifest_is_refused, make_dir,
                                        remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
