/* SPDX-License-Identifier: Apache-2.0 */
#include "health/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

/* Who measures something that can be injected adds its row, and asks
 * dlr_inject_number() when it measures.
 */
// clang-format off
const struct dlr_inject_key dlr_inject_keys[] = {
    {"clock", "how far the clock is ahead", true},
    {NULL, NULL, false},
};
// clang-format on

/* One "NODE:KEY=VALUE"; the parts point into the text. */
struct word {
    const char *node, *key, *value;
    int node_len, key_len, value_len;
};

/* The word at text, and where the next one begins: NULL behind the last. */
static bool read_word(const char *text, struct word *w, const char **ret_next)
{
    size_t size = strcspn(text, ",");
    const char *colon = memchr(text, ':', size),
               *equals =
                   colon ? memchr(colon, '=', size - (size_t)(colon - text)) : NULL;

    *ret_next = text[size] ? text + size + 1 : NULL;
    if (!equals || colon == text || equals == colon + 1)
        return false;
    *w = (struct word){text,
                       colon + 1,
                       equals + 1,
                       (int)(colon - text),
                       (int)(equals - colon - 1),
                       (int)(text + size - equals - 1)};
    return true;
}

static bool is(const char *piece, int len, const char *name)
{
    return name && strlen(name) == (size_t)len && memcmp(piece, name, (size_t)len) == 0;
}

static int verdict_of(const struct word *w)
{
    char name[16];

    if (dlr_format(name, sizeof(name), "%.*s", w->value_len, w->value) < 0)
        return -EINVAL;
    return dlr_health_verdict_parse(name);
}

static int number_of(const struct word *w, bool is_time, double *ret_value)
{
    char text[32], *end;
    int64_t ms;

    if (!w->value_len ||
        dlr_format(text, sizeof(text), "%.*s", w->value_len, w->value) < 0)
        return -EINVAL;
    if (is_time) {
        int rc = dlr_parse_duration_ms(text, &ms);

        if (rc == 0)
            *ret_value = (double)ms;
        return rc;
    }
    *ret_value = strtod(text, &end);
    return *end ? -EINVAL : 0;
}

static const struct dlr_inject_key *find_key(const struct word *w)
{
    const struct dlr_inject_key *k = dlr_inject_keys;

    while (k->key && !is(w->key, w->key_len, k->key))
        k++;
    return k->key ? k : NULL;
}

static bool is_check(const struct word *w, const struct dlr_health_check *checks)
{
    for (const struct dlr_health_check *c = checks; c->name; c++)
        if (is(w->key, w->key_len, c->name))
            return true;
    return false;
}

static int check_word(const struct word *w, const struct dlr_health_check *checks,
                      struct dlr_err *err)
{
    const struct dlr_inject_key *k = find_key(w);
    bool is_known = is_check(w, checks);
    double value;

    if (is_known && verdict_of(w) >= 0)
        return 0;
    if (k && number_of(w, k->is_time, &value) == 0)
        return 0;
    if (!k && !is_known)
        return dlr_fail(err, -EINVAL,
                        "DLROVER_INJECT: '%.*s' is no check; dlrover check --list has "
                        "them",
                        w->key_len, w->key);
    return dlr_fail(err, -EINVAL,
                    "DLROVER_INJECT: %.*s cannot be '%.*s': it takes ok, skip, warn, "
                    "fail or drain%s",
                    w->key_len, w->key, w->value_len, w->value,
                    k ? k->is_time ? ", or a time as 250ms" : ", or a number" : "");
}

int dlr_inject_check(const char *text, const struct dlr_health_check *checks,
                     struct dlr_err *err)
{
    int rc = 0;

    while (text && text[0] && rc == 0) {
        const char *word = text;
        struct word w;

        if (read_word(word, &w, &text))
            rc = check_word(&w, checks, err);
        else
            rc = dlr_fail(err, -EINVAL,
                          "DLROVER_INJECT: '%.*s' is not NODE:CHECK=VALUE, as "
                          "n2:memory=fail",
                          (int)strcspn(word, ","), word);
    }
    return rc;
}

static bool is_for(const struct word *w, const char *node)
{
    return is(w->node, w->node_len, node) || is(w->node, w->node_len, "*");
}

bool dlr_inject_number(const char *text, const char *node, const char *key,
                       double *ret_value)
{
    bool found = false;
    struct word w;

    while (text && text[0]) {
        const struct dlr_inject_key *k;
        double value;

        if (!read_word(text, &w, &text) || !is_for(&w, node) ||
            !is(w.key, w.key_len, key))
            continue;
        k = find_key(&w);
        if (k && number_of(&w, k->is_time, &value) == 0) {
            *ret_value = value;
            found = true;
        }
    }
    return found;
}

static void apply_word(const struct word *w, struct dlr_health_result *r)
{
    int verdict = verdict_of(w);
    char measured[sizeof(r->reason)];

    if (verdict < 0 || !is(w->key, w->key_len, r->check))
        return;
    r->verdict = (enum dlr_health_verdict)verdict;
    memcpy(measured, r->reason, sizeof(measured));
    snprintf(r->reason, sizeof(r->reason), DLR_INJECTED "%.200s",
             dlr_after(measured, DLR_INJECTED) ? measured + strlen(DLR_INJECTED)
                                               : measured);
}

void dlr_inject_apply(const char *text, const char *node,
                      struct dlr_health_result *results, size_t n)
{
    struct word w;

    while (text && text[0])
        if (read_word(text, &w, &text) && is_for(&w, node))
            for (size_t i = 0; i < n; i++)
                apply_word(&w, &results[i]);
}
