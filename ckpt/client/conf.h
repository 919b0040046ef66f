/* SPDX-License-Identifier: Apache-2.0 */
/* A handle's settings: what the program gave, else the environment, else the default.
 */
#ifndef DLR_CKPT_CLIENT_CONF_H
#define DLR_CKPT_CLIENT_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"
#include "common/base/err.h"
#include "common/config/opt.h"

struct dlr_client_conf {
    char dir[PATH_MAX];
    int rank, world;
    unsigned every;  /* alone; DLR_COUNT_AUTO: as many as budget allows */
    unsigned budget; /* standalone: millionths of the time that saves may take, 0 any */
    unsigned fence_ms, threads, restore_ms, audit, agree_ms;
    bool device_sum, device_gather, device_pin;
    bool fresh; /* alone */
};

int dlr_client_conf_load(const struct dlr_ckpt_conf *given, struct dlr_client_conf *ret,
                         struct dlr_err *err);

#endif
