/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/opt_value.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/base/str.h"

#define BEAT_MISSED 5
#define BEAT_MISSED_MIN 2 /* one late beat must not kill a node */
#define BEAT_MISSED_MAX 1000
#define BEAT_MIN_MS 10
#define BEAT_MAX_MS 60000

static int parse_switch(const char *text, union dlr_opt_value *ret)
{
    static const char *const on[] = {"on", "yes", "true", "1"};
    static const char *const off[] = {"off", "no", "false", "0"};

    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        ret->on = dlr_streq(text, on[i]);
        if (ret->on || dlr_streq(text, off[i]))
            return 0;
    }
    return -EINVAL;
}

static int parse_uint(const char *text, union dlr_opt_value *ret)
{
    return dlr_parse_uint(text, UINT_MAX, &ret->number);
}

static int parse_duration(const char *text, union dlr_opt_value *ret)
{
    int rc = dlr_parse_duration_ms(text, &ret->ms);

    return rc < 0 ? rc : ret->ms == 0 ? -ERANGE : 0;
}

static int parse_span(const char *text, union dlr_opt_value *ret)
{
    ret->ms = 0;
    return dlr_streq(text, "off") ? 0 : parse_duration(text, ret);
}

static int parse_size(const char *text, union dlr_opt_value *ret)
{
    return dlr_parse_size(text, &ret->bytes);
}

static int parse_text(const char *text, union dlr_opt_value *ret, bool blanks)
{
    size_t n = strlen(text);

    if (n >= sizeof(ret->text))
        return -ERANGE;
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;

        if (c < ' ' || c == 0x7f)
            return -EINVAL;
        if (!blanks && (c == ' ' || c > 0x7e || strchr("'\"`", c)))
            return -EINVAL;
    }
    memcpy(ret->text, text, n + 1);
    return 0;
}

static int parse_path(const char *text, union dlr_opt_value *ret)
{
    return *text && *text != '/' ? -EINVAL : parse_text(text, ret, true);
}

static int parse_word(const char *text, union dlr_opt_value *ret)
{
    return parse_text(text, ret, false);
}

static int parse_name(const char *text, union dlr_opt_value *ret)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";

    if (strlen(text) > DLR_OPT_NAME_MAX || text[strspn(text, letters)] ||
        *text == '.' || *text == '-')
        return -EINVAL;
    return parse_text(text, ret, false);
}

static int parse_share(const char *text, union dlr_opt_value *ret)
{
    size_t n = strlen(text);
    char number[8];
    unsigned percent;
    uint64_t bytes;

    if (n == 0 || text[n - 1] != '%') {
        int rc = dlr_parse_size(text, &bytes);

        return rc < 0 ? rc : bytes == 0 ? -ERANGE : parse_text(text, ret, false);
    }
    if (dlr_format(number, sizeof(number), "%.*s", (int)(n < 8 ? n - 1 : 7), text) <
            0 ||
        dlr_parse_uint(number, 100, &percent) < 0)
        return -EINVAL;
    return percent == 0 ? -ERANGE : parse_text(text, ret, false);
}

static int parse_beat(const char *text, union dlr_opt_value *ret)
{
    const char *colon = strchrnul(text, ':');
    unsigned missed = BEAT_MISSED;
    char time[32];
    int64_t ms;
    int rc;

    if (dlr_format(time, sizeof(time), "%.*s", (int)(colon - text), text) < 0)
        return -EINVAL;
    rc = dlr_parse_duration_ms(time, &ms);
    if (rc == 0 && *colon)
        rc = dlr_parse_uint(colon + 1, BEAT_MISSED_MAX, &missed);
    if (rc < 0)
        return rc;
    if (ms < BEAT_MIN_MS || ms > BEAT_MAX_MS || missed < BEAT_MISSED_MIN)
        return -ERANGE;
    ret->beat = (struct dlr_heartbeat_conf){.every_ms = (unsigned)ms, .missed = missed};
    return 0;
}

static int parse_every(const char *text, union dlr_opt_value *ret)
{
    int64_t ms;
    int rc;

    ret->every = (struct dlr_every_conf){0};
    if (dlr_streq(text, "off"))
        return 0;
    if (dlr_streq(text, "auto")) {
        ret->every.ms = DLR_EVERY_AUTO;
        return 0;
    }
    if (text[strspn(text, "0123456789")] == '\0') {
        rc = dlr_parse_uint(text, UINT_MAX, &ret->every.steps);
        return rc < 0 ? rc : ret->every.steps == 0 ? -ERANGE : 0;
    }
    rc = dlr_parse_duration_ms(text, &ms);
    if (rc < 0)
        return rc;
    if (ms == 0 || ms > INT_MAX)
        return -ERANGE;
    ret->every.ms = (unsigned)ms;
    return 0;
}

/* "N" or "N+M": nodes of a set, and its parity shards. */
static int parse_set(const char *text, enum dlr_redundancy kind,
                     struct dlr_redundancy_conf *r)
{
    const char *plus = strchrnul(text, '+');
    char members[8];
    int rc;

    *r = (struct dlr_redundancy_conf){kind, 1, 0};
    if ((*plus != '\0') != (kind == DLR_REDUNDANCY_RS) ||
        dlr_format(members, sizeof(members), "%.*s", (int)(plus - text), text) < 0)
        return -EINVAL;
    rc = dlr_parse_uint(members, DLR_MEMBERS_MAX, &r->members);
    if (rc == 0 && *plus)
        rc = dlr_parse_uint(plus + 1, DLR_COPIES_MAX, &r->copies);
    return rc < 0 ? rc : r->members < 2 || r->copies == 0 ? -ERANGE : 0;
}

static int parse_copies(const char *text, union dlr_opt_value *ret)
{
    struct dlr_redundancy_conf *r = &ret->redundancy;
    const char *rest;
    int rc;

    *r = (struct dlr_redundancy_conf){.kind = DLR_REDUNDANCY_NONE};
    if (dlr_streq(text, "none"))
        return 0;
    if ((rest = dlr_after(text, "xor:")))
        return parse_set(rest, DLR_REDUNDANCY_XOR, r);
    if ((rest = dlr_after(text, "rs:")))
        return parse_set(rest, DLR_REDUNDANCY_RS, r);
    *r = (struct dlr_redundancy_conf){DLR_REDUNDANCY_PARTNER, 1, 0};
    if (dlr_streq(text, "partner"))
        return 0;
    rest = dlr_after(text, "partner:");
    rc = rest ? dlr_parse_uint(rest, DLR_COPIES_MAX, &r->copies) : -EINVAL;
    return rc < 0 ? rc : r->copies == 0 ? -ERANGE : 0;
}

static int parse_rate(const char *text, union dlr_opt_value *ret)
{
    int rc;

    ret->bytes = dlr_streq(text, "auto") ? DLR_RATE_AUTO : 0;
    if (ret->bytes || dlr_streq(text, "off"))
        return 0;
    rc = dlr_parse_size(text, &ret->bytes);
    return rc < 0 ? rc : ret->bytes == 0 || ret->bytes == DLR_RATE_AUTO ? -ERANGE : 0;
}

static int parse_count(const char *text, union dlr_opt_value *ret)
{
    ret->number = DLR_COUNT_AUTO;
    return dlr_streq(text, "auto")
               ? 0
               : dlr_parse_uint(text, DLR_COUNT_AUTO - 1, &ret->number);
}

/* "0.1%": digits, a point and up to four more digits. */
static int parse_ppm(const char *text, union dlr_opt_value *ret)
{
    size_t whole = strspn(text, "0123456789"), part = 0;
    unsigned ppm = 0, scale = 1000;

    ret->number = 0;
    if (dlr_streq(text, "off"))
        return 0;
    if (whole < 1 || whole > 3)
        return -EINVAL;
    for (size_t i = 0; i < whole; i++)
        ppm = 10 * ppm + (unsigned)(text[i] - '0');
    ppm *= 10000;
    if (text[whole] == '.') {
        part = strspn(text + whole + 1, "0123456789");
        if (part < 1 || part > 4)
            return -EINVAL;
        for (size_t i = 0; i < part; i++, scale /= 10)
            ppm += scale * (unsigned)(text[whole + 1 + i] - '0');
        part++;
    }
    if (!dlr_streq(text + whole + part, "%"))
        return -EINVAL;
    ret->number = ppm;
    return ppm == 0 || ppm > 1000000 ? -ERANGE : 0;
}

static int parse_save(const char *text, union dlr_opt_value *ret)
{
    ret->number = 0;
    if (dlr_streq(text, "always"))
        return 0;
    return dlr_streq(text, "off") ? -EINVAL : parse_ppm(text, ret);
}

/* The number before the sign; *ret_rest is what is behind it, NULL without one. */
static int parse_before(const char *text, char sign, unsigned *ret,
                        const char **ret_rest)
{
    const char *at = strchrnul(text, sign);
    char number[16];

    *ret_rest = *at ? at + 1 : NULL;
    return dlr_format(number, sizeof(number), "%.*s", (int)(at - text), text) < 0
               ? -EINVAL
               : dlr_parse_uint(number, UINT_MAX, ret);
}

static int parse_nodes(const char *text, union dlr_opt_value *ret)
{
    struct dlr_nodes_conf *n = &ret->nodes;
    const char *rest;
    int rc = parse_before(text, ':', &n->min, &rest);

    n->max = 0;
    if (rc < 0 || !rest)
        return rc;
    rc = dlr_parse_uint(rest, UINT_MAX, &n->max);
    return rc < 0 ? rc : !n->max || n->max < n->min ? -ERANGE : 0;
}

static int parse_ratio(const char *text, union dlr_opt_value *ret)
{
    int64_t ms = DLR_RATIO_MS;
    const char *rest;
    int rc = parse_before(text, '/', &ret->ratio.count, &rest);

    if (rc == 0 && rest)
        rc = dlr_parse_duration_ms(rest, &ms);
    if (rc < 0)
        return rc;
    ret->ratio.per_ms = (unsigned)ms;
    return ms == 0 || ms > INT_MAX ? -ERANGE : 0;
}

static int parse_choice(const char *const *words, const char *text, unsigned *ret)
{
    for (*ret = 0; words[*ret]; ++*ret)
        if (dlr_streq(words[*ret], text))
            return 0;
    return -EINVAL;
}

static const struct {
    int (*parse)(const char *text, union dlr_opt_value *ret);
    size_t size;
    const char *want;
    const char *const *words; /* of an enum, which is parsed by them */
} types[] = {
    [DLR_OPT_SWITCH] = {parse_switch, sizeof(bool), "'on' or 'off'"},
    [DLR_OPT_UINT] = {parse_uint, sizeof(unsigned),
                      "a whole number from 0 to 4294967295"},
    [DLR_OPT_DURATION] =
        {parse_duration, sizeof(int64_t),
         "a time above 0 and up to 24 days, such as '30s', '2m' or '500ms'"},
    [DLR_OPT_SPAN] = {parse_span, sizeof(int64_t),
                      "'off', or a time up to 24 days such as '30s' or '10m'"},
    [DLR_OPT_SIZE] = {parse_size, sizeof(uint64_t),
                      "a size in bytes, such as '4096', '64k' or '4g'"},
    [DLR_OPT_PATH] = {parse_path, DLR_OPT_TEXT,
                      "an absolute path of printable characters, at most 1023 bytes"},
    [DLR_OPT_WORD] =
        {parse_word, DLR_OPT_TEXT,
         "a word of printable characters without blanks or quotes, at most "
         "1023 bytes"},
    [DLR_OPT_NAME] = {parse_name, DLR_OPT_TEXT,
                      "at most 32 letters, digits, '.', '_' and '-', the first one "
                      "neither '.' nor '-'"},
    [DLR_OPT_SHARE] =
        {parse_share, DLR_OPT_TEXT,
         "a size above 0, such as '512m' or '4g', or a share from '1%' to '100%'"},
    [DLR_OPT_BEAT] =
        {parse_beat, sizeof(struct dlr_heartbeat_conf),
         "TIME[:MISSED], a time from 10ms to 1m and a count from 2 to 1000, "
         "such as '200ms:5'"},
    [DLR_OPT_EVERY] = {parse_every, sizeof(struct dlr_every_conf),
                       "'off', 'auto', a count of steps such as '1000', or a time such "
                       "as '10m'"},
    [DLR_OPT_RATE] = {parse_rate, sizeof(uint64_t),
                      "'off', 'auto', or bytes per second such as '200m' or '1g'"},
    [DLR_OPT_COUNT] = {parse_count, sizeof(unsigned),
                       "'auto', or a whole number from 0 to 4294967294"},
    [DLR_OPT_PPM] = {parse_ppm, sizeof(unsigned),
                     "'off', or a percentage from '0.0001%' to '100%' such as '0.1%'"},
    [DLR_OPT_COPIES] =
        {parse_copies, sizeof(struct dlr_redundancy_conf),
         "'none', 'partner', 'partner:K' or 'xor:N' or 'rs:N+K' with K from 1 to 4 "
         "and N from 2 to 32"},
    [DLR_OPT_SAVE] = {parse_save, sizeof(unsigned),
                      "'always', or a percentage from '0.0001%' to '100%' such as "
                      "'1%'; the setting checkpoint=off is what saves nothing"},
    [DLR_OPT_NODES] = {parse_nodes, sizeof(struct dlr_nodes_conf),
                       "MIN[:MAX], whole numbers with MAX not below MIN, such as '6' "
                       "or '6:8'"},
    [DLR_OPT_RATIO] = {parse_ratio, sizeof(struct dlr_ratio_conf),
                       "N[/TIME], a whole number and a time above 0 and up to 24 days, "
                       "such as '3', '10/1h' or '5/30m'"},
    [DLR_OPT_FAILURES] = {dlr_failure_rules_parse, sizeof(struct dlr_failure_rules),
                          DLR_FAILURE_RULES_WANT},
    [DLR_OPT_TRANSPORT] = {NULL, sizeof(enum dlr_transport),
                           "'auto', 'stream' or 'ucx'", dlr_transport_words},
    [DLR_OPT_ROUNDS] = {NULL, sizeof(enum dlr_rounds), "'off', 'first' or 'always'",
                        dlr_rounds_words},
    [DLR_OPT_REORDER] = {NULL, sizeof(enum dlr_reorder), "'never', 'always' or 'auto'",
                         dlr_reorder_words},
    [DLR_OPT_BIND] = {NULL, sizeof(enum dlr_bind), "'off', 'numa' or 'cores'",
                      dlr_bind_words},
    [DLR_OPT_WATCH] = {NULL, sizeof(enum dlr_watch_calls), "'auto', 'all' or 'off'",
                       dlr_watch_calls_words},
    [DLR_OPT_HANG] = {NULL, sizeof(enum dlr_hang), "'act', 'name' or 'off'",
                      dlr_hang_words},
};

int dlr_opt_value_parse(enum dlr_opt_type type, const char *text,
                        union dlr_opt_value *ret)
{
    return types[type].words ? parse_choice(types[type].words, text, &ret->number)
                             : types[type].parse(text, ret);
}

size_t dlr_opt_value_size(enum dlr_opt_type type)
{
    return types[type].size;
}

const char *dlr_opt_value_want(enum dlr_opt_type type)
{
    return types[type].want;
}

static int show_size(uint64_t bytes, char *buf, size_t size)
{
    static const char units[] = "kmgtp";
    char unit[2] = "";

    for (size_t i = 0; i < sizeof(units) - 1 && bytes && bytes % 1024 == 0; i++) {
        bytes /= 1024;
        unit[0] = units[i];
    }
    return dlr_format(buf, size, "%llu%s", (unsigned long long)bytes, unit);
}

static int show_ms(int64_t ms, char *buf, size_t size)
{
    bool whole = ms % 1000 == 0;

    return dlr_format(buf, size, "%lld%s", (long long)(whole ? ms / 1000 : ms),
                      whole ? "s" : "ms");
}

static int show_copies(const struct dlr_redundancy_conf *r, char *buf, size_t size)
{
    switch (r->kind) {
    case DLR_REDUNDANCY_NONE:
        return dlr_format(buf, size, "none");
    case DLR_REDUNDANCY_XOR:
        return dlr_format(buf, size, "xor:%u", r->members);
    case DLR_REDUNDANCY_RS:
        return dlr_format(buf, size, "rs:%u+%u", r->members, r->copies);
    default:
        return r->copies == 1 ? dlr_format(buf, size, "partner")
                              : dlr_format(buf, size, "partner:%u", r->copies);
    }
}

static int show_every(const struct dlr_every_conf *every, char *buf, size_t size)
{
    if (every->ms == DLR_EVERY_AUTO)
        return dlr_format(buf, size, "auto");
    if (every->ms > 0)
        return show_ms(every->ms, buf, size);
    return every->steps ? dlr_format(buf, size, "%u", every->steps)
                        : dlr_format(buf, size, "off");
}

static int show_ratio(const struct dlr_ratio_conf *ratio, char *buf, size_t size)
{
    char time[32];

    if (ratio->per_ms == DLR_RATIO_MS)
        return dlr_format(buf, size, "%u", ratio->count);
    show_ms(ratio->per_ms, time, sizeof(time));
    return dlr_format(buf, size, "%u/%s", ratio->count, time);
}

/* What is shown as a word; NULL for what is not. */
static const char *show_word(enum dlr_opt_type type, const void *at)
{
    switch (type) {
    case DLR_OPT_SWITCH:
        return *(const bool *)at ? "on" : "off";
    case DLR_OPT_COUNT:
        return *(const unsigned *)at == DLR_COUNT_AUTO ? "auto" : NULL;
    case DLR_OPT_SPAN:
        return *(const int64_t *)at ? NULL : "off";
    case DLR_OPT_RATE:
        if (*(const uint64_t *)at == DLR_RATE_AUTO)
            return "auto";
        return *(const uint64_t *)at ? NULL : "off";
    case DLR_OPT_PPM:
        return *(const unsigned *)at ? NULL : "off";
    case DLR_OPT_SAVE:
        return *(const unsigned *)at ? NULL : "always";
    case DLR_OPT_TRANSPORT:
    case DLR_OPT_ROUNDS:
    case DLR_OPT_REORDER:
    case DLR_OPT_BIND:
    case DLR_OPT_WATCH:
    case DLR_OPT_HANG:
        return types[type].words[*(const unsigned *)at];
    case DLR_OPT_PATH:
    case DLR_OPT_WORD:
    case DLR_OPT_NAME:
    case DLR_OPT_SHARE:
        return at;
    default:
        return NULL;
    }
}

int dlr_opt_value_show(enum dlr_opt_type type, const void *at, char *buf, size_t size)
{
    const char *word = show_word(type, at);
    const struct dlr_heartbeat_conf *beat = at;
    const struct dlr_nodes_conf *nodes = at;
    char time[32];

    if (word)
        return dlr_format(buf, size, "%s", word);
    switch (type) {
    case DLR_OPT_COUNT:
    case DLR_OPT_UINT:
        return dlr_format(buf, size, "%u", *(const unsigned *)at);
    case DLR_OPT_SPAN:
    case DLR_OPT_DURATION:
        return show_ms(*(const int64_t *)at, buf, size);
    case DLR_OPT_RATE:
    case DLR_OPT_SIZE:
        return show_size(*(const uint64_t *)at, buf, size);
    case DLR_OPT_BEAT:
        show_ms(beat->every_ms, time, sizeof(time));
        return dlr_format(buf, size, "%s:%u", time, beat->missed);
    case DLR_OPT_PPM:
    case DLR_OPT_SAVE:
        return dlr_format(buf, size, "%.7g%%", *(const unsigned *)at / 1e4);
    case DLR_OPT_EVERY:
        return show_every(at, buf, size);
    case DLR_OPT_COPIES:
        return show_copies(at, buf, size);
    case DLR_OPT_NODES:
        return nodes->max ? dlr_format(buf, size, "%u:%u", nodes->min, nodes->max)
                          : dlr_format(buf, size, "%u", nodes->min);
    case DLR_OPT_RATIO:
        return show_ratio(at, buf, size);
    case DLR_OPT_FAILURES:
        return dlr_failure_rules_show(at, buf, size);
    default:
        break; /* words */
    }
    return -EINVAL;
}
