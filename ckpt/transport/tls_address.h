/* SPDX-License-Identifier: Apache-2.0 */
/* Where a data process's streams are listened for: addresses of this node's devices,
 * and how they are told.
 */
#ifndef DLR_CKPT_TRANSPORT_TLS_ADDRESS_H
#define DLR_CKPT_TRANSPORT_TLS_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>

#define DLR_TLS_ID 16        /* bytes that name a data process */
#define DLR_TLS_PLACES_MAX 8 /* addresses of one */
#define DLR_TLS_ADDRESS_MAX (DLR_TLS_ID + DLR_TLS_PLACES_MAX * 19)

union dlr_tls_place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* How a process is told: its id, then for each place 4 or 6 (IP's version), 2 bytes of
 * port and the IP address, the port as in the network.
 */
struct dlr_tls_address {
    unsigned char id[DLR_TLS_ID];
    unsigned n;
    union dlr_tls_place places[DLR_TLS_PLACES_MAX];
};

socklen_t dlr_tls_place_bytes(const union dlr_tls_place *place);

/* Bytes written, at most DLR_TLS_ADDRESS_MAX. */
size_t dlr_tls_address_write(const struct dlr_tls_address *a, unsigned char *to);
/* 0, or -EBADMSG for what was not written by it.
 * Foreign bytes: fuzz target data_stream.
 */
int dlr_tls_address_read(const void *from, size_t bytes, struct dlr_tls_address *ret);

/* The addresses (port 0) of this node's devices that are up, the fastest device's
 * first; of those that are named alone when some are ("eth0,mlx5_0:1"; "" or "all"
 * names none). An RDMA device stands for its network device. Without any, and none
 * being named, those of lo. The number of places.
 */
unsigned dlr_tls_places(const char *devices,
                        union dlr_tls_place places[DLR_TLS_PLACES_MAX]);

/* The device that has an address of this node's; "" when none does. */
void dlr_tls_device_of(const union dlr_tls_place *place, char *ret, size_t size);

#endif
