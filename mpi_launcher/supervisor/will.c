/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/will.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/wire/identity.h"

#define HEIRS 4 /* the lowest-named: of those that live the lowest is elected */

extern char **environ;

struct dlr_sup_will {
    bool changed;    /* the state, or who is here */
    uint32_t *has;   /* [members]: number of the state that it has, 0: nothing */
    uint32_t number; /* of the newest one */
    json_t *start;   /* what does not change: argv, environment, output, key pair */
    json_t *state;   /* the newest one; NULL: nobody has any */
};

/* Of words that are no UTF-8 false. */
static bool add_words(json_t *to, char *const *words, bool all)
{
    for (; *words; words++) {
        json_t *word = json_string(*words);

        if (!word && all)
            return false;
        if (word)
            json_array_append_new(to, word);
    }
    return true;
}

static json_t *key_pair(const struct dlr_sup *s)
{
    unsigned char keys[DLR_IDENTITY_BYTES];
    char text[2 * DLR_IDENTITY_BYTES + 1];
    json_t *ret;

    if (pread(s->state_fd, keys, sizeof(keys), 0) != sizeof(keys))
        return NULL;
    for (unsigned i = 0; i < sizeof(keys); i++)
        snprintf(text + 2 * i, 3, "%02x", keys[i]);
    ret = json_string(text);
    explicit_bzero(keys, sizeof(keys));
    explicit_bzero(text, sizeof(text));
    return ret;
}

/* "" of what no other host can open. */
static json_t *file_of(int fd)
{
    char link[32], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = dlr_is_file(fd) ? readlink(link, path, sizeof(path) - 1) : -1;
    path[n > 0 ? n : 0] = '\0';
    return json_string(path);
}

static json_t *make_start(const struct dlr_sup *s)
{
    json_t *argv = json_array(), *env = json_array(), *keys = key_pair(s);
    char cwd[4096] = "/";
    bool good = add_words(argv, s->argv, true) && keys;

    add_words(env, environ, false);
    if (!getcwd(cwd, sizeof(cwd)) || !good) {
        json_decref(argv);
        json_decref(env);
        json_decref(keys);
        return NULL;
    }
    return json_pack("{s:o,s:o,s:o,s:s,s:o,s:o,s:o}", "argv", argv, "env", env, "keys",
                     keys, "cwd", cwd, "in", file_of(STDIN_FILENO), "out",
                     file_of(STDOUT_FILENO), "err", file_of(STDERR_FILENO));
}

void dlr_sup_will_open(struct dlr_sup *s)
{
    struct dlr_sup_will *will;

    if (!s->conf.takeover || s->state_fd < 0 || !dlr_sup_batch(s->nodes)[0] ||
        !dlr_streq(getenv("ENVIRONMENT"), "BATCH"))
        return;
    will = s->will = calloc(1, sizeof(*will));
    if (!will)
        return;
    will->has = calloc(s->members->n, sizeof(*will->has));
    will->start = make_start(s);
    will->changed = true;
    if (!will->has || !will->start)
        dlr_sup_will_free(s);
}

void dlr_sup_will_free(struct dlr_sup *s)
{
    if (!s->will)
        return;
    free(s->will->has);
    json_decref(s->will->start);
    json_decref(s->will->state);
    free(s->will);
    s->will = NULL;
}

void dlr_sup_will_changed(struct dlr_sup *s)
{
    if (s->will)
        s->will->changed = true;
}

void dlr_sup_will_greeted(struct dlr_sup *s, unsigned node)
{
    if (!s->will)
        return;
    s->will->has[node] = 0;
    s->will->changed = true;
}

/* The lowest-named that are here, but this one; their number. */
static unsigned choose(const struct dlr_sup *s, unsigned heirs[HEIRS])
{
    const struct dlr_member *list = s->members->list;
    unsigned n = 0;

    for (unsigned i = 0; i < s->members->n; i++) {
        unsigned at = n;

        if (!list[i].here || dlr_streq(list[i].node.name, dlr_sup_batch(s->nodes)))
            continue;
        while (at > 0 && /* order of names */
               strcmp(list[i].node.name, list[heirs[at - 1]].node.name) < 0)
            at--;
        if (at == HEIRS)
            continue;
        n += n < HEIRS;
        memmove(heirs + at + 1, heirs + at, (n - at - 1) * sizeof(*heirs));
        heirs[at] = i;
    }
    return n;
}

/* A line for each node is in it, and most of them stay: {changed: {..}, gone: [names]},
 * or NULL where nothing is.
 */
static json_t *compare(const json_t *before, json_t *now)
{
    json_t *changed = json_object(), *gone = json_array(), *value;
    const char *name;

    json_object_foreach(now, name, value)
    {
        const json_t *old = json_object_get(before, name);

        if (!old || !json_equal(old, value))
            json_object_set(changed, name, value);
    }
    json_object_foreach((json_t *)before, name, value)
    {
        if (!json_object_get(now, name))
            json_array_append_new(gone, json_string(name));
    }
    if (json_object_size(changed) > 0 || json_array_size(gone) > 0)
        return json_pack("{s:o,s:o}", "changed", changed, "gone", gone);
    json_decref(changed);
    json_decref(gone);
    return NULL;
}

/* changes: since the number before; NULL: they are not known. */
static void send(struct dlr_sup *s, unsigned node, json_t *changes)
{
    struct dlr_sup_will *will = s->will;
    unsigned least =
        s->conf.nodes.min ? s->conf.nodes.min : dlr_sup_full_places(s->planning);
    json_t *msg = dlr_msg_new("will");

    json_object_set_new(msg, "nth", json_integer(s->nth));
    json_object_set_new(msg, "enough", json_integer(least));
    if (changes && will->has[node] && will->has[node] == will->number - 1)
        json_object_update(msg, changes);
    else
        json_object_set(msg, "state", will->state);
    if (!will->has[node])
        json_object_set(msg, "start", will->start);
    will->has[node] = will->number;
    dlr_sup_send(s->nodes, node, msg);
}

void dlr_sup_will_tick(struct dlr_sup *s)
{
    struct dlr_sup_will *will = s->will;
    DLR_AUTO_JSON json_t *state = NULL, *changes = NULL;
    unsigned heirs[HEIRS], n;

    if (!will || (!will->changed && !s->will_is_old) || s->deposed)
        return;
    will->changed = s->will_is_old = false;
    state = dlr_sup_state_for_heirs(s);
    if (!state)
        return;
    changes = compare(will->state, state);
    will->number += changes != NULL;
    json_decref(will->state);
    will->state = DLR_STEAL(state);
    n = choose(s, heirs);
    for (unsigned i = 0; i < n; i++)
        if (will->has[heirs[i]] != will->number)
            send(s, heirs[i], changes);
}
