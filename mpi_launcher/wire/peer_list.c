/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/peer_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"

#define PEERS_MAX 131072

static int by_node(const void *a, const void *b)
{
    const struct dlr_agent_peer *x = a, *y = b;

    return strcmp(x->node, y->node); /* order of names */
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* order of names */
}

struct dlr_agent_peer *dlr_peer_list_find(const struct dlr_peer_list *list,
                                          const char *node)
{
    struct dlr_agent_peer key = {0};

    if (!list->n || dlr_format(key.node, sizeof(key.node), "%s", node) < 0)
        return NULL;
    return bsearch(&key, list->all, list->n, sizeof(key), by_node);
}

static int parse_row(const json_t *row, struct dlr_agent_peer *ret)
{
    const char *node = json_string_value(json_array_get(row, 0));
    const char *addr = json_string_value(json_array_get(row, 1));
    const char *key = json_string_value(json_array_get(row, 2));
    const char *hosts = json_string_value(json_array_get(row, 3));

    if (!node || !addr || !key ||
        dlr_format(ret->node, sizeof(ret->node), "%s", node) < 0 ||
        dlr_format(ret->addr, sizeof(ret->addr), "%s", addr) < 0 ||
        dlr_format(ret->key, sizeof(ret->key), "%s", key) < 0 ||
        dlr_format(ret->hosts, sizeof(ret->hosts), "%s", hosts ? hosts : "") < 0)
        return -EBADMSG;
    return 0;
}

static int parse_rows(const json_t *rows, struct dlr_peer_list *ret)
{
    size_t n = json_array_size(rows);

    if (!json_is_array(rows) || n > PEERS_MAX)
        return -EBADMSG;
    ret->all = calloc(n ? n : 1, sizeof(*ret->all));
    if (!ret->all)
        return -ENOMEM;
    for (; ret->n < n; ret->n++)
        if (parse_row(json_array_get(rows, ret->n), &ret->all[ret->n]) < 0)
            return -EBADMSG;
    qsort(ret->all, n, sizeof(*ret->all), by_node);
    for (size_t i = 1; i < n; i++)
        if (dlr_streq(ret->all[i - 1].node, ret->all[i].node))
            return -EBADMSG;
    return 0;
}

static int parse_gone(const json_t *names, const char ***ret, size_t *ret_n)
{
    size_t n = json_array_size(names);

    if ((names && !json_is_array(names)) || n > PEERS_MAX)
        return -EBADMSG;
    *ret = calloc(n ? n : 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        (*ret)[i] = json_string_value(json_array_get(names, i));
        if (!(*ret)[i])
            return -EBADMSG;
    }
    qsort(*ret, n, sizeof(**ret), by_text);
    *ret_n = n;
    return 0;
}

struct merge {
    bool whole;
    const char **gone;
    size_t ngone;
    void (*forget)(void *arg, struct dlr_client *client);
    void *arg;
};

static bool leaves(const struct merge *m, const char *node)
{
    return m->whole ||
           (m->ngone && bsearch(&node, m->gone, m->ngone, sizeof(*m->gone), by_text));
}

static void drop(const struct merge *m, const struct dlr_agent_peer *peer)
{
    if (peer->client)
        m->forget(m->arg, peer->client);
}

/* The same peer, as it is told now. */
static struct dlr_agent_peer renew(const struct merge *m,
                                   const struct dlr_agent_peer *old,
                                   const struct dlr_agent_peer *row)
{
    struct dlr_agent_peer now = *row;

    if (dlr_streq(old->addr, row->addr) && dlr_streq(old->key, row->key))
        now.client = old->client;
    else
        drop(m, old);
    return now;
}

static unsigned merge(const struct merge *m, const struct dlr_peer_list *old,
                      const struct dlr_peer_list *rows, struct dlr_agent_peer *out)
{
    unsigned i = 0, j = 0, n = 0;

    while (i < old->n || j < rows->n) {
        int order = i == old->n    ? 1
                    : j == rows->n ? -1
                                   : by_node(&old->all[i], &rows->all[j]);

        if (order == 0)
            out[n++] = renew(m, &old->all[i++], &rows->all[j++]);
        else if (order > 0)
            out[n++] = rows->all[j++];
        else if (leaves(m, old->all[i].node))
            drop(m, &old->all[i++]);
        else
            out[n++] = old->all[i++];
    }
    return n;
}

static void free_names(char **names, unsigned n)
{
    for (unsigned i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
}

void dlr_peer_list_done(struct dlr_peer_list *list)
{
    free_names(list->gone, list->ngone);
    free(list->all);
    *list = (struct dlr_peer_list){0};
}

/* Who was gone and is not among the rows, and whoever of the list leaves by its name.
 */
static int list_gone(const struct merge *m, const struct dlr_peer_list *old,
                     const struct dlr_peer_list *rows, char ***ret, unsigned *ret_n)
{
    char **names = calloc(old->ngone + old->n + 1, sizeof(*names));
    unsigned n = 0;
    bool whole = true;

    if (!names)
        return -ENOMEM;
    for (unsigned i = 0; i < old->ngone; i++)
        if (!dlr_peer_list_find(rows, old->gone[i]))
            whole = (names[n++] = strdup(old->gone[i])) && whole;
    for (unsigned i = 0; i < old->n; i++)
        if (!m->whole && leaves(m, old->all[i].node) &&
            !dlr_peer_list_find(rows, old->all[i].node))
            whole = (names[n++] = strdup(old->all[i].node)) && whole;
    if (!whole) {
        free_names(names, n);
        return -ENOMEM;
    }
    qsort(names, n, sizeof(*names), by_text);
    *ret = names;
    *ret_n = n;
    return 0;
}

int dlr_peer_list_take(struct dlr_peer_list *list, const json_t *msg,
                       void (*forget)(void *arg, struct dlr_client *client), void *arg)
{
    struct merge m = {.whole = json_is_true(json_object_get(msg, "whole")),
                      .forget = forget,
                      .arg = arg};
    struct dlr_peer_list rows = {0};
    DLR_AUTO_FREE const char **gone = NULL;
    DLR_AUTO_FREE struct dlr_agent_peer *all = NULL, *given = NULL;
    char **left = NULL;
    unsigned nleft = 0;
    int rc = parse_rows(json_object_get(msg, "peers"), &rows);

    given = rows.all;
    rc = rc < 0 ? rc : parse_gone(json_object_get(msg, "gone"), &gone, &m.ngone);
    if (rc < 0)
        return rc;
    m.gone = gone;
    all = calloc(list->n + rows.n + 1, sizeof(*all));
    if (!all || list_gone(&m, list, &rows, &left, &nleft) < 0)
        return -ENOMEM;
    list->n = merge(&m, list, &rows, all);
    free_names(list->gone, list->ngone);
    free(list->all);
    list->all = DLR_STEAL(all);
    list->gone = left;
    list->ngone = nleft;
    return 0;
}
