/* SPDX-License-Identifier: Apache-2.0 */
#include "health/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "health/checks.h"

#define MOST 1e18 /* so that it fits into 64 bits */

/* Who measures something that can be injected adds its row, and asks
 * dlr_health_injected() when it measures. In the order of the table of checks.
 */
// clang-format off
const struct dlr_inject_key dlr_inject_keys[] = {
    {"memory.available", "memory available", DLR_INJECT_SIZE},
    {"edac.corrected", "corrected memory errors since boot", DLR_INJECT_NUMBER},
    {"edac.uncorrected", "uncorrected memory errors since boot", DLR_INJECT_NUMBER},
    {"swap.used", "percent of the memory in swap", DLR_INJECT_NUMBER},
    {"swap.stalled", "percent of a minute lost waiting for memory", DLR_INJECT_NUMBER},
    {"cpu.load", "runnable tasks", DLR_INJECT_NUMBER},
    {"throttle.hot", "time since boot that heat has cost", DLR_INJECT_TIME},
    {"throttle.events", "times that heat has slowed a CPU down, since boot", DLR_INJECT_NUMBER},
    {"inventory.cpus", "CPUs that are online; the others are offline", DLR_INJECT_NUMBER},
    {"inventory.memory", "memory that the node has", DLR_INJECT_SIZE},
    {"inventory.gpus", "GPUs on the PCI bus", DLR_INJECT_NUMBER},
    {"disk.free", "space free in each directory", DLR_INJECT_SIZE},
    {"disk.inodes", "inodes free in each directory", DLR_INJECT_NUMBER},
    {"mounts.errors", "errors that ext4 has recorded", DLR_INJECT_NUMBER},
    {"clock", "how far the clock is ahead", DLR_INJECT_TIME},
    {"reach.silent", "nodes that do not answer, the first by name after this one", DLR_INJECT_NUMBER},
    {"ib.rate", "Gb/s of the first active port", DLR_INJECT_NUMBER},
    {"ib.state", "state of the first port, as the kernel counts: 1 down, 2 init, 4 active", DLR_INJECT_NUMBER},
    {"links.downed", "interruptions of a link since boot", DLR_INJECT_NUMBER},
    {"links.recoveries", "recoveries of a link since boot", DLR_INJECT_NUMBER},
    {"links.receive-errors", "received errors of a link since boot", DLR_INJECT_NUMBER},
    {"links.symbol-errors", "symbol errors of a link since boot", DLR_INJECT_NUMBER},
    {"links.carrier-losses", "times that an interface lost its carrier, since boot", DLR_INJECT_NUMBER},
    {"pcie.width", "lanes of the first network card or GPU", DLR_INJECT_NUMBER},
    {"pcie.speed", "GT/s of the first network card", DLR_INJECT_NUMBER},
    {"leftovers.memory", "memory of a process of no job", DLR_INJECT_SIZE},
    {"matmul.speed", "GFLOP/s of each CPU", DLR_INJECT_NUMBER},
    {"matmul.wrong", "CPUs that compute what is wrong", DLR_INJECT_NUMBER},
    {"bandwidth.speed", "GB/s of each CPU", DLR_INJECT_NUMBER},
    {"bandwidth.wrong", "CPUs that read what they have not written", DLR_INJECT_NUMBER},
    {"write.time", "time that a file takes", DLR_INJECT_TIME},
    {"shared.time", "time that a file takes", DLR_INJECT_TIME},
    {"gpu.error", "what NVML says of the first GPU (nvmlReturn_t): 15 lost", DLR_INJECT_NUMBER},
    {"gpu.recovery", "what the driver wants of it (nvmlDeviceGpuRecoveryAction_t): 1 reset, 2 reboot", DLR_INJECT_NUMBER},
    {"gpu-memory.uncorrected", "uncorrected errors of its memory", DLR_INJECT_NUMBER},
    {"gpu-memory.retire-pending", "1: pages wait for a reset", DLR_INJECT_NUMBER},
    {"gpu-memory.remap-pending", "1: rows wait for a reset", DLR_INJECT_NUMBER},
    {"gpu-memory.remap-failed", "1: a row could not be remapped", DLR_INJECT_NUMBER},
    {"gpu-xid.number", "an Xid of it in the kernel's log, just now", DLR_INJECT_NUMBER},
    {"gpu-link.links", "its NVLinks that are active", DLR_INJECT_NUMBER},
    {"gpu-link.lanes", "its PCIe lanes in use", DLR_INJECT_NUMBER},
    {"gpu-clock.reasons", "why its clocks are low, in bits (nvmlClocksEventReasons): 128 power brake", DLR_INJECT_NUMBER},
    {"gpu-speed.to-device", "MB/s of copies to it", DLR_INJECT_NUMBER},
    {"gpu-speed.to-host", "MB/s of copies from it", DLR_INJECT_NUMBER},
    {"gpu-speed.multiply", "Gflop/s of its multiply", DLR_INJECT_NUMBER},
    {"gpu-speed.wrong", "results of its multiply that are wrong", DLR_INJECT_NUMBER},
    {NULL, NULL, DLR_INJECT_NUMBER},
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

static int number_of(const struct word *w, enum dlr_inject_kind kind, double *ret_value)
{
    char text[32], *end;
    uint64_t bytes;
    int64_t ms;
    double value;
    int rc = 0;

    if (!w->value_len ||
        dlr_format(text, sizeof(text), "%.*s", w->value_len, w->value) < 0)
        return -EINVAL;
    if (kind == DLR_INJECT_TIME) {
        rc = dlr_parse_duration_ms(text, &ms);
        value = rc == 0 ? (double)ms : 0;
    } else if (kind == DLR_INJECT_SIZE) {
        rc = dlr_parse_size(text, &bytes);
        value = rc == 0 ? (double)bytes : 0;
    } else {
        value = strtod(text, &end);
        rc = *end ? -EINVAL : 0;
    }
    if (rc < 0 || !(value >= 0 && value <= MOST))
        return -EINVAL;
    *ret_value = value;
    return 0;
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

/* The numbers of the check that key begins with, ", " between; "" none. */
static void numbers_like(const struct word *w, char *buf, size_t size)
{
    int len = (int)strcspn(w->key, ".=");

    buf[0] = '\0';
    for (const struct dlr_inject_key *k = dlr_inject_keys; k->key; k++) {
        size_t used = strlen(buf);

        if (is(w->key, len, "") || (int)strcspn(k->key, ".") != len ||
            memcmp(k->key, w->key, (size_t)len) != 0)
            continue;
        dlr_format(buf + used, size - used, "%s%s", used ? ", " : "", k->key);
    }
}

static bool ends_with(const struct word *w, const char *tail)
{
    size_t size = strlen(tail);

    return (size_t)w->key_len >= size &&
           memcmp(w->key + w->key_len - size, tail, size) == 0;
}

static int refuse_key(const struct word *w, const struct dlr_health_check *checks,
                      struct dlr_err *err)
{
    struct word check = *w;
    char numbers[256];

    check.key_len = (int)strcspn(w->key, ".=");
    numbers_like(w, numbers, sizeof(numbers));
    if (ends_with(w, "delay") || ends_with(w, "loss") || ends_with(w, "latency"))
        return dlr_fail(err, -EINVAL,
                        "DLROVER_INJECT: '%.*s' is not played: it takes root to slow a "
                        "link down ('tc qdisc' on that node)",
                        w->key_len, w->key);
    if (numbers[0])
        return dlr_fail(err, -EINVAL,
                        "DLROVER_INJECT: '%.*s' is no number of a check; it has %s",
                        w->key_len, w->key, numbers);
    if (check.key_len < w->key_len && is_check(&check, checks))
        return dlr_fail(err, -EINVAL,
                        "DLROVER_INJECT: '%.*s' is no number of a check; of this one "
                        "only the verdict is played, as %.*s=fail",
                        w->key_len, w->key, check.key_len, w->key);
    return dlr_fail(err, -EINVAL,
                    "DLROVER_INJECT: '%.*s' is no check; dlrover check --list has them",
                    w->key_len, w->key);
}

static int check_word(const struct word *w, const struct dlr_health_check *checks,
                      struct dlr_err *err)
{
    static const char *const kinds[] = {"a number", "a time as 250ms", "a size as 4g"};
    const struct dlr_inject_key *k = find_key(w);
    bool is_known = is_check(w, checks);
    double value;

    if (is_known && verdict_of(w) >= 0)
        return 0;
    if (k && number_of(w, k->kind, &value) == 0)
        return 0;
    if (!k && !is_known)
        return refuse_key(w, checks, err);
    return dlr_fail(err, -EINVAL,
                    "DLROVER_INJECT: %.*s cannot be '%.*s': it takes %s%s%s",
                    w->key_len, w->key, w->value_len, w->value,
                    is_known ? "ok, skip, warn, fail or drain" : "",
                    is_known && k ? ", or " : "", k ? kinds[k->kind] : "");
}

const char *dlr_inject_kind_name(enum dlr_inject_kind kind)
{
    static const char *const names[] = {"number", "time", "size"};

    return names[kind];
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
        if (k && number_of(&w, k->kind, &value) == 0) {
            *ret_value = value;
            found = true;
        }
    }
    return found;
}

bool dlr_inject_touches(const char *text, const char *node, const char *check)
{
    double value;

    for (const struct dlr_inject_key *k = dlr_inject_keys; text && k->key; k++) {
        const char *rest = dlr_after(k->key, check);

        if (rest && (*rest == '.' || !*rest) &&
            dlr_inject_number(text, node, k->key, &value))
            return true;
    }
    return false;
}

bool dlr_health_injected(const struct dlr_health_env *env, const char *key,
                         double *ret_value)
{
    return dlr_inject_number(env->inject, env->node, key, ret_value);
}

bool dlr_health_injected_count(const struct dlr_health_env *env, const char *key,
                               uint64_t *ret_value)
{
    double value;
    bool found = dlr_health_injected(env, key, &value);

    if (found)
        *ret_value = (uint64_t)value;
    return found;
}

static void mark(struct dlr_health_result *r)
{
    char measured[sizeof(r->reason)];

    memcpy(measured, r->reason, sizeof(measured));
    snprintf(r->reason, sizeof(r->reason), DLR_INJECTED "%.200s",
             dlr_after(measured, DLR_INJECTED) ? measured + strlen(DLR_INJECTED)
                                               : measured);
}

static void apply_word(const struct word *w, struct dlr_health_result *r)
{
    int verdict = verdict_of(w);

    if (verdict < 0 || !is(w->key, w->key_len, r->check))
        return;
    r->verdict = (enum dlr_health_verdict)verdict;
    mark(r);
}

void dlr_inject_apply(const char *text, const char *node,
                      struct dlr_health_result *results, size_t n)
{
    struct word w;

    for (size_t i = 0; i < n; i++)
        if (dlr_inject_touches(text, node, results[i].check))
            mark(&results[i]);
    while (text && text[0])
        if (read_word(text, &w, &text) && is_for(&w, node))
            for (size_t i = 0; i < n; i++)
                apply_word(&w, &results[i]);
}
