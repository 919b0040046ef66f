/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/stacks/stack_rows.h"
#include "mpi_launcher/supervisor/watch/stack_place.h"
#include "mpi_launcher/supervisor/watch/words.h"
#include "watch/judge/judge.h"

#define ANSWERS_MS 2000 /* for all nodes */
#define CULPRITS 16     /* ranks */
#define WAITERS 16
#define OF_A_NODE 4 /* culprits of one node; of those that wait half as many */
#define RANKS_TEXT 400

struct node {
    char name[sizeof(((struct dlr_plan_place *)NULL)->node.name)];
    struct dlr_stack_reader reader;
    bool answered;
};

struct dlr_sup_stacks {
    const struct dlr_sup_stacks_ops *ops;
    void *arg;
    bool busy;
    uint64_t id; /* of the last question */
    int64_t until_ms;
    struct dlr_stack_tree *tree;
    struct node *nodes;
    unsigned n, answered;
    /* the hang, copied */
    struct dlr_sup_hang hang;
    char words[DLR_VERDICT_WORDS], place[DLR_VERDICT_WORDS], ranks[RANKS_TEXT];
};

struct dlr_sup_stacks *dlr_sup_stacks_new(const struct dlr_sup_stacks_ops *ops,
                                          void *arg)
{
    struct dlr_sup_stacks *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->ops = ops;
    s->arg = arg;
    return s;
}

static void forget(struct dlr_sup_stacks *s)
{
    for (unsigned i = 0; i < s->n; i++)
        dlr_stack_reader_done(&s->nodes[i].reader);
    free(s->nodes);
    s->nodes = NULL;
    s->n = s->answered = 0;
    s->tree = dlr_stack_tree_free(s->tree);
    s->busy = false;
}

struct dlr_sup_stacks *dlr_sup_stacks_free(struct dlr_sup_stacks *s)
{
    if (s)
        forget(s);
    free(s);
    return NULL;
}

bool dlr_sup_stacks_busy(const struct dlr_sup_stacks *s)
{
    return s->busy;
}

/* --- the question ----------------------------------------------------------------- */

/* Adds ranks of this part, at most most of them and of_a_node of each node. */
static void choose(const struct dlr_sup_hang *hang, const struct dlr_plan *plan,
                   enum dlr_part part, unsigned most, unsigned of_a_node,
                   struct dlr_rank_set *set)
{
    DLR_AUTO_FREE unsigned *had = calloc(plan->nplaces, sizeof(*had));

    for (uint32_t r = 0; had && r < plan->world && most > 0; r++) {
        if (hang->parts[r] != part || had[plan->place_of[r]] >= of_a_node ||
            dlr_rank_set_add(set, r, r) < 0)
            continue;
        had[plan->place_of[r]]++;
        most--;
    }
}

static void ask_node(struct dlr_sup_stacks *s, const struct dlr_plan *plan,
                     unsigned place, const struct dlr_rank_set *all)
{
    struct dlr_rank_set own = {0};
    struct node *node = &s->nodes[s->n];
    char text[RANKS_TEXT];

    for (size_t i = 0; i < all->n; i++)
        for (uint32_t r = all->ranges[i].first; r <= all->ranges[i].last; r++)
            if (plan->place_of[r] == place)
                dlr_rank_set_add(&own, r, r);
    if (own.n > 0 && dlr_rank_set_text(&own, text, sizeof(text))) {
        snprintf(node->name, sizeof(node->name), "%s", plan->places[place].node.name);
        dlr_stack_reader_init(&node->reader, s->tree);
        s->n++;
        s->ops->ask(s->arg, node->name, s->hang.round, s->id, text);
    }
    dlr_rank_set_done(&own);
}

/* --- the answers ------------------------------------------------------------------ */

static void print(const struct dlr_sup_stacks *s, FILE *out)
{
    fprintf(out, "round %u: %s\n", s->hang.round, s->words);
    for (unsigned i = 0; i < s->n; i++) {
        const struct node *node = &s->nodes[i];
        const json_t *note;
        size_t k;

        if (!node->answered)
            fprintf(out, "%s has not answered\n", node->name);
        else if (!node->reader.ended)
            fprintf(out, "%s has not said all\n", node->name);
        json_array_foreach(node->reader.notes, k, note)
            fprintf(out, "%s: %s\n", node->name, json_string_value(note));
    }
    dlr_stack_tree_print(s->tree, out);
}

static void finish(struct dlr_sup_stacks *s)
{
    struct dlr_sup_stacks_found found = {.hang = s->hang,
                                         .ranks = s->ranks,
                                         .nodes = s->n,
                                         .silent = s->n - s->answered};
    const size_t at = strlen(s->words);
    char *text = NULL;
    size_t size;
    FILE *out;

    if (s->tree && dlr_stack_tree_count(s->tree) > 0) {
        dlr_stack_place(s->tree, s->hang.first, s->hang.one, s->words + at,
                        sizeof(s->words) - at);
        out = open_memstream(&text, &size);
        if (out) {
            print(s, out);
            fclose(out);
        }
    }
    found.text = text;
    s->busy = false; /* what is told may begin the next */
    s->ops->done(s->arg, &found);
    free(text);
    if (!s->busy)
        forget(s);
}

void dlr_sup_stacks_begin(struct dlr_sup_stacks *s, const struct dlr_sup_hang *hang,
                          const struct dlr_plan *plan, int64_t now_ms)
{
    struct dlr_rank_set set = {0};

    forget(s);
    s->hang = *hang;
    s->hang.parts = NULL;
    snprintf(s->words, sizeof(s->words), "%s", hang->words);
    snprintf(s->place, sizeof(s->place), "%s", hang->place);
    s->hang.words = s->words;
    s->hang.place = s->place;
    s->busy = true;
    s->id++;
    s->until_ms = now_ms + ANSWERS_MS;
    choose(hang, plan, DLR_PART_CULPRIT, CULPRITS, OF_A_NODE, &set);
    choose(hang, plan, DLR_PART_WAITS, WAITERS, OF_A_NODE / 2, &set);
    dlr_rank_set_text(&set, s->ranks, sizeof(s->ranks));
    s->tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    s->nodes = calloc(CULPRITS + WAITERS, sizeof(*s->nodes));
    for (unsigned i = 0; s->tree && s->nodes && i < plan->nplaces; i++)
        ask_node(s, plan, i, &set);
    dlr_rank_set_done(&set);
    if (!s->n)
        finish(s);
}

static void take_lines(struct dlr_stack_reader *reader, const char *text)
{
    while (*text) {
        const size_t size = strcspn(text, "\n");

        if (dlr_stack_reader_take(reader, text, size) < 0)
            return;
        text += size + (text[size] == '\n');
    }
}

void dlr_sup_stacks_take(struct dlr_sup_stacks *s, const char *node, const json_t *msg)
{
    uint64_t round, id;
    const char *text;

    if (!s->busy || dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != s->hang.round || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        id != s->id || dlr_msg_str(msg, "text", &text) < 0)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        if (strcmp(s->nodes[i].name, node) != 0 || s->nodes[i].answered)
            continue;
        s->nodes[i].answered = true;
        s->answered++;
        take_lines(&s->nodes[i].reader, text);
    }
}

void dlr_sup_stacks_tick(struct dlr_sup_stacks *s, bool runs, uint32_t round,
                         int64_t now_ms)
{
    if (!s->busy)
        return;
    if (!runs || round != s->hang.round)
        forget(s);
    else if (s->answered == s->n || now_ms >= s->until_ms)
        finish(s);
}
