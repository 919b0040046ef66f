/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/inherit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS " :"
#define LIBRARY "libdlrover-mpi.so"

static bool is_library(const char *word, size_t n)
{
    const size_t own = strlen(LIBRARY);

    return n >= own && memcmp(word + n - own, LIBRARY, own) == 0 &&
           (n == own || word[n - own - 1] == '/');
}

bool dlr_mpi_not_inherited(char *preloaded)
{
    char *at = preloaded;

    while (*at) {
        const size_t n = strcspn(at, SEPARATORS), gap = at[n] != '\0';

        if (is_library(at, n)) {
            memmove(at, at + n + gap, strlen(at + n + gap) + 1);
            if (!*at && at > preloaded)
                at[-1] = '\0'; /* what stood between the last two */
        } else {
            at += n + gap;
        }
    }
    return *preloaded != '\0';
}

/* Before main(). A shell or an interpreter leaves it as it is: what it starts, or loads
 * later, may be the one with MPI.
 */
__attribute__((constructor)) static void leave_environment(void)
{
    char *preloaded = getenv("LD_PRELOAD");

    if (preloaded && dlsym(RTLD_NEXT, "PMPI_Init") && !dlr_mpi_not_inherited(preloaded))
        unsetenv("LD_PRELOAD");
}
