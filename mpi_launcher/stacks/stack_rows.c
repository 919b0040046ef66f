/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/stacks/stack_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"

#define ROWS_MAX 65536
#define RANKS_TEXT 400
#define THREADS_MAX (1ull << 40)

/* --- writing ---------------------------------------------------------------------- */

static void write_line(FILE *out, json_t *j)
{
    char *text = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (text && strlen(text) < DLR_STACK_ROW)
        fprintf(out, "%s\n", text);
    free(text);
    json_decref(j);
}

/* Ranks that do not fit in a line become several lines, which add up. */
static void write_row(FILE *out, size_t id, const struct dlr_stack_node *node)
{
    char text[RANKS_TEXT];
    size_t step = (RANKS_TEXT - 32) / 18, i = 0;

    do {
        struct dlr_rank_set part = {.ranges = node->ranks.ranges + i,
                                    .n = node->ranks.n - i < step ? node->ranks.n - i
                                                                  : step};

        dlr_rank_set_text(&part, text, sizeof(text));
        write_line(out,
                   json_pack("[I,i,s,s,I]", (json_int_t)id, node->parent, node->frame,
                             text, (json_int_t)(i ? 0 : node->threads)));
        i += part.n;
    } while (i < node->ranks.n);
}

void dlr_stack_rows_write(const struct dlr_stack_tree *tree, FILE *out)
{
    for (size_t i = 0; i < dlr_stack_tree_count(tree); i++)
        write_row(out, i, dlr_stack_tree_node(tree, i));
    if (dlr_stack_tree_lost(tree))
        dlr_stack_rows_note(out, "some frames did not fit and are left out");
}

void dlr_stack_rows_note(FILE *out, const char *text)
{
    char plain[DLR_STACK_FRAME];

    snprintf(plain, sizeof(plain), "%s", text);
    dlr_plain(plain);
    for (char *c = plain; *c; c++)
        if (*c > '~' || *c < ' ')
            *c = '?';
    write_line(out, json_pack("{s:s}", "note", plain));
}

void dlr_stack_rows_end(FILE *out, const char *node)
{
    write_line(out, json_pack("{s:s}", "end", node));
}

/* --- reading ---------------------------------------------------------------------- */

void dlr_stack_reader_init(struct dlr_stack_reader *r, struct dlr_stack_tree *tree)
{
    *r = (struct dlr_stack_reader){.tree = tree, .notes = json_array()};
}

void dlr_stack_reader_done(struct dlr_stack_reader *r)
{
    free(r->ids);
    json_decref(r->notes);
    *r = (struct dlr_stack_reader){0};
}

static int keep_id(struct dlr_stack_reader *r, int id)
{
    size_t room = r->room ? 2 * r->room : 256;
    int *ids = r->ids;

    if (r->n == r->room) {
        ids = reallocarray(r->ids, room, sizeof(*ids));
        if (!ids)
            return -ENOMEM;
        r->ids = ids;
        r->room = room;
    }
    ids[r->n++] = id;
    return 0;
}

/* -EBADMSG for a row that is none; a row of an id that was there adds ranks to it. */
static int take_row(struct dlr_stack_reader *r, const json_t *row)
{
    const char *frame = json_string_value(json_array_get(row, 2));
    const char *text = json_string_value(json_array_get(row, 3));
    json_int_t id = json_integer_value(json_array_get(row, 0));
    json_int_t parent = json_integer_value(json_array_get(row, 1));
    json_int_t threads = json_integer_value(json_array_get(row, 4));
    struct dlr_rank_set ranks;
    int at = DLR_STACK_ROOT, rc;

    if (json_array_size(row) != 5 || !frame || !text || id < 0 || id >= ROWS_MAX ||
        (size_t)id > r->n || parent < DLR_STACK_ROOT || parent >= id || threads < 0 ||
        threads > THREADS_MAX || dlr_rank_set_parse(text, &ranks, NULL) < 0)
        return -EBADMSG;
    if (parent >= 0)
        at = r->ids[parent];
    rc = parent >= 0 && at < 0
             ? -ENOSPC
             : dlr_stack_tree_put(r->tree, at, frame, &ranks, (uint64_t)threads, &at);
    dlr_rank_set_done(&ranks);
    if (rc == -ENOMEM)
        return rc;
    if ((size_t)id == r->n)
        return keep_id(r, rc < 0 ? -1 : at);
    return 0;
}

static int take_words(struct dlr_stack_reader *r, const json_t *j)
{
    const char *note = json_string_value(json_object_get(j, "note"));
    const char *node = json_string_value(json_object_get(j, "end"));
    char text[DLR_STACK_ROW];

    if (note && strlen(note) < sizeof(text)) {
        if (json_array_size(r->notes) >= DLR_STACK_NOTES)
            return 0;
        strcpy(text, note);
        dlr_plain(text);
        return json_array_append_new(r->notes, json_string(text)) ? -ENOMEM : 0;
    }
    if (!node || !node[0] || dlr_format(r->node, sizeof(r->node), "%s", node) < 0)
        return -EBADMSG;
    dlr_plain(r->node);
    r->ended = true;
    return 0;
}

int dlr_stack_reader_take(struct dlr_stack_reader *r, const char *line, size_t size)
{
    DLR_AUTO_JSON json_t *j = size < DLR_STACK_ROW
                                  ? json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL)
                                  : NULL;
    int rc = -EBADMSG;

    if (json_is_array(j))
        rc = take_row(r, j);
    else if (json_is_object(j))
        rc = take_words(r, j);
    if (rc == -EBADMSG) {
        r->bad++;
        return 0;
    }
    return rc;
}
