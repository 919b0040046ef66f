/* SPDX-License-Identifier: Apache-2.0 */
/* What an audit looks at when nobody asked for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/client/audit.h"
#include "ckpt/client/audit_device.h"
#include "common/config/opt.h"

#define LARGE (3 * (uint64_t)DLR_AUDIT_BYTES)
#define SMALL 100u
#define ROWS 1000u /* of a view, of one byte in three */

enum { LARGE_ONE, SMALL_ONE, VIEW, BLOB, COPIED, ON_DEVICE, WRITTEN, N };

static unsigned char *large, small[7][3 * ROWS];

/* --- instead of the device's files ------------------------------------------------ */

static bool registered; /* the small region, beside the one that is */

bool dlr_device_writes(const void *addr)
{
    return addr == small[WRITTEN] || (registered && addr == small[SMALL_ONE]);
}

int dlr_audit_device_crc(const struct dlr_device_ops *ops, struct dlr_device *dev,
                         const void *addr, const struct dlr_strides *view,
                         uint64_t bytes, uint64_t *ret)
{
    fail_msg("somebody waits for the device");
    return 0;
}

/* ---------------------------------------------------------------------------------- */

static struct dlr_strides column = {.run = 1, .ndim = 1, .len = {ROWS}, .step = {3}};
static struct dlr_ckpt_region list[N];
static uint64_t bytes[N];
static struct dlr_strides *views[N];
static const void *src[N];
static bool on_device[N];

static struct dlr_audit_of name_all(struct dlr_regions *rs)
{
    static const struct dlr_device_ops ops;

    for (unsigned i = 0; i < N; i++) {
        list[i].addr = i == LARGE_ONE ? large : small[i];
        list[i].kind = i == BLOB ? DLR_CKPT_BLOB : DLR_CKPT_SHARD;
        bytes[i] = i == LARGE_ONE ? LARGE : i == VIEW ? ROWS : SMALL;
        src[i] = i == COPIED ? large : list[i].addr;
    }
    on_device[ON_DEVICE] = true;
    views[VIEW] = &column;
    *rs = (struct dlr_regions){.list = list, .bytes = bytes, .views = views, .n = N};
    return (struct dlr_audit_of){rs, &ops, NULL, on_device, src};
}

static void what_may_change_is_not_looked_at(void **state)
{
    static const struct {
        const char *name;
        unsigned region, at;
        int found;
    } rows[] = {{"small", SMALL_ONE, SMALL - 1, 1},
                {"small", SMALL_ONE, SMALL, 0},
                {"view", VIEW, 3 * (ROWS - 1), 1},
                {"beside the view", VIEW, 1, 0},
                {"blob", BLOB, 0, 0},
                {"copied", COPIED, 0, 0},
                {"device", ON_DEVICE, 0, 0},
                {"stream's", WRITTEN, 0, 0}};
    struct dlr_regions rs;
    struct dlr_audit_of of = name_all(&rs);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_audit audit = {0};
        unsigned first = N;

        print_message("%s\n", rows[i].name);
        assert_int_equal(dlr_audit_begin(&audit, DLR_COUNT_AUTO, &of, 1), 0);
        assert_true(audit.open && !audit.waits);
        small[rows[i].region][rows[i].at] ^= 1;
        assert_int_equal(dlr_audit_end(&audit, &of, &first), rows[i].found);
        assert_int_equal(first, rows[i].found ? rows[i].region : N);
        dlr_audit_done(&audit);
    }
}

/* With the device between begin and fence, or no longer: it was looked at once. */
static void what_is_registered_meanwhile_has_not_changed(void **state)
{
    struct dlr_regions rs;
    struct dlr_audit_of of = name_all(&rs);

    for (unsigned before = 0; before < 2; before++) {
        struct dlr_audit audit = {0};
        unsigned first = N;

        registered = before;
        assert_int_equal(dlr_audit_begin(&audit, DLR_COUNT_AUTO, &of, 1), 0);
        registered = !before;
        assert_int_equal(dlr_audit_end(&audit, &of, &first), 0);
        dlr_audit_done(&audit);
    }
    registered = false;
}

/* Of one byte that changes: another part is read in each look. A step writes all of a
 * region.
 */
static void of_a_large_region_a_part_is_looked_at(void **state)
{
    struct dlr_regions rs;
    struct dlr_audit_of of = name_all(&rs);
    struct dlr_audit audit = {0};
    unsigned looks = 0, found_one = 0, first;

    for (uint64_t save = 1; save <= 300; save++) {
        assert_int_equal(dlr_audit_begin(&audit, DLR_COUNT_AUTO, &of, save), 0);
        assert_int_equal(audit.open, save <= 2 || save % 100 == 0);
        if (!audit.open)
            continue;
        looks++;
        large[0] ^= 1;
        found_one += dlr_audit_end(&audit, &of, &first) > 0;
    }
    assert_int_equal(looks, 5);
    assert_int_equal(found_one, 1);
    dlr_audit_done(&audit);
}

static int setup(void **state)
{
    large = calloc(1, LARGE);
    return large ? 0 : -1;
}

static int teardown(void **state)
{
    free(large);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_change_is_not_looked_at),
        cmocka_unit_test(what_is_registered_meanwhile_has_not_changed),
        cmocka_unit_test(of_a_large_region_a_part_is_looked_at),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
