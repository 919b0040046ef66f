/* SPDX-License-Identifier: Apache-2.0 */
/* Registers a slot's memory with the device that snapshots come from, so that copies go
 * straight into it. A thread of its own does it in pieces with pauses between them,
 * beside the program's steps; until a piece is registered, and where one cannot be,
 * copies take the staging buffer.
 */
#ifndef DLR_DEVICE_PIN_H
#define DLR_DEVICE_PIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "device/device.h"

#define DLR_PIN_PIECE (4u * DLR_DEVICE_HALF) /* bytes registered at a time */

struct dlr_pin; /* opaque: the thread, and what is registered */

int dlr_pin_new(const struct dlr_device_ops *ops, struct dlr_device *dev,
                struct dlr_pin **ret, struct dlr_err *err);
/* For whoever says where it runs. */
pthread_t dlr_pin_thread(const struct dlr_pin *pin);
/* After it nothing is registered. Waits for the piece at hand. Accepts NULL. */
struct dlr_pin *dlr_pin_free(struct dlr_pin *pin);

/* From now on these bytes are to be registered. What overlaps with them and was asked
 * for before is not ready any more, and taken back first. Does not block. No copy is
 * under way there.
 */
void dlr_pin_want(struct dlr_pin *pin, void *from, size_t bytes);

/* Whether these bytes may be given to clear() of the device; they begin a multiple of
 * DLR_DEVICE_HALF after what was wanted, and are no more than that.
 */
bool dlr_pin_ready(struct dlr_pin *pin, const void *from, size_t bytes);

/* Before memory goes: none of these bytes is registered after it. Waits for the piece
 * at hand. No copy is under way there.
 */
void dlr_pin_drop(struct dlr_pin *pin, const void *from, size_t bytes);

#endif
