/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/abi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

#define NAME_MAX_TEXT 64
#define VERSION_TEXT 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; others less */
#define NOWHERE ((void *)-1)
#define LIBRARIES 8 /* that are loaded and are named as one of MPI */

static _Atomic(void *) next[2][DLR_CALL_COUNT];

/* A library that a program has opened for itself (Python does) is not in the order that
 * RTLD_NEXT goes through, while what it calls is looked for in ours first.
 */
struct libraries {
    char *names[LIBRARIES];
    unsigned n;
};

/* Called under the loader's lock, under which nothing may be opened. */
static int see_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *base = strrchr(info->dlpi_name, '/');
    struct libraries *found = arg;

    base = base ? base + 1 : info->dlpi_name;
    if (dlr_after(base, "libmpi") && found->n < LIBRARIES)
        found->names[found->n++] = strdup(info->dlpi_name);
    return 0;
}

/* NULL, or one of MPI's: kept, so that it stays loaded as long as we call it. */
static void *open_library(const char *name)
{
    void *library = name ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : NULL;

    if (!library || dlsym(library, "PMPI_Init"))
        return library;
    dlclose(library);
    return NULL;
}

static void *find_library(void)
{
    struct libraries found = {0};
    void *library = NULL;

    dl_iterate_phdr(see_library, &found);
    for (unsigned i = 0; i < found.n; i++) {
        if (!library)
            library = open_library(found.names[i]);
        free(found.names[i]);
    }
    return library;
}

void *dlr_mpi_find(const char *name)
{
    static _Atomic(void *) opened;
    void *found = dlsym(RTLD_NEXT, name), *library = atomic_load(&opened);

    if (found)
        return found;
    if (!library) {
        library = find_library();
        atomic_store(&opened, library ? library : NOWHERE);
    }
    return library && library != NOWHERE ? dlsym(library, name) : NULL;
}

void *dlr_mpi_next(unsigned number, bool profiling)
{
    void *found = atomic_load_explicit(&next[profiling][number], memory_order_relaxed);

    if (!found) {
        char name[NAME_MAX_TEXT];

        dlr_format(name, sizeof(name), "%s%s", profiling ? "P" : "",
                   dlr_mpi_calls[number].name);
        found = dlr_mpi_find(name);
        atomic_store_explicit(&next[profiling][number], found ? found : NOWHERE,
                              memory_order_relaxed);
    }
    return found == NOWHERE ? NULL : found;
}

#define W uintptr_t
#define W4 W, W, W, W
uintptr_t dlr_mpi_invoke(void *f, unsigned arguments, const uintptr_t *a)
{
    /* clang-format off */
    switch (arguments) {
    case 0: return ((W(*)(void))f)();
    case 1: return ((W(*)(W))f)(a[0]);
    case 2: return ((W(*)(W, W))f)(a[0], a[1]);
    case 3: return ((W(*)(W, W, W))f)(a[0], a[1], a[2]);
    case 4: return ((W(*)(W4))f)(a[0], a[1], a[2], a[3]);
    case 5: return ((W(*)(W4, W))f)(a[0], a[1], a[2], a[3], a[4]);
    case 6: return ((W(*)(W4, W, W))f)(a[0], a[1], a[2], a[3], a[4], a[5]);
    case 7: return ((W(*)(W4, W, W, W))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    case 8: return ((W(*)(W4, W4))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    case 9: return ((W(*)(W4, W4, W))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    case 10: return ((W(*)(W4, W4, W, W))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
    case 11: return ((W(*)(W4, W4, W, W, W))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    case 12: return ((W(*)(W4, W4, W4))f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    default: return (uintptr_t)-1;
    }
    /* clang-format on */
}

int dlr_mpi_ask(const char *name, unsigned arguments, const uintptr_t *a)
{
    void *function = dlr_mpi_find(name);

    return function ? (int)dlr_mpi_invoke(function, arguments, a) : -1;
}

/* MPI-5's standard ABI has handles of its own, whoever made the library; one of MPI 5
 * that has not got it says that its version is -1.
 */
static bool is_standard(void)
{
    int major = 0, minor = 0;
    const uintptr_t a[] = {(uintptr_t)&major, (uintptr_t)&minor};

    return dlr_mpi_ask("PMPI_Abi_get_version", 2, a) == 0 && major > 0;
}

/* Objects that a program refers to may have been copied into it: that is where all then
 * look for them.
 */
static uintptr_t object(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    return (uintptr_t)(found ? found : dlr_mpi_find(name));
}

static const struct dlr_mpi_abi *open_mpi(void)
{
    static struct dlr_mpi_abi abi = {"Open MPI", sizeof(void *), .any_source = -1,
                                     .undefined = -32766};

    abi.world = object("ompi_mpi_comm_world");
    abi.comm_null = object("ompi_mpi_comm_null");
    abi.request_null = object("ompi_request_null");
    abi.type_null = object("ompi_mpi_datatype_null");
    return &abi;
}

const struct dlr_mpi_abi *dlr_mpi_abi(void)
{
    static const struct dlr_mpi_abi mpich = {"MPICH",    sizeof(int), 0x44000000,
                                             0x04000000, 0x2c000000,  0x0c000000,
                                             -2,         -32766};
    char text[VERSION_TEXT] = "";
    int length = 0;
    const uintptr_t a[] = {(uintptr_t)text, (uintptr_t)&length};

    if (is_standard())
        return NULL;
    if (dlr_mpi_find("ompi_mpi_comm_world"))
        return open_mpi();
    if (dlr_mpi_ask("PMPI_Get_library_version", 2, a) != 0)
        return NULL;
    text[sizeof(text) - 1] = '\0';
    return strstr(text, "MPICH") || strstr(text, "MVAPICH") ||
                   strstr(text, "Intel(R) MPI")
               ? &mpich
               : NULL;
}
