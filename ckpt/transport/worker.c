/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/worker.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/transport/nic.h"
#include "common/base/cleanup.h"

int dlr_lane_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_ERR_NO_MEMORY:
        return -ENOMEM;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return -EINVAL;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
        return -EHOSTUNREACH;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
        return -ECONNRESET;
    case UCS_ERR_TIMED_OUT:
        return -ETIMEDOUT;
    case UCS_ERR_CANCELED:
        return -ECANCELED;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return -EMSGSIZE;
    case UCS_ERR_REJECTED:
        return -ECONNREFUSED;
    case UCS_ERR_BUSY:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

static int fail(struct dlr_err *err, ucs_status_t status, const char *what)
{
    return dlr_fail(err, dlr_lane_errno(status), "%s: %s", what,
                    ucs_status_string(status));
}

/* Nobody has said anything about it: neither the environment nor a file of UCX's. */
static bool is_default(const char *config, const char *line)
{
    const char *at = strstr(config, line);

    return at && (at == config || at[-1] == '\n');
}

/* Where nobody has chosen, UCX listens on no device that leads to nobody, the loopback
 * above all: whoever reaches its port may write into this process. Nor does it share
 * memory with others of this host: no peer is there, and they could not look into each
 * other.
 */
static void narrow(ucp_config_t *config)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    char devices[1024];

    if (!out)
        return;
    ucp_config_print(config, out, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(out);
    dlr_nic_outward("", devices, sizeof(devices));
    if (devices[0] && is_default(text, "UCX_NET_DEVICES=all\n"))
        (void)ucp_config_modify(config, "NET_DEVICES", devices);
    if (is_default(text, "UCX_TLS=all\n"))
        (void)ucp_config_modify(config, "TLS", "^sm");
}

static ucs_status_t init(const ucp_params_t *params, bool narrowed, ucp_context_h *ret)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return status;
    if (narrowed)
        narrow(config);
    status = ucp_init(params, config, ret);
    ucp_config_release(config);
    return status;
}

int dlr_lane_context(ucp_context_h *ret, struct dlr_err *err)
{
    ucp_params_t params = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                           .name = "dlrover-data"};
    ucs_status_t status;

    /* A connect to a black hole must not block (133 s with the default of UCX 1.13),
     * and a quarter of the system calls moves the bytes with a fifth less of the
     * receiver's time. Only the environment reaches a transport's settings:
     * ucp_config_modify() calls them invalid.
     */
    setenv("UCX_TCP_CONN_NB", "y", 0);
    setenv("UCX_TCP_RX_SEG_SIZE", "256k", 0);
    status = init(&params, true, ret);
    if (status != UCS_OK) /* a release that does not know these words */
        status = init(&params, false, ret);
    return status == UCS_OK ? 0 : fail(err, status, "cannot start UCX");
}

static ucs_status_t set_handlers(struct dlr_lane *lane,
                                 ucp_am_recv_callback_t on_message)
{
    ucs_status_t status = UCS_OK;

    for (unsigned i = DLR_WIRE_BEGIN; status == UCS_OK && i <= DLR_WIRE_ACK; i++) {
        ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = i,
                                          .cb = on_message,
                                          .arg = &lane->kinds[i]};

        lane->kinds[i] = (struct dlr_lane_kind){.lane = lane, .kind = i};
        status = ucp_worker_set_am_recv_handler(lane->worker, &handler);
    }
    return status;
}

int dlr_lane_open(struct dlr_lane *lane, ucp_context_h context,
                  ucp_am_recv_callback_t on_message, void *owner, struct dlr_err *err)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status;

    memset(lane, 0, sizeof(*lane));
    lane->owner = owner;
    status = ucp_worker_create(context, &params, &lane->worker);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(lane->worker, &lane->fd);
    if (status == UCS_OK)
        status =
            ucp_worker_get_address(lane->worker, &lane->address, &lane->address_bytes);
    if (status == UCS_OK)
        status = set_handlers(lane, on_message);
    if (status == UCS_OK)
        return 0;
    dlr_lane_close(lane);
    return fail(err, status, "cannot open a UCX worker");
}

void dlr_lane_close(struct dlr_lane *lane)
{
    if (lane->address)
        ucp_worker_release_address(lane->worker, lane->address);
    if (lane->worker)
        ucp_worker_destroy(lane->worker);
    lane->address = NULL;
    lane->worker = NULL;
}
