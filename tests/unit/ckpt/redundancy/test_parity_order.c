/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants a parity term: the list of what is to be summed up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ckpt/redundancy/parity_order.h"

static const struct dlr_version saved = {3, 7}, other = {3, 8};

static struct dlr_parity_order *add(struct dlr_parity_order **list, int32_t target,
                                    uint32_t vround, const char *text)
{
    struct dlr_parity_order *o = malloc(sizeof(*o));
    struct dlr_local_msg msg;

    assert_non_null(o);
    dlr_local_init(&msg, DLR_LOCAL_D_PARITY);
    msg.rank = target;
    msg.arg[0] = vround;
    msg.step = saved.step;
    dlr_local_text(&msg, "%s", text);
    assert_int_equal(dlr_parity_order_read(&msg, o), 0);
    o->next = *list;
    *list = o;
    return o;
}

static void a_term_goes_into_the_order_that_names_it(void **state)
{
    struct dlr_parity_order *list = NULL;
    struct dlr_parity_order *parity = add(&list, 4, UINT32_MAX, "4 0*1 1*1");
    struct dlr_parity_order *lost = add(&list, 2, saved.round, "4 3*1 5*1");
    const struct {
        int32_t rank;
        struct dlr_version v;
        bool same_world;
        struct dlr_parity_order *wants;
    } rows[] = {
        {0, saved, true, parity}, {0, other, true, parity}, {1, saved, false, NULL},
        {3, saved, true, lost},   {3, saved, false, lost},  {3, other, true, NULL},
        {5, saved, true, lost},   {2, saved, true, NULL},   {4, saved, true, NULL},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_ptr_equal(
            dlr_parity_order_for(list, rows[i].rank, rows[i].v, rows[i].same_world),
            rows[i].wants);
    dlr_parity_order_del(&list, lost);
    assert_null(dlr_parity_order_for(list, 3, saved, true));
    dlr_parity_order_del(&list, parity);
    assert_null(list);
}

/* With another number of ranks a rank may be called what a shard of this round is. */
static void a_shard_and_a_lost_slot_of_one_number_are_two_orders(void **state)
{
    struct dlr_parity_order *list = NULL;
    struct dlr_parity_order *parity = add(&list, 4, UINT32_MAX, "4 0*1 1*1");
    struct dlr_parity_order *lost = add(&list, 4, saved.round, "8 5*1 8*1");

    assert_ptr_equal(dlr_parity_order_of(list, 4, true), parity);
    assert_ptr_equal(dlr_parity_order_of(list, 4, false), lost);
    assert_null(dlr_parity_order_of(list, 5, true));
    dlr_parity_order_del(&list, parity);
    assert_null(dlr_parity_order_of(list, 4, true));
    dlr_parity_order_del(&list, lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_term_goes_into_the_order_that_names_it),
        cmocka_unit_test(a_shard_and_a_lost_slot_of_one_number_are_two_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
