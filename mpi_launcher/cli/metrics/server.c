/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/metrics/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"

#define CONNECTIONS 16
#define FROM_ONE 8 /* from one address */
#define CONNECTION_S 5
#define CONNECTION_MEMORY ((size_t)16 << 10) /* of a request's head */
#define ANSWERS 10                           /* a second */
#define ADDRESS 64                           /* bytes of one */
#define TEXT_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"
#define TEXT_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct dlr_metrics_server {
    struct MHD_Daemon *daemon;
    dlr_metrics_page_fn page;
    void *arg;
    uint16_t port;
    int64_t second_ns; /* the server's thread alone has these two */
    unsigned answers;
};

static bool too_often(struct dlr_metrics_server *server)
{
    int64_t now_ns = dlr_now_ns();

    if (now_ns - server->second_ns >= 1000000000) {
        server->second_ns = now_ns;
        server->answers = 0;
    }
    return server->answers++ >= ANSWERS;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status,
                           const char *type, char *text, size_t size,
                           enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, mode);
    enum MHD_Result result;

    if (!response) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *why)
{
    char text[80];

    snprintf(text, sizeof(text), "%s\n", why);
    return say(connection, status, "text/plain; charset=utf-8", text, strlen(text),
               MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result page(struct dlr_metrics_server *server,
                            struct MHD_Connection *connection)
{
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                     MHD_HTTP_HEADER_ACCEPT);
    bool open = accept && strstr(accept, "application/openmetrics-text");
    size_t size = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    bool bad = !out;

    if (out) {
        server->page(server->arg,
                     open ? DLR_METRICS_OPENMETRICS : DLR_METRICS_PROMETHEUS, out);
        bad = fclose(out) != 0;
    }
    if (bad) {
        free(text);
        return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory");
    }
    return say(connection, MHD_HTTP_OK, open ? TEXT_OPENMETRICS : TEXT_PROMETHEUS, text,
               size, MHD_RESPMEM_MUST_FREE);
}

/* Called when the head of a request is there, and once more for its body. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection,
                              const char *url, const char *method, const char *version,
                              const char *body, size_t *body_size, void **seen)
{
    static char once;
    struct dlr_metrics_server *server = arg;

    (void)version;
    (void)body;
    if (!dlr_streq(method, MHD_HTTP_METHOD_GET) &&
        !dlr_streq(method, MHD_HTTP_METHOD_HEAD))
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD, please");
    if (!*seen) {
        *seen = &once;
        return MHD_YES;
    }
    *body_size = 0;
    if (!dlr_streq(url, "/metrics"))
        return refuse(connection, MHD_HTTP_NOT_FOUND, "the page is /metrics");
    if (too_often(server))
        return refuse(connection, MHD_HTTP_TOO_MANY_REQUESTS,
                      "ten times a second at most");
    return page(server, connection);
}

/* --- where it listens ------------------------------------------------------------- */

/* Takes "PORT", "ADDRESS:PORT", "[ADDRESS]:PORT" apart. */
static int split(const char *where, char *address, size_t size, const char **ret_port)
{
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;

    *ret_port = colon ? colon + 1 : where;
    if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
        where++;
        n -= 2;
    } else if (memchr(where, ':', n)) {
        return -EINVAL;
    }
    if (n >= size || (colon && n == 0))
        return -EINVAL;
    if (!colon)
        return dlr_format(address, size, "127.0.0.1");
    return dlr_format(address, size, "%.*s", (int)n, where);
}

static int bound(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, rc;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, CONNECTIONS) == 0)
        return fd;
    rc = -errno;
    close(fd);
    return rc;
}

static int listen_at(const char *where, struct dlr_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags =
                                       AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    char address[ADDRESS];
    const char *port;
    unsigned number;
    int fd;

    if (split(where, address, sizeof(address), &port) < 0 ||
        dlr_parse_uint(port, UINT16_MAX, &number) < 0 ||
        getaddrinfo(address, port, &hints, &found) != 0)
        return dlr_fail(err, -EINVAL,
                        "'%.80s' is no place to listen at: PORT or ADDRESS:PORT, such "
                        "as 9400 or 10.0.0.7:9400",
                        where);
    fd = bound(found);
    freeaddrinfo(found);
    return fd < 0
               ? dlr_fail(err, fd, "cannot listen at '%.80s': %s", where, strerror(-fd))
               : fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    char port[8];
    unsigned number = 0;

    if (getsockname(fd, (struct sockaddr *)&at, &size) == 0 &&
        getnameinfo((struct sockaddr *)&at, size, NULL, 0, port, sizeof(port),
                    NI_NUMERICSERV) == 0)
        (void)dlr_parse_uint(port, UINT16_MAX, &number);
    return (uint16_t)number;
}

int dlr_metrics_server_new(const char *where, dlr_metrics_page_fn page_fn, void *arg,
                           struct dlr_metrics_server **ret, struct dlr_err *err)
{
    struct dlr_metrics_server *server = calloc(1, sizeof(*server));
    int fd;

    if (!server)
        return dlr_fail(err, -ENOMEM, "no memory for a server");
    fd = listen_at(where, err);
    if (fd < 0) {
        free(server);
        return fd;
    }
    server->page = page_fn;
    server->arg = arg;
    server->port = port_of(fd);
    server->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, answer, server,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_S,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)FROM_ONE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_END);
    if (!server->daemon) {
        close(fd);
        free(server);
        return dlr_fail(err, -EIO, "cannot serve at '%.80s'", where);
    }
    *ret = server;
    return 0;
}

uint16_t dlr_metrics_server_port(const struct dlr_metrics_server *server)
{
    return server->port;
}

struct dlr_metrics_server *dlr_metrics_server_free(struct dlr_metrics_server *server)
{
    if (server) {
        MHD_stop_daemon(server->daemon);
        free(server);
    }
    return NULL;
}
