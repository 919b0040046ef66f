/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/calls/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool needs_comm(enum dlr_mpi_kind kind)
{
    return kind == DLR_MPI_SEND || kind == DLR_MPI_RECEIVE ||
           kind == DLR_MPI_EXCHANGE ||
           (kind >= DLR_MPI_COLLECTIVE && kind <= DLR_MPI_CREATE_GROUP);
}

static bool needs_request(enum dlr_mpi_kind kind)
{
    return kind == DLR_MPI_ISEND || kind == DLR_MPI_IRECEIVE ||
           kind == DLR_MPI_PERSISTENT || kind == DLR_MPI_START ||
           kind == DLR_MPI_STARTALL || kind == DLR_MPI_FORGET ||
           (kind >= DLR_MPI_WAIT && kind <= DLR_MPI_TESTSOME) ||
           kind == DLR_MPI_ICOLLECTIVE || kind == DLR_MPI_COLLECTIVE_INIT ||
           (kind >= DLR_MPI_CREATE && kind <= DLR_MPI_FREE);
}

static void arguments_are_within_each_call(void **state)
{
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++) {
        const struct dlr_mpi_call *c = &dlr_mpi_calls[i];
        const int8_t at[] = {c->comm,  c->peer, c->tag,    c->root,
                             c->count, c->type, c->request};

        print_message("%s\n", c->name);
        assert_in_range(c->arguments, 0, DLR_MPI_ARGUMENTS);
        for (unsigned k = 0; k < sizeof(at); k++)
            assert_true(at[k] >= -1 && at[k] < c->arguments);
        assert_int_equal(c->count >= 0 && c->type >= 0 && c->kind == DLR_MPI_WAIT, 0);
        if (needs_comm(c->kind))
            assert_true(c->comm >= 0);
        if (needs_request(c->kind))
            assert_true(c->request >= 0);
    }
}

static void each_call_has_one_line(void **state)
{
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++)
        for (unsigned k = 1; k < i; k++)
            assert_string_not_equal(dlr_mpi_calls[i].name, dlr_mpi_calls[k].name);
}

/* Those of a page are shown with the name of the pair: see track.c. */
static void a_twin_follows_its_call(void **state)
{
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++) {
        const struct dlr_mpi_call *c = &dlr_mpi_calls[i];

        if (!c->wide)
            continue;
        assert_int_equal(strncmp(c->name, c[-1].name, strlen(c[-1].name)), 0);
        assert_string_equal(c->name + strlen(c[-1].name), "_c");
        assert_int_equal(c->kind, c[-1].kind);
    }
}

static void names_come_from_numbers(void **state)
{
    assert_string_equal(dlr_mpi_call_name(DLR_CALL_Allreduce), "MPI_Allreduce");
    assert_string_equal(dlr_mpi_call_name(DLR_CALL_Send), "MPI_Send");
    assert_null(dlr_mpi_call_name(0));
    assert_null(dlr_mpi_call_name(DLR_CALL_COUNT));
    assert_null(dlr_mpi_call_name(UINT32_MAX));
}

static void calls_of_pytorch_have_numbers_of_their_own(void **state)
{
    assert_true((int)DLR_CALL_TORCH >= (int)DLR_CALL_COUNT);
    assert_true(DLR_TORCH_END <= 4096); /* more than a reader of pages takes */
    for (uint32_t i = DLR_CALL_TORCH + 1; i < DLR_TORCH_END; i++)
        assert_int_equal(dlr_torch_call_number(dlr_mpi_call_name(i)), i);
    assert_string_equal(dlr_mpi_call_name(DLR_TORCH_all_reduce), "all_reduce");
    assert_null(dlr_mpi_call_name(DLR_CALL_TORCH));
    assert_null(dlr_mpi_call_name(DLR_TORCH_END));
    assert_int_equal(dlr_torch_call_number("MPI_Send"), 0);
    assert_int_equal(dlr_torch_call_number(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_within_each_call),
        cmocka_unit_test(each_call_has_one_line),
        cmocka_unit_test(a_twin_follows_its_call),
        cmocka_unit_test(names_come_from_numbers),
        cmocka_unit_test(calls_of_pytorch_have_numbers_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
