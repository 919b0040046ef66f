/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap-cuda=dlopen needs-cuda=tests/fake/libcuda.so.1 */
/* A program without a job whose arrays are in device memory, played by
 * tests/support/fake_cuda.c: its state goes into files of its own and comes back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/str.h"
#include "device/device.h"
#include "tests/support/device_rig.h"

#ifndef DLR_HAVE_CUDA

int main(void)
{
    return device_skip();
}

#else

#define BIG ((20u << 20) + 12345) /* more than both halves of the staging buffer */
#define SMALL 1000u

static CUdeviceptr big, small;
static unsigned char host[SMALL];

static unsigned looks; /* for a library */

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    looks++;
    return __real_dlopen(name, flags);
}

/* It is asked for with each region, in naming it and in each audit: a look takes 84 us.
 */
static void a_driver_that_is_not_there_is_looked_for_once(void **state)
{
    for (unsigned i = 0; i < 1000; i++)
        assert_false(dlr_device_writes(host));
    assert_int_equal(looks, 1);
}

static int load_fake(void **state)
{
    device_load(state);
    assert_int_equal(fake.alloc(&big, BIG), CUDA_SUCCESS);
    assert_int_equal(fake.alloc(&small, SMALL), CUDA_SUCCESS);
    memset(host, 1, SMALL);
    return 0;
}

static char place[32];

/* Without a job, in a directory of its own; what comes from the device is summed there,
 * too.
 */
static struct dlr_ckpt *open_summed(void)
{
    const struct dlr_ckpt_conf conf = {.dir = place, .world = 1};
    struct dlr_ckpt *ck;

    dlr_format(place, sizeof(place), "/tmp/dlr-test-device-XXXXXX");
    assert_non_null(mkdtemp(place));
    setenv("DLROVER_CKPT_DEVICE_SUM", "on", 1);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    unsetenv("DLROVER_CKPT_DEVICE_SUM");
    return ck;
}

static void close_and_remove(struct dlr_ckpt *ck)
{
    char command[64];

    dlr_ckpt_close(ck);
    dlr_format(command, sizeof(command), "rm -rf %s", place);
    assert_int_equal(system(command), 0);
}

static void a_program_is_told_which_region_was_spoilt(void **state)
{
    struct dlr_ckpt *ck = open_summed();

    dlr_ckpt_add_array(ck, "small", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)small,
                       SMALL);
    dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)big, BIG);
    fake.spoil(3);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), -EBADMSG); /* else a later fence */
    assert_string_equal(dlr_ckpt_error(ck),
                        "the snapshot of step 1 was given up: region "
                        "'big' changed on its way from the device");
    assert_int_equal(dlr_ckpt_begin(ck, 2, NULL), 1);
    assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    close_and_remove(ck);
}

/* A fence behind a device's copies returns before they have failed, and the next save
 * goes well.
 */
static void a_failed_copy_is_told_though_the_next_one_went_well(void **state)
{
    struct dlr_ckpt *ck = open_summed();

    dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)big, BIG);
    fake.spoil(3);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_begin(ck, 2, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), -EBADMSG);
    assert_non_null(strstr(dlr_ckpt_error(ck), "the snapshot of step 1 was given up"));
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    close_and_remove(ck);
}

static void a_program_restores_device_memory(void **state)
{
    char dir[] = "/tmp/dlr-test-device-XXXXXX", command[64];
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < BIG; i++)
        ((unsigned char *)fake.look(big))[i] = (unsigned char)(i * 13 + i / 256);
    for (unsigned life = 0; life < 2; life++) {
        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)big,
                           BIG);
        dlr_ckpt_add_array(ck, "host", DLR_CKPT_SHARD, "u8", 1, host, SMALL);
        assert_int_equal(dlr_ckpt_restore(ck, &step), life);
        if (life == 0) {
            assert_int_equal(dlr_ckpt_begin(ck, 5, NULL), 1);
            assert_int_equal(dlr_ckpt_flush(ck), 0); /* memset() is on no stream */
            memset(fake.look(big), 0, BIG);
            memset(host, 0, SMALL);
        }
        dlr_ckpt_close(ck);
    }
    assert_int_equal(step, 5);
    assert_int_equal(host[77], 1);
    for (unsigned i = 0; i < BIG; i++)
        if (((unsigned char *)fake.look(big))[i] != (unsigned char)(i * 13 + i / 256))
            fail_msg("byte %u", i);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* Columns of a matrix on the device, one of them from its end: nothing beside them is
 * written.
 */
static void views_of_device_memory_are_saved_and_put_back(void **state)
{
    char dir[] = "/tmp/dlr-test-device-XXXXXX", command[64];
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
    struct dlr_ckpt_region r = {.name = "columns",
                                .kind = DLR_CKPT_SHARD,
                                .dtype = "u8",
                                .item_size = 1,
                                .ndim = 2,
                                .global_shape = {100, 3},
                                .local_shape = {100, 3},
                                .stride = {10, 1},
                                .addr = (void *)(uintptr_t)(small + 2)};
    struct dlr_ckpt_region back = r;
    unsigned char *look = fake.look(small);
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    assert_non_null(mkdtemp(dir));
    back.name = "backwards";
    back.ndim = 1;
    back.stride[0] = -10;
    back.addr = (void *)(uintptr_t)(small + 990);
    for (unsigned life = 0; life < 2; life++) {
        for (unsigned i = 0; i < SMALL; i++)
            look[i] = life ? 0xff : (unsigned char)(i / 10 + i % 10 * 16);
        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        assert_int_equal(dlr_ckpt_add(ck, &r), 0);
        assert_int_equal(dlr_ckpt_add(ck, &back), 0);
        assert_int_equal(dlr_ckpt_restore(ck, &step), life);
        if (life == 0) {
            assert_int_equal(dlr_ckpt_begin(ck, 5, NULL), 1);
            assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
        }
        dlr_ckpt_close(ck);
    }
    for (unsigned i = 0; i < SMALL; i++)
        assert_int_equal(look[i], i % 10 == 0 || (i % 10 >= 2 && i % 10 < 5)
                                      ? (unsigned char)(i / 10 + i % 10 * 16)
                                      : 0xff);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* Mapped memory and memory of a pool, on the second device. */
static void memory_without_a_context_is_saved_and_put_back(void **state)
{
    static const enum fake_context rows[] = {FAKE_CONTEXT_NONE, FAKE_CONTEXT_REFUSED};

    for (unsigned i = 0; i < 2; i++) {
        char dir[] = "/tmp/dlr-test-device-XXXXXX", command[64];
        const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
        unsigned retained = fake.retained();
        struct dlr_ckpt *ck;
        CUdeviceptr mapped;
        uint64_t step = 0;

        assert_non_null(mkdtemp(dir));
        fake.place(1, rows[i]);
        assert_int_equal(fake.alloc(&mapped, SMALL), CUDA_SUCCESS);
        fake.place(0, FAKE_CONTEXT);
        memset(fake.look(mapped), 5, SMALL);
        for (unsigned life = 0; life < 2; life++) {
            assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
            dlr_ckpt_add_array(ck, "mapped", DLR_CKPT_SHARD, "u8", 1,
                               (void *)(uintptr_t)mapped, SMALL);
            if (dlr_ckpt_restore(ck, &step) != (int)life)
                fail_msg("%s", dlr_ckpt_error(ck));
            if (life == 0) {
                if (dlr_ckpt_begin(ck, 5, NULL) != 1)
                    fail_msg("%s", dlr_ckpt_error(ck));
                assert_int_equal(dlr_ckpt_flush(ck), 0);
                memset(fake.look(mapped), 0, SMALL);
            }
            dlr_ckpt_close(ck);
        }
        for (unsigned k = 0; k < SMALL; k++)
            assert_int_equal(((unsigned char *)fake.look(mapped))[k], 5);
        assert_int_equal(fake.retained(), retained);
        assert_int_equal(fake.release(mapped), CUDA_SUCCESS);
        dlr_format(command, sizeof(command), "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
}

/* A copy would wait for the streams of one of them only. */
static void regions_on_two_devices_are_refused_by_name(void **state)
{
    char dir[] = "/tmp/dlr-test-device-XXXXXX", command[64];
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
    struct dlr_ckpt *ck;
    CUdeviceptr other;
    uint64_t step;

    assert_non_null(mkdtemp(dir));
    fake.place(1, FAKE_CONTEXT);
    assert_int_equal(fake.alloc(&other, SMALL), CUDA_SUCCESS);
    fake.place(0, FAKE_CONTEXT);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    dlr_ckpt_add_array(ck, "host", DLR_CKPT_SHARD, "u8", 1, host, SMALL);
    dlr_ckpt_add_array(ck, "layer.0", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)small,
                       SMALL);
    dlr_ckpt_add_array(ck, "layer.1", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)other,
                       SMALL);
    assert_int_equal(dlr_ckpt_restore(ck, &step), -ENOTSUP);
    assert_string_equal(dlr_ckpt_error(ck),
                        "region 'layer.1' is on CUDA device 1 and region 'layer.0' on "
                        "0: one process saves the memory of one device");
    dlr_ckpt_close(ck);
    assert_int_equal(fake.release(other), CUDA_SUCCESS);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest before[] = {
        cmocka_unit_test(a_driver_that_is_not_there_is_looked_for_once),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_told_which_region_was_spoilt),
        cmocka_unit_test(a_failed_copy_is_told_though_the_next_one_went_well),
        cmocka_unit_test(a_program_restores_device_memory),
        cmocka_unit_test(views_of_device_memory_are_saved_and_put_back),
        cmocka_unit_test(memory_without_a_context_is_saved_and_put_back),
        cmocka_unit_test(regions_on_two_devices_are_refused_by_name),
    };

    return cmocka_run_group_tests(before, NULL, NULL) +
           cmocka_run_group_tests(tests, load_fake, NULL);
}

#endif
