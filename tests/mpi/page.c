/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/mpi/page.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/clock.h"
#include "interpose/calls/calls.h"
#include "watch/read.h"

static bool seen[DLR_CALL_COUNT];
static int failed;

struct dlr_watch_page *test_page(void)
{
    static struct dlr_watch_page *page;
    const char *fd = getenv("DLROVER_WATCH_FDS");

    if (!page && fd)
        page = mmap(NULL, DLR_WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd),
                    0);
    if (!page || page == MAP_FAILED) {
        fprintf(stderr, "no page\n");
        exit(1);
    }
    return page;
}

long test_calls(void)
{
    return (long)test_page()->calls;
}

struct dlr_look test_look(void)
{
    struct dlr_look look;
    const struct dlr_watch_page *page = test_page();

    dlr_watch_read(page, page->rank, page->round, (uint64_t)dlr_now_ns(), &look);
    return look;
}

void test_counted(const char *name, long before, long times)
{
    const long counted = test_calls() - before;

    if (counted != times) {
        fprintf(stderr, "MPI_%s: counted %ld times and not %ld\n", name, counted,
                times);
        failed++;
    }
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++)
        if (strcmp(dlr_mpi_calls[i].name + 4, name) == 0)
            seen[i] = true;
}

void test_missing(void)
{
    void *library = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);

    if (!library)
        library = dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD);
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++)
        if (!seen[i] && library && dlsym(library, dlr_mpi_calls[i].name)) {
            fprintf(stderr, "%s: not called\n", dlr_mpi_calls[i].name);
            failed++;
        }
}

int test_failed(void)
{
    return failed;
}
