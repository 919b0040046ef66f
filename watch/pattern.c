/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled to a small program of which all ways are followed at once (Thompson's
 * construction), so that nothing is tried twice.
 */
#include "watch/pattern.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

enum op { BYTE, SPLIT, JUMP, BEGIN, END, FOUND };

struct bytes {
    uint8_t bits[32];
};

/* Jumps are relative, so that code can move. */
struct state {
    enum op op;
    int16_t x, y;
    struct bytes set; /* of BYTE */
};

struct dlr_pattern {
    unsigned n;
    bool anywhere; /* may be found without reading a byte */
    struct bytes first;
    struct state code[];
};

struct parser {
    const char *at;
    const char *why; /* NULL while all is well */
    unsigned n, depth;
    struct state nowhere; /* written where there is no room */
    struct state code[DLR_PATTERN_STATES];
};

static void put(struct bytes *set, unsigned char c)
{
    set->bits[c / 8] |= 1u << c % 8;
}

static bool has(const struct bytes *set, unsigned char c)
{
    return set->bits[c / 8] & 1u << c % 8;
}

static void put_range(struct bytes *set, unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        put(set, (unsigned char)c);
}

/* --- parse ------------------------------------------------------------------------ */

static void refuse(struct parser *p, const char *why)
{
    if (!p->why)
        p->why = why;
}

/* Makes room for a state before all since from. */
static struct state *insert(struct parser *p, unsigned from, enum op op)
{
    if (p->n == DLR_PATTERN_STATES - 1) { /* the last is FOUND's */
        refuse(p, "is too long");
        return &p->nowhere;
    }
    memmove(&p->code[from + 1], &p->code[from], (p->n - from) * sizeof(*p->code));
    p->n++;
    p->code[from] = (struct state){.op = op};
    return &p->code[from];
}

static struct state *append(struct parser *p, enum op op)
{
    return insert(p, p->n, op);
}

/* What \c means; false: c itself. */
static bool put_named(struct bytes *set, char c)
{
    if (c == 'd' || c == 'w')
        put_range(set, '0', '9');
    if (c == 'w') {
        put_range(set, 'a', 'z');
        put_range(set, 'A', 'Z');
        put(set, '_');
    }
    if (c == 's') {
        put(set, ' ');
        put_range(set, '\t', '\r');
    }
    return c == 'd' || c == 'w' || c == 's';
}

static void parse_escaped(struct parser *p, struct bytes *set)
{
    char c = *p->at;

    if (!c) {
        refuse(p, "ends with '\\'");
        return;
    }
    p->at++;
    if (!put_named(set, c))
        put(set, (unsigned char)c);
}

static void parse_member(struct parser *p, struct bytes *set)
{
    unsigned char from = (unsigned char)*p->at++, to = from;

    if (from == '\\') {
        parse_escaped(p, set);
        return;
    }
    if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
        to = (unsigned char)p->at[1];
        p->at += 2;
    }
    if (to < from)
        refuse(p, "has a range that ends before it begins");
    else
        put_range(set, from, to);
}

static void parse_set(struct parser *p, struct bytes *set)
{
    bool others = *p->at == '^';

    p->at += others;
    do {
        if (!*p->at) {
            refuse(p, "has a '[' without its ']'");
            return;
        }
        parse_member(p, set);
        if (p->why)
            return;
    } while (*p->at != ']');
    p->at++;
    for (size_t i = 0; others && i < sizeof(set->bits); i++)
        set->bits[i] = ~set->bits[i];
}

static void parse_ways(struct parser *p);

static void parse_group(struct parser *p)
{
    if (++p->depth > DLR_PATTERN_DEPTH) {
        refuse(p, "has too many '(' in each other");
        return;
    }
    parse_ways(p);
    p->depth--;
    if (!p->why && *p->at != ')')
        refuse(p, "has a '(' without its ')'");
    else if (!p->why)
        p->at++;
}

static void parse_byte(struct parser *p, char c)
{
    struct bytes set = {{0}};

    if (c == '.')
        put_range(&set, 0, 255);
    else if (c == '[')
        parse_set(p, &set);
    else if (c == '\\')
        parse_escaped(p, &set);
    else
        put(&set, (unsigned char)c);
    append(p, BYTE)->set = set;
}

static void parse_one(struct parser *p)
{
    char c = *p->at++;

    if (c == '(')
        parse_group(p);
    else if (c == '^')
        append(p, BEGIN);
    else if (c == '$')
        append(p, END);
    else if (strchr("*+?", c))
        refuse(p, "has a '*', '+' or '?' behind nothing");
    else if (c == '{' || c == '}')
        refuse(p, "has a '{' or '}': write '\\{', and a repetition in full");
    else
        parse_byte(p, c);
}

/* Repeats what is there since from. */
static void repeat(struct parser *p, unsigned from, char how)
{
    int16_t len = (int16_t)(p->n - from);
    struct state *s;

    if (how == '+') {
        s = append(p, SPLIT);
        s->x = (int16_t)-len;
        s->y = 1;
        return;
    }
    s = insert(p, from, SPLIT);
    s->x = 1;
    s->y = (int16_t)(len + (how == '*' ? 2 : 1));
    if (how == '*')
        append(p, JUMP)->x = (int16_t)(-len - 1);
}

static void parse_row(struct parser *p)
{
    while (!p->why && *p->at && *p->at != '|' && *p->at != ')') {
        unsigned from = p->n;

        parse_one(p);
        if (!p->why && *p->at && strchr("*+?", *p->at))
            repeat(p, from, *p->at++);
        if (!p->why && *p->at && strchr("*+?", *p->at))
            refuse(p, "repeats a repetition");
    }
}

/* a|b|c: each way but the last ends with a jump behind all. */
static void parse_ways(struct parser *p)
{
    unsigned jumps[DLR_PATTERN_STATES], n = 0, from = p->n;

    parse_row(p);
    while (!p->why && *p->at == '|') {
        struct state *split = insert(p, from, SPLIT);

        p->at++;
        split->x = 1;
        split->y = (int16_t)(p->n - from + 1);
        append(p, JUMP);
        if (p->why)
            return;
        jumps[n++] = p->n - 1;
        from = p->n;
        parse_row(p);
    }
    while (n--)
        p->code[jumps[n]].x = (int16_t)(p->n - jumps[n]);
}

/* --- search ----------------------------------------------------------------------- */

struct search {
    const struct state *code;
    unsigned seen[DLR_PATTERN_STATES], round; /* seen in which round */
    uint16_t now[DLR_PATTERN_STATES], next[DLR_PATTERN_STATES];
    unsigned nnow, nnext;
    bool found;
};

/* To all states that are reached from one without a byte; each once in a round, so the
 * stack has room.
 */
static void reach(struct search *s, unsigned state, bool at_begin, bool at_end)
{
    uint16_t stack[2 * DLR_PATTERN_STATES + 1];
    unsigned n = 0;

    stack[n++] = (uint16_t)state;
    while (n) {
        unsigned i = stack[--n];
        const struct state *at = &s->code[i];

        if (s->seen[i] == s->round)
            continue;
        s->seen[i] = s->round;
        if (at->op == SPLIT)
            stack[n++] = (uint16_t)(i + at->y);
        if (at->op == SPLIT || at->op == JUMP)
            stack[n++] = (uint16_t)(i + at->x);
        else if ((at->op == BEGIN && at_begin) || (at->op == END && at_end))
            stack[n++] = (uint16_t)(i + 1);
        else if (at->op == BYTE)
            s->next[s->nnext++] = (uint16_t)i;
        s->found |= at->op == FOUND;
    }
}

static void turn(struct search *s)
{
    memcpy(s->now, s->next, s->nnext * sizeof(*s->next));
    s->nnow = s->nnext;
    s->nnext = 0;
    s->round++;
}

bool dlr_pattern_find(const struct dlr_pattern *p, const char *line, size_t len)
{
    struct search s;

    s.code = p->code;
    memset(s.seen, 0, p->n * sizeof(*s.seen));
    s.round = 1;
    s.nnow = s.nnext = 0;
    s.found = false;
    for (size_t i = 0;; i++) {
        if (p->anywhere || (i < len && has(&p->first, (unsigned char)line[i])))
            reach(&s, 0, i == 0, i == len);
        if (s.found || i == len)
            return s.found;
        turn(&s);
        for (unsigned k = 0; k < s.nnow; k++)
            if (has(&p->code[s.now[k]].set, (unsigned char)line[i]))
                reach(&s, s.now[k] + 1u, false, i + 1 == len);
    }
}

/* --- the pattern ------------------------------------------------------------------ */

/* By which bytes it can begin. */
static void find_first(struct dlr_pattern *p)
{
    struct search s = {.code = p->code, .round = 1};

    reach(&s, 0, true, true);
    p->anywhere = s.found;
    for (unsigned k = 0; k < s.nnext; k++)
        for (size_t i = 0; i < sizeof(p->first.bits); i++)
            p->first.bits[i] |= p->code[s.next[k]].set.bits[i];
}

int dlr_pattern_parse(const char *text, struct dlr_pattern **ret, struct dlr_err *err)
{
    struct parser *p = calloc(1, sizeof(*p));
    struct dlr_pattern *made = NULL;
    int rc = -ENOMEM;

    if (!p)
        return dlr_fail(err, rc, "out of memory");
    p->at = text;
    parse_ways(p);
    if (!p->why && *p->at)
        refuse(p, "has a ')' without its '('");
    if (p->why)
        rc = dlr_fail(err, -EINVAL, "pattern '%.200s' %s", text, p->why);
    else if ((made = calloc(1, sizeof(*made) + (p->n + 1) * sizeof(*p->code)))) {
        p->code[p->n++].op = FOUND;
        made->n = p->n;
        memcpy(made->code, p->code, p->n * sizeof(*p->code));
        find_first(made);
        *ret = made;
        rc = 0;
    }
    free(p);
    return rc;
}

struct dlr_pattern *dlr_pattern_free(struct dlr_pattern *p)
{
    free(p);
    return NULL;
}
