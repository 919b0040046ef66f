/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_rig.h"

#ifdef DLR_HAVE_CUDA

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/install_path.h"

#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

struct device_calls fake;

void device_current(int device)
{
    CUcontext ctx;

    assert_int_equal(fake.primary(&ctx, device), CUDA_SUCCESS);
    assert_int_equal(fake.set_current(ctx), CUDA_SUCCESS);
}

int device_load(void **state)
{
    char path[PATH_MAX];
    void *lib;

    assert_int_equal(dlr_install_path_sibling("fake/libcuda.so.1", path, sizeof(path)),
                     0);
    lib = dlopen(path, RTLD_NOW);
    if (!lib)
        fail_msg("%s", dlerror());
#define FIND(field, name)                                                              \
    fake.field = (__typeof__(fake.field))dlsym(lib, TEXT(name));                       \
    assert_non_null(fake.field);
    FIND(alloc, fake_cuda_alloc)
    FIND(place, fake_cuda_place)
    FIND(queues, fake_cuda_queues)
    FIND(retained, fake_cuda_retained)
    FIND(look, fake_cuda_look)
    FIND(gate, fake_cuda_gate)
    FIND(open_gate, fake_cuda_open_gate)
    FIND(gate_waited, fake_cuda_gate_waited)
    FIND(fill, fake_cuda_fill)
    FIND(fail_copy, fake_cuda_fail_copy)
    FIND(spoil, fake_cuda_spoil)
    FIND(copies, fake_cuda_copies)
    FIND(pinned, fake_cuda_pinned)
    FIND(hold_copies, fake_cuda_hold_copies)
    FIND(await_held, fake_cuda_await_held)
    FIND(clock, fake_cuda_clock)
    FIND(straight, fake_cuda_straight)
    FIND(torn, fake_cuda_torn)
    FIND(registered, fake_cuda_registered)
    FIND(await_registered, fake_cuda_await_registered)
    FIND(hold_register, fake_cuda_hold_register)
    FIND(await_register, fake_cuda_await_register)
    FIND(fail_register, fake_cuda_fail_register)
    FIND(capture, fake_cuda_capture)
    FIND(kept, fake_cuda_kept)
    FIND(broken, fake_cuda_broken)
    FIND(release, cuMemFree)
    FIND(call, cuLaunchHostFunc)
    FIND(set_current, cuCtxSetCurrent)
    FIND(primary, cuDevicePrimaryCtxRetain)
    FIND(stream_create, cuStreamCreate)
    FIND(stream_destroy, cuStreamDestroy)
    device_current(0);
    return 0;
}

#else

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_cuda_back_end(void **state)
{
    print_message("no CUDA headers: the CUDA back end was not built\n");
    skip();
}

int device_skip(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_cuda_back_end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
