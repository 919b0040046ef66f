/* SPDX-License-Identifier: Apache-2.0 */
/* What dlrover-rendezvous is told: written by the supervisor, read back here. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/redundancy/parity.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/input.h"
#include "mpi_launcher/plan/json_fields.h"

#define REJECTED_MAX 65536u
#define PEER_MAX_MS (10 * 60 * 1000)
#define NUMBER_MAX 1e30

/* --- writing ---------------------------------------------------------------------- */

static json_t *version_to_json(struct dlr_version v)
{
    return json_pack("{s:I, s:I}", "vround", (json_int_t)v.round, "step",
                     (json_int_t)v.step);
}

static json_t *seat_to_json(const struct dlr_plan_former_place *s)
{
    return json_pack("{s:s, s:s, s:s}", "node", s->node.name, "topo", s->node.path,
                     "partner", s->partner);
}

static json_t *file_to_json(const struct dlr_plan_file *f)
{
    json_t *j = dlr_plan_copy_to_json(&f->copy);

    if (j && json_object_set_new(j, "path", json_string(f->path)) < 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static json_t *rejected_to_json(const struct dlr_plan_rejected *s)
{
    return json_pack("{s:s, s:i, s:I, s:I, s:b}", "where", s->where, "rank",
                     (int)s->rank, "vround", (json_int_t)s->version.round, "step",
                     (json_int_t)s->version.step, "later", s->later);
}

static json_t *full_to_json(const struct dlr_plan_out *f)
{
    return json_pack("{s:s, s:s, s:b}", "node", f->node, "why", f->reason, "last",
                     f->last);
}

static int put_parity(json_t *j, const struct dlr_plan_want *w)
{
    if (json_object_set_new(j, "members", json_integer(w->members)) < 0 ||
        json_object_set_new(j, "rows", json_integer(w->rows)) < 0)
        return -1;
    return dlr_plan_put_worlds(j, w);
}

static int put_reorder(json_t *j, const struct dlr_plan_want *w)
{
    return json_object_set_new(j, "reorder",
                               json_pack("{s:b, s:f, s:f}", "weigh", w->weigh, "steps",
                                         w->steps, "fetch_ms", w->fetch_ms));
}

static json_t *want_to_json(const struct dlr_plan_want *w)
{
    DLR_AUTO_JSON json_t *j = json_pack("{s:s}", "batch", w->batch);

    if (!j || dlr_plan_put_places(j, w->nplaces, w->tasks, w->ranks) < 0 ||
        DLR_PLAN_PUT_LIST(j, "former", w->nformer, seat_to_json(&w->former[i])) < 0 ||
        DLR_PLAN_PUT_LIST(j, "prefer", w->nprefer, json_string(w->prefer[i])) < 0 ||
        DLR_PLAN_PUT_LIST(j, "files", w->nfiles, file_to_json(&w->files[i])) < 0 ||
        DLR_PLAN_PUT_LIST(j, "rejected", w->nrejected,
                          rejected_to_json(&w->rejected[i])) < 0 ||
        DLR_PLAN_PUT_LIST(j, "full", w->nfull, full_to_json(&w->full[i])) < 0)
        return NULL;
    if (w->ordered && json_object_set_new(j, "ordered", json_true()) < 0)
        return NULL;
    if (w->group && json_object_set_new(j, "group", json_integer(w->group)) < 0)
        return NULL;
    if (w->reorder && put_reorder(j, w) < 0)
        return NULL;
    if (w->rows && put_parity(j, w) < 0)
        return NULL;
    if (w->limited && json_object_set_new(j, "newest", version_to_json(w->newest)) < 0)
        return NULL;
    if (w->has_committed &&
        json_object_set_new(j, "committed", version_to_json(w->committed)) < 0)
        return NULL;
    return DLR_STEAL(j);
}

static json_t *survey_to_json(const struct dlr_plan_survey *s)
{
    DLR_AUTO_JSON json_t *j = json_pack(
        "{s:s*, s:s*, s:s*, s:s*, s:s*, s:I, s:I, s:I}", "checks", s->checks,
        "disk_path", s->disk_path, "shm_path", s->shm_path, "store_dir", s->store_dir,
        "key", s->key, "shm_need_bytes", (json_int_t)s->shm_need_bytes,
        "peer_timeout_ms", (json_int_t)s->peer_timeout_ms, "port", (json_int_t)s->port);

    if (!j || (s->network_ms &&
               json_object_set_new(j, "network_ms", json_integer(s->network_ms)) < 0))
        return NULL;
    if (s->no_stragglers && json_object_set_new(j, "no_stragglers", json_true()) < 0)
        return NULL;
    if (DLR_PLAN_PUT_LIST(j, "peers", s->npeers,
                          json_pack("{s:s, s:s, s:s*}", "node", s->peer_nodes[i],
                                    "addr", s->peer_addrs[i], "topo",
                                    s->peer_paths ? s->peer_paths[i] : NULL)) < 0)
        return NULL;
    return DLR_STEAL(j);
}

json_t *dlr_plan_input_to_json(const struct dlr_plan_want *want,
                               const struct dlr_plan_survey *survey)
{
    DLR_AUTO_JSON json_t *j =
        json_pack("{s:i, s:s}", "v", DLR_MSG_VERSION, "t", "input");

    if (!j || json_object_set_new(j, "want", want_to_json(want)) < 0)
        return NULL;
    if (survey && json_object_set_new(j, "survey", survey_to_json(survey)) < 0)
        return NULL;
    return DLR_STEAL(j);
}

/* --- reading ---------------------------------------------------------------------- */

static int read_version(const json_t *j, struct dlr_version *ret_version)
{
    unsigned round = 0;
    int rc = dlr_plan_unsigned(j, "vround", UINT32_MAX, &round);

    ret_version->round = round;
    return rc < 0 ? rc : dlr_msg_uint(j, "step", INT64_MAX, &ret_version->step);
}

static int read_former(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    struct dlr_plan_former_place *former;
    size_t n, i;
    int rc = dlr_plan_array(j, "former", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->former = former = calloc(n + 1, sizeof(*former));
    if (!former)
        return -ENOMEM;
    w->nformer = (unsigned)n;
    for (i = 0; rc == 0 && i < n; i++) {
        const json_t *item = json_array_get(array, i);

        rc = dlr_plan_node_from_json(item, &former[i].node);
        if (rc == 0)
            rc = dlr_plan_text(item, "partner", former[i].partner,
                               sizeof(former[i].partner));
    }
    return rc;
}

static int read_files(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    struct dlr_plan_file *files;
    size_t n, i;
    int rc = dlr_plan_array(j, "files", DLR_PLAN_RANKS_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->files = files = calloc(n + 1, sizeof(*files));
    if (!files)
        return -ENOMEM;
    w->nfiles = (unsigned)n;
    for (i = 0; rc == 0 && i < n; i++) {
        const json_t *item = json_array_get(array, i);

        rc = dlr_plan_copy_from_json(item, &files[i].copy);
        if (rc == 0)
            rc = dlr_plan_text(item, "path", files[i].path, sizeof(files[i].path));
    }
    return rc;
}

static int read_struck(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    struct dlr_plan_rejected *rejected;
    size_t n, i;
    int rc = dlr_plan_array(j, "rejected", REJECTED_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->rejected = rejected = calloc(n + 1, sizeof(*rejected));
    if (!rejected)
        return -ENOMEM;
    w->nrejected = (unsigned)n;
    for (i = 0; rc == 0 && i < n; i++) {
        const json_t *item = json_array_get(array, i);
        int64_t rank = 0;

        rc = dlr_plan_text(item, "where", rejected[i].where, sizeof(rejected[i].where));
        if (rc == 0)
            rc = dlr_msg_int(item, "rank", &rank);
        if (rc == 0)
            rc = read_version(item, &rejected[i].version);
        if (rc == 0 && (rank < -1 || rank >= (int64_t)DLR_PLAN_RANKS_MAX))
            rc = -EBADMSG;
        rejected[i].rank = (int32_t)rank;
        rejected[i].later = json_is_true(json_object_get(item, "later"));
    }
    return rc;
}

static int read_full(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    struct dlr_plan_out *full;
    size_t n;
    int rc = dlr_plan_array(j, "full", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->full = full = calloc(n + 1, sizeof(*full));
    if (!full)
        return -ENOMEM;
    w->nfull = (unsigned)n;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const json_t *item = json_array_get(array, i);

        rc = dlr_plan_text(item, "node", full[i].node, sizeof(full[i].node));
        if (rc == 0)
            rc = dlr_plan_text(item, "why", full[i].reason, sizeof(full[i].reason));
        full[i].last = json_is_true(json_object_get(item, "last"));
    }
    return rc;
}

static int read_prefer(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    const char **names;
    size_t n, i;
    int rc = dlr_plan_array(j, "prefer", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->prefer = names = calloc(n + 1, sizeof(*names));
    if (!names)
        return -ENOMEM;
    for (i = 0; i < n; i++) {
        names[i] = json_string_value(json_array_get(array, i));
        if (!names[i] || strlen(names[i]) >= DLR_TOPO_NAME)
            return -EBADMSG;
    }
    w->nprefer = (unsigned)n;
    w->ordered = json_is_true(json_object_get(j, "ordered"));
    return 0;
}

static int read_parity(const json_t *j, struct dlr_plan_want *w)
{
    int rc = dlr_plan_unsigned(j, "members", DLR_PARITY_DATA_MAX, &w->members);

    if (rc == 0)
        rc = dlr_plan_unsigned(j, "rows", DLR_PARITY_ROWS_MAX, &w->rows);
    return rc < 0 ? rc : dlr_plan_read_worlds(j, w);
}

/* Neither negative nor without a bound. */
static int read_number(const json_t *j, const char *key, double *ret)
{
    const json_t *value = json_object_get(j, key);

    *ret = json_number_value(value);
    return json_is_number(value) && *ret >= 0 && *ret < NUMBER_MAX ? 0 : -EBADMSG;
}

static int read_reorder(const json_t *j, struct dlr_plan_want *w)
{
    int rc = read_number(j, "steps", &w->steps);

    w->reorder = true;
    w->weigh = json_is_true(json_object_get(j, "weigh"));
    return rc < 0 ? rc : read_number(j, "fetch_ms", &w->fetch_ms);
}

static int read_want(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *newest = json_object_get(j, "newest");
    const json_t *committed = json_object_get(j, "committed");
    struct dlr_plan_world places = {0};
    int rc = dlr_plan_read_places(j, &places);

    w->nplaces = places.nplaces;
    w->tasks = places.tasks;
    w->ranks = places.ranks;
    w->limited = newest != NULL;
    w->has_committed = committed != NULL;
    if (rc == 0)
        rc = dlr_plan_text(j, "batch", w->batch, sizeof(w->batch));
    if (rc == -ENOENT)
        rc = 0;
    if (rc == 0 && newest)
        rc = read_version(newest, &w->newest);
    if (rc == 0 && committed)
        rc = read_version(committed, &w->committed);
    if (rc == 0 && json_object_get(j, "rows"))
        rc = read_parity(j, w);
    if (rc == 0 && json_object_get(j, "group"))
        rc = dlr_plan_unsigned(j, "group", DLR_PLAN_NODES_MAX, &w->group);
    if (rc == 0 && json_object_get(j, "reorder"))
        rc = read_reorder(json_object_get(j, "reorder"), w);
    if (rc == 0)
        rc = read_former(j, w);
    if (rc == 0)
        rc = read_prefer(j, w);
    if (rc == 0)
        rc = read_files(j, w);
    if (rc == 0)
        rc = read_struck(j, w);
    return rc == 0 ? read_full(j, w) : rc;
}

static int read_peers(const json_t *j, struct dlr_plan_survey *s)
{
    const json_t *array;
    const char **nodes, **addrs, **paths;
    size_t n, i;
    int rc = dlr_plan_array(j, "peers", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc < 0)
        return rc;
    s->peer_nodes = nodes = calloc(n + 1, sizeof(*nodes));
    s->peer_addrs = addrs = calloc(n + 1, sizeof(*addrs));
    s->peer_paths = paths = calloc(n + 1, sizeof(*paths));
    if (!nodes || !addrs || !paths)
        return -ENOMEM;
    s->npeers = (unsigned)n;
    for (i = 0; rc == 0 && i < n; i++) {
        const json_t *item = json_array_get(array, i);
        char name[DLR_TOPO_NAME];

        rc = dlr_plan_name(item, "node", name, sizeof(name));
        if (rc == 0)
            rc = dlr_msg_str(item, "node", &nodes[i]);
        if (rc == 0)
            rc = dlr_msg_str(item, "addr", &addrs[i]);
        if (rc == 0 && json_object_get(item, "topo"))
            rc = dlr_msg_str(item, "topo", &paths[i]);
        if (rc == 0 && paths[i] && strlen(paths[i]) >= DLR_TOPO_PATH)
            rc = -EBADMSG;
    }
    return rc;
}

static int read_optional(const json_t *j, const char *key, const char **ret_text)
{
    int rc = dlr_msg_str(j, key, ret_text);

    if (rc == 0 && strlen(*ret_text) >= DLR_PLAN_WHERE)
        rc = -EBADMSG;
    if (rc == -ENOENT) {
        *ret_text = "";
        rc = 0;
    }
    return rc;
}

static int read_survey(const json_t *j, struct dlr_plan_survey *s)
{
    uint64_t timeout = 0, network = 0;
    int rc = read_optional(j, "checks", &s->checks);

    if (rc == 0)
        rc = read_optional(j, "disk_path", &s->disk_path);
    if (rc == 0)
        rc = read_optional(j, "shm_path", &s->shm_path);
    if (rc == 0)
        rc = read_optional(j, "store_dir", &s->store_dir);
    if (rc == 0)
        rc = read_optional(j, "key", &s->key);
    if (rc == 0)
        rc = dlr_msg_uint(j, "shm_need_bytes", INT64_MAX, &s->shm_need_bytes);
    if (rc == 0 || rc == -ENOENT)
        rc = dlr_msg_uint(j, "peer_timeout_ms", PEER_MAX_MS, &timeout);
    s->peer_timeout_ms = (int64_t)timeout;
    if (rc == 0 || rc == -ENOENT)
        rc = dlr_msg_uint(j, "network_ms", PEER_MAX_MS, &network);
    s->network_ms = (int64_t)network;
    s->no_stragglers = json_is_true(json_object_get(j, "no_stragglers"));
    if (rc == 0 || rc == -ENOENT)
        rc = read_peers(j, s);
    if (rc == 0)
        rc = dlr_plan_port(j, &s->port);
    return rc;
}

void dlr_plan_input_done(struct dlr_plan_input *input)
{
    dlr_plan_worlds_done(&input->want);
    free((void *)input->want.tasks);
    free((void *)input->want.ranks);
    free((void *)input->want.former);
    free((void *)input->want.prefer);
    free((void *)input->want.files);
    free((void *)input->want.rejected);
    free((void *)input->want.full);
    free((void *)input->survey.peer_nodes);
    free((void *)input->survey.peer_paths);
    free((void *)input->survey.peer_addrs);
    json_decref(input->json);
    memset(input, 0, sizeof(*input));
}

int dlr_plan_input_from_json(json_t *j, struct dlr_plan_input *ret_input,
                             struct dlr_err *err)
{
    const json_t *want = json_object_get(j, "want"),
                 *survey = json_object_get(j, "survey");
    int rc = 0;

    memset(ret_input, 0, sizeof(*ret_input));
    ret_input->json = json_incref(j);
    if (!json_is_object(j))
        return dlr_fail(err, -EBADMSG, "the input is not an object");
    if (want)
        rc = read_want(want, &ret_input->want);
    if (rc < 0)
        return dlr_fail(err, rc == -ENOMEM ? rc : -EBADMSG, "bad input: 'want'");
    rc = read_survey(survey, &ret_input->survey);
    if (rc < 0)
        return dlr_fail(err, rc == -ENOMEM ? rc : -EBADMSG, "bad input: 'survey'");
    return 0;
}
