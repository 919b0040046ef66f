/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/mac.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <string.h>

#define NONCE 12 /* of GCM */

static int hmac(const void *key, size_t key_bytes, const void *msg, size_t bytes,
                unsigned char ret[DLR_MAC_KEY])
{
    return HMAC(EVP_sha256(), key, (int)key_bytes, msg, bytes, ret, NULL) ? 0 : -EIO;
}

static int derive(const void *key, size_t key_bytes, const char *label,
                  unsigned char ret[DLR_MAC_KEY])
{
    return hmac(key, key_bytes, label, strlen(label), ret);
}

int dlr_mac_round(const void *secret, size_t bytes, unsigned char ret[DLR_MAC_KEY])
{
    return derive(secret, bytes, "dlrover copy 2 key", ret);
}

int dlr_mac_join(struct dlr_mac *mac, const unsigned char round[DLR_MAC_KEY],
                 const unsigned char salt[DLR_WIRE_SALT])
{
    unsigned char key[DLR_MAC_KEY];
    int rc = hmac(round, DLR_MAC_KEY, salt, DLR_WIRE_SALT, key);

    if (rc == 0)
        rc = derive(key, sizeof(key), "message", mac->message);
    if (rc == 0)
        rc = derive(key, sizeof(key), "block", mac->block);
    OPENSSL_cleanse(key, sizeof(key));
    mac->on = rc == 0;
    return rc;
}

int dlr_mac_begin(struct dlr_mac *mac, const unsigned char round[DLR_MAC_KEY],
                  unsigned char ret_salt[DLR_WIRE_SALT])
{
    if (RAND_bytes(ret_salt, DLR_WIRE_SALT) != 1)
        return -EIO;
    return dlr_mac_join(mac, round, ret_salt);
}

void dlr_mac_wipe(struct dlr_mac *mac)
{
    OPENSSL_cleanse(mac, sizeof(*mac));
}

static int tag_of(const struct dlr_mac *mac, const void *msg, size_t bytes,
                  unsigned char ret[DLR_WIRE_TAG])
{
    unsigned char sum[DLR_MAC_KEY];
    int rc = hmac(mac->message, DLR_MAC_KEY, msg, bytes - DLR_WIRE_TAG, sum);

    memcpy(ret, sum, DLR_WIRE_TAG);
    return rc;
}

int dlr_mac_sign(const struct dlr_mac *mac, void *msg, size_t bytes)
{
    unsigned char *tag = (unsigned char *)msg + bytes - DLR_WIRE_TAG;

    memset(tag, 0, DLR_WIRE_TAG);
    return mac->on ? tag_of(mac, msg, bytes, tag) : 0;
}

static int compare(const unsigned char *a, const unsigned char *b)
{
    return CRYPTO_memcmp(a, b, DLR_WIRE_TAG) == 0 ? 0 : -EKEYREJECTED;
}

int dlr_mac_check(const struct dlr_mac *mac, const void *msg, size_t bytes)
{
    unsigned char want[DLR_WIRE_TAG];
    int rc = mac->on ? tag_of(mac, msg, bytes, want) : -EKEYREJECTED;

    return rc < 0 ? rc
                  : compare(want, (const unsigned char *)msg + bytes - DLR_WIRE_TAG);
}

static int block_tag(const struct dlr_mac *mac, const struct dlr_wire_block *head,
                     const void *data, size_t bytes, unsigned char ret[DLR_WIRE_TAG])
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    unsigned char nonce[NONCE] = {0}, none[1];
    int n;
    bool ok;

    memcpy(nonce, &head->index, sizeof(head->index));
    ok = ctx && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, mac->block, nonce) &&
         EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)head,
                           (int)offsetof(struct dlr_wire_block, tag)) &&
         EVP_EncryptUpdate(ctx, NULL, &n, data, (int)bytes) &&
         EVP_EncryptFinal_ex(ctx, none, &n) &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, DLR_WIRE_TAG, ret);
    EVP_CIPHER_CTX_free(ctx);
    return ok ? 0 : -EIO;
}

int dlr_mac_sign_block(const struct dlr_mac *mac, struct dlr_wire_block *head,
                       const void *data, size_t bytes)
{
    memset(head->tag, 0, sizeof(head->tag));
    return mac->on ? block_tag(mac, head, data, bytes, head->tag) : 0;
}

int dlr_mac_check_block(const struct dlr_mac *mac, const struct dlr_wire_block *head,
                        const void *data, size_t bytes)
{
    unsigned char want[DLR_WIRE_TAG];
    int rc = mac->on ? block_tag(mac, head, data, bytes, want) : -EKEYREJECTED;

    return rc < 0 ? rc : compare(want, head->tag);
}
