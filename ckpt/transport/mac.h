/* SPDX-License-Identifier: Apache-2.0 */
/* What proves a transfer over UCX to be of a process that has the round's secret: the
 * token goes over the wire, and a CRC is anybody's. A key of each transfer, made of the
 * secret and a salt that its sender draws.
 */
#ifndef DLR_CKPT_TRANSPORT_MAC_H
#define DLR_CKPT_TRANSPORT_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/transport/wire.h"

#define DLR_MAC_KEY 32

struct dlr_mac {
    bool on; /* false: nothing is proved, and tags are zeros */
    unsigned char message[DLR_MAC_KEY], block[DLR_MAC_KEY];
};

/* The key of a round's transfers, from which neither the token nor a stream's key
 * follows. -EIO: OpenSSL cannot.
 */
int dlr_mac_round(const void *secret, size_t bytes, unsigned char ret[DLR_MAC_KEY]);

/* A new transfer's salt, and its keys; or those of one that somebody else has begun.
 * -EIO.
 */
int dlr_mac_begin(struct dlr_mac *mac, const unsigned char round[DLR_MAC_KEY],
                  unsigned char ret_salt[DLR_WIRE_SALT]);
int dlr_mac_join(struct dlr_mac *mac, const unsigned char round[DLR_MAC_KEY],
                 const unsigned char salt[DLR_WIRE_SALT]);
void dlr_mac_wipe(struct dlr_mac *mac);

/* HMAC-SHA256 of a message, cut to the DLR_WIRE_TAG bytes that it ends with; zeros
 * where mac is off. -EIO.
 */
int dlr_mac_sign(const struct dlr_mac *mac, void *msg, size_t bytes);
/* 0: it is as it was signed; -EKEYREJECTED. */
int dlr_mac_check(const struct dlr_mac *mac, const void *msg, size_t bytes);

/* The same of a block and of its head, whose tag it is: GMAC (AES-256-GCM), the index
 * being the nonce. A key signs each index once. By any thread.
 */
int dlr_mac_sign_block(const struct dlr_mac *mac, struct dlr_wire_block *head,
                       const void *data, size_t bytes);
int dlr_mac_check_block(const struct dlr_mac *mac, const struct dlr_wire_block *head,
                        const void *data, size_t bytes);

#endif
