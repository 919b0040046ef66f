/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, iSCSI polynomial 0x1EDC6F41, RFC 3720), by ISA-L. */
#ifndef DLR_CKPT_BASE_CRC32C_H
#define DLR_CKPT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc starts at 0. */
uint32_t dlr_crc32c(uint32_t crc, const void *buf, size_t size);

/* CRC32C of A and B one after the other from that of each: op is dlr_crc32c_op(bytes of
 * B).
 */
uint32_t dlr_crc32c_op(uint64_t bytes);
uint32_t dlr_crc32c_join(uint32_t a, uint32_t b, uint32_t op);

/* Four tables: [n * 256 + i] is byte i followed by n zeros. */
void dlr_crc32c_table(uint32_t table[1024]);

#endif
