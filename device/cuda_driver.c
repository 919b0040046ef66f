/* SPDX-License-Identifier: Apache-2.0 */
#ifdef DLR_HAVE_CUDA

#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#define NAME(fn) NAME_(fn)
#define NAME_(fn) #fn

struct dlr_cu dlr_cu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static int count_loads(struct dl_phdr_info *info, size_t bytes, void *ret)
{
    *(unsigned long long *)ret = info->dlpi_adds;
    return 1; /* the first one has it */
}

/* Whether libraries were loaded since it was asked last: a look for one that is not
 * there goes through all folders, which took 84 us for each region.
 */
static bool has_more_libraries(void)
{
    static unsigned long long last;
    unsigned long long now = 0;

    dl_iterate_phdr(count_loads, &now);
    if (now == last)
        return false;
    last = now;
    return true;
}

static void load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!lib)
        return;
    loaded = true;
#define LOAD(fn)                                                                       \
    CU(fn) = (__typeof__(CU(fn)))dlsym(lib, NAME(fn));                                 \
    loaded = loaded && CU(fn);
    DLR_CU_FUNCTIONS(LOAD)
    dlr_cu.elapsed = (__typeof__(dlr_cu.elapsed))dlsym(lib, "cuEventElapsedTime");
    loaded = loaded && dlr_cu.elapsed;
    if (!loaded)
        dlclose(lib);
}

/* A program may load CUDA after the first handle was opened. */
bool dlr_cu_load(void)
{
    bool there;

    pthread_mutex_lock(&lock);
    if (!loaded && has_more_libraries())
        load();
    there = loaded;
    pthread_mutex_unlock(&lock);
    return there;
}

#else
typedef int dlr_no_device_driver; /* a file may not be empty */
#endif
