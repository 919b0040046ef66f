/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

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

/* Ranks 0 and 1 are one node's, any other has a file of its own. */
static void put_path(struct dlr_plan_file *f)
{
    const struct dlr_persist_write w = {f->copy.version, 0xab};
    bool alone = f->copy.rank > 1;

    dlr_persist_path(dir, alone ? 'r' : 'n', alone ? (unsigned)f->copy.rank : 0, &w,
                     f->path, sizeof(f->path));
}

static void fill(struct dlr_plan_file *files, unsigned n)
{
    memset(files, 0, n * sizeof(*files));
    for (unsigned i = 0; i < n; i++) {
        files[i].copy = (struct dlr_plan_copy){.rank = (int32_t)(n - 1 - i),
                                               .world = n,
                                               .version = {2, 120},
                                               .bytes = 8192 + i,
                                               .layout = 0xfedcba9876543210};
        files[i].slice = (struct dlr_slice){4096 * (i + 1), 77, 8192 + i, 0xff0 + i};
        put_path(&files[i]);
    }
}

static void a_manifest_survives_the_way_and_prunes(void **state)
{
    struct dlr_plan_file files[3];
    DLR_AUTO_FREE struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    unsigned n = 0;

    fill(files, 3);
    touch("n0-2-120-000000ab.safetensors");
    touch("r2-2-120-000000ab.safetensors");
    touch("n0-1-90-000000ab.safetensors");
    touch("r7-1-90-000000ab.safetensors");
    touch("notes.slot.txt");
    assert_int_equal(dlr_persist_save(dir, files, 3, 1, &err), 0);
    assert_true(there("n0-2-120-000000ab.safetensors"));
    assert_true(there("r2-2-120-000000ab.safetensors"));
    assert_false(there("n0-1-90-000000ab.safetensors"));
    assert_false(there("r7-1-90-000000ab.safetensors"));
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
        assert_memory_equal(&got[2 - i].slice, &files[i].slice, sizeof(got->slice));
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
        put_path(&files[i]);
        touch(strrchr(files[i].path, '/') + 1);
    }
    assert_int_equal(dlr_persist_save(dir, files, 2, keep, &err), 0);
}

static void so_many_versions_are_kept(void **state)
{
    DLR_AUTO_FREE struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    char path[128];
    unsigned n = 0;

    save_version(0, 100, 2);
    save_version(0, 200, 2);
    touch("n0-0-150-000000ab.safetensors"); /* of a write that failed */
    /* of one that a crash cut short */
    touch(".n0-0-150-00000001.safetensors.0123456789abcdef");
    touch("n0-1-60-000000ab.safetensors"); /* of one that goes on */
    touch(".n0-1-60-00000001.safetensors.0123456789abcdef");
    save_version(1, 50, 2); /* newer, though its step is lower */
    assert_false(there("manifest-0-100.json"));
    assert_false(there("n0-0-100-000000ab.safetensors"));
    assert_false(there("n0-0-150-000000ab.safetensors"));
    assert_false(there(".n0-0-150-00000001.safetensors.0123456789abcdef"));
    assert_true(there("n0-1-60-000000ab.safetensors"));
    assert_true(there(".n0-1-60-00000001.safetensors.0123456789abcdef"));
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_true(dlr_version_eq(got[0].copy.version, (struct dlr_version){1, 50}));
    assert_true(dlr_version_eq(got[2].copy.version, (struct dlr_version){0, 200}));
    for (unsigned i = 0; i < n; i++)
        assert_true(there(strrchr(got[i].path, '/') + 1));
    dlr_format(path, sizeof(path), "%s/manifest-9-9.json", dir);
    assert_int_equal(mkfifo(path, 0600), 0); /* somebody else's */
    free(DLR_STEAL(got));
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(unlink(path), 0);
    save_version(1, 70, 0);
    assert_true(there("manifest-0-200.json"));
    touch("n0-1-70-000000cd.safetensors"); /* a manifest stays, and it is not in it */
    save_version(1, 80, 3);
    assert_true(there("manifest-1-70.json"));
    assert_true(there("n0-1-70-000000ab.safetensors"));
    assert_false(there("n0-1-70-000000cd.safetensors"));
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
#define HEAD "{\"v\":2,\"t\":\"manifest\",\"vround\":0,"
#define ROW "\"rank\":0,\"file\":\"n0.x\",\"at\":1,\"bytes\":1,\"room\":1"
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"v\":2,\"t\":7}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":0,\"slices\":[]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[]}",
        HEAD "\"step\":1,\"layout\":\"xy\",\"world\":1,\"slices\":[{" ROW
             ",\"crc\":\"00000000\"}]}",
        HEAD "\"step\":-1,\"layout\":\"0\",\"world\":1,\"slices\":[{" ROW
             ",\"crc\":\"00000000\"}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{" ROW
             ",\"crc\":\"0000000\"}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{" ROW
             ",\"crc\":\"0000000g\"}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{" ROW "}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{\"rank\":1,"
             "\"file\":\"n0.x\",\"at\":1,\"bytes\":1,\"room\":1,\"crc\":"
             "\"00000000\"}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{\"rank\":0,"
             "\"file\":\"n/../x\",\"at\":1,\"bytes\":1,\"room\":1,\"crc\":"
             "\"00000000\"}]}",
        HEAD "\"step\":1,\"layout\":\"0\",\"world\":1,\"slices\":[{\"rank\":0,"
             "\"file\":\"n0.x\",\"at\":9223372036854775807,\"bytes\":1,\"room\":1,"
             "\"crc\":\"00000000\"}]}",
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

static void a_manifest_of_another_form_says_so(void **state)
{
    struct dlr_plan_file *got = NULL;
    struct dlr_err err = {0};
    char want[160];
    unsigned n = 0;

    write_manifest("{\"v\":1,\"t\":\"manifest\",\"world\":1,\"files\":[]}");
    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), -EBADMSG);
    dlr_format(want, sizeof(want),
               "'%s/manifest.json' is of form 1, this version reads form 2 only", dir);
    assert_string_equal(err.text, want);
}

static void files_are_counted_and_looked_at(void **state)
{
    struct dlr_plan_file files[3];
    struct dlr_err err = {0};
    unsigned n = 0;
    uint64_t bytes = 0;

    fill(files, 3);
    assert_int_equal(dlr_persist_count(files, 3, &n, &bytes, &err), -ENOENT);
    for (unsigned i = 0; i < 3; i++) {
        touch(strrchr(files[i].path, '/') + 1);
        assert_int_equal(truncate(files[i].path, 20000), 0);
    }
    assert_int_equal(dlr_persist_count(files, 3, &n, &bytes, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(bytes, 40000);
    assert_int_equal(truncate(files[2].path, 12288 + 76), 0); /* ranks 1 and 0 */
    assert_int_equal(dlr_persist_count(files, 3, &n, &bytes, &err), -EIO);
    assert_non_null(strstr(err.text, "n0-2-120-000000ab.safetensors' was written and"));
}

static void what_got_no_manifest_is_removed(void **state)
{
    const struct dlr_persist_write w = {{2, 120}, 0xab};
    atomic_bool stop = true;

    touch("n0-2-120-000000ab.safetensors");
    touch("r5-2-120-000000ab.safetensors");
    touch("n0-2-120-000000ac.safetensors"); /* of another write, */
    touch("n0-2-121-000000ab.safetensors"); /* of another version */
    dlr_persist_forget(dir, &w, &stop);
    assert_true(there("n0-2-120-000000ab.safetensors"));
    stop = false;
    dlr_persist_forget(dir, &w, &stop);
    assert_false(there("n0-2-120-000000ab.safetensors"));
    assert_false(there("r5-2-120-000000ab.safetensors"));
    assert_true(there("n0-2-120-000000ac.safetensors"));
    assert_true(there("n0-2-121-000000ab.safetensors"));
}

static void spoil(const char *name, const char *text)
{
    char file[128];
    int fd;

    dlr_format(file, sizeof(file), "%s/%s", dir, name);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* A half written manifest, or one that a newer release wrote: its files may be all that
 * there is one day.
 */
static void what_an_unreadable_manifest_may_name_stays(void **state)
{
    struct dlr_plan_file files[2];
    struct dlr_err err = {0};

    save_version(0, 100, 2);
    save_version(0, 200, 2);
    spoil("manifest-0-100.json", "{\"v\":9,\"t\":\"manifest\"}");
    touch("n0-0-150-000000ab.safetensors");
    touch("r5-0-100-000000cd.safetensors");
    fill(files, 2);
    assert_int_equal(dlr_persist_save(dir, files, 2, 1, &err), 0);
    assert_non_null(strstr(err.text, "manifest-0-100.json' is of form 9"));
    assert_true(there("manifest-0-100.json"));
    assert_true(there("n0-0-100-000000ab.safetensors"));
    assert_true(there("r5-0-100-000000cd.safetensors"));
    assert_false(there("manifest-0-200.json"));
    assert_false(there("n0-0-200-000000ab.safetensors"));
    assert_false(there("n0-0-150-000000ab.safetensors"));
    touch("n0-0-150-000000ab.safetensors");
    spoil("manifest-of-mine.json", "{");
    assert_int_equal(dlr_persist_save(dir, files, 2, 1, &err), 0);
    assert_true(there("n0-0-150-000000ab.safetensors")); /* it may be that one's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_manifest_survives_the_way_and_prunes,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(so_many_versions_are_kept, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_an_unreadable_manifest_may_name_stays,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_not_whole_is_refused, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_manifest_of_another_form_says_so, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(files_are_counted_and_looked_at, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_got_no_manifest_is_removed, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_bad_manifest_is_refused, make_dir,
                                        remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
