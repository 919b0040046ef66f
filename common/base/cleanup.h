/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of locals: what a variable holds is released when it leaves scope. */
#ifndef DLR_COMMON_BASE_CLEANUP_H
#define DLR_COMMON_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DLR_CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void dlr_cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void dlr_cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void dlr_cleanup_fclose(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void dlr_cleanup_closedir(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define DLR_AUTO_FREE DLR_CLEANUP(dlr_cleanup_free)
#define DLR_AUTO_CLOSE DLR_CLEANUP(dlr_cleanup_close)
#define DLR_AUTO_FCLOSE DLR_CLEANUP(dlr_cleanup_fclose)
#define DLR_AUTO_CLOSEDIR DLR_CLEANUP(dlr_cleanup_closedir)

/* Hands the pointer in var over to the caller's expression and clears var. */
#define DLR_STEAL(var)                                                                 \
    ({                                                                                 \
        __typeof__(var) dlr_stolen_ = (var);                                           \
        (var) = NULL;                                                                  \
        dlr_stolen_;                                                                   \
    })

/* Same for a descriptor: *fd becomes -1. */
static inline int dlr_steal_fd(int *fd)
{
    int out = *fd;

    *fd = -1;
    return out;
}

#endif
