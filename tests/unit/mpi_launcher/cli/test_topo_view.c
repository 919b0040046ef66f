/* SPDX-License-Identifier: Apache-2.0 */
/* How dlrover topo looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/cli/topo_tree.h"

static const struct dlr_cli_seat seats[] = {
    {"training", "0-1", "n3", ""}, {"spare", "", "", ""},
    {"training", "2", "n1", ""},   {"left out", "", "", "gpu: XID 79"},
    {"dead", "", "", "silent"},
};
static struct dlr_topo_node five[] = {
    {"n1", "spine.leaf0.n1"},     {"n2", "spine.leaf0.~nvl1.n2"},
    {"n3", "spine.leaf1.n3"},     {"n4", "n4"},
    {"n<5>", "spine.leaf1.n<5>"},
};

static struct dlr_cli_topo topo_of(const struct dlr_topo_node *nodes,
                                   const struct dlr_cli_seat *of, size_t n)
{
    struct dlr_cli_topo t = {.nodes = nodes,
                             .seats = of,
                             .n = n,
                             .title = "run r of job 7",
                             .source = "Slurm",
                             .note = ""};

    assert_int_equal(dlr_cli_topo_make(&t), 0);
    return t;
}

/* What one of the printers prints; the caller frees it. */
static char *printed(struct dlr_cli_topo *t,
                     void (*print)(const struct dlr_cli_topo *t, FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    print(t, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void a_jobs_tree_has_a_line_for_each_node(void **state)
{
    struct dlr_cli_topo t = topo_of(five, seats, 5);
    char *text = printed(&t, dlr_cli_topo_text);

    assert_string_equal(text, "run r of job 7\n"
                              "5 nodes on 2 leaf switches, by Slurm\n"
                              "\n"
                              "n4          left out: gpu: XID 79\n"
                              "spine\n"
                              "  leaf0\n"
                              "    n1          training ranks 0-1, copies on n3\n"
                              "    ~nvl1\n"
                              "      n2          spare\n"
                              "  leaf1\n"
                              "    n3          training rank 2, copies on n1\n"
                              "    n<5>        dead: silent\n");
    free(text);
    dlr_cli_topo_done(&t);
}

static void a_clusters_tree_has_a_line_for_each_leaf(void **state)
{
    struct dlr_cli_topo t = topo_of(five, NULL, 3);
    char *text = printed(&t, dlr_cli_topo_text);

    assert_non_null(strstr(text, "\n  leaf0\n    n1\n    ~nvl1\n      n2\n  leaf1\n"));
    free(text);
    t.source = "";
    t.note = "odd";
    text = printed(&t, dlr_cli_topo_text);
    assert_non_null(
        strstr(text, "job 7\n3 nodes; no switches are known\nnote: odd\n\nspine\n"));
    free(text);
    dlr_cli_topo_done(&t);
}

static void a_graph_has_every_box_and_partner(void **state)
{
    struct dlr_cli_topo t = topo_of(five, seats, 5);
    char *text = printed(&t, dlr_cli_topo_dot);
    unsigned edges = 0, partners = 0;

    for (const char *at = text; (at = strstr(at, " -- ")); at++)
        edges++;
    for (const char *at = text; (at = strstr(at, "style=dotted")); at++)
        partners++;
    assert_int_equal(partners, 2);
    assert_int_equal(edges, 2 + 3 + 4); /* partners, switches, nodes below one */
    assert_non_null(strstr(text, "[label=\"n2\\nspare\", style=dashed]"));
    free(text);
    dlr_cli_topo_done(&t);
}

static void every_node_is_in_the_object_in_rank_order(void **state)
{
    struct dlr_cli_topo t = topo_of(five, seats, 5);
    json_t *j = dlr_cli_topo_json(&t), *nodes = json_object_get(j, "nodes"), *want;

    assert_int_equal(json_array_size(nodes), 5);
    want = json_pack("{s:s,s:s,s:s,s:s,s:s}", "node", "n1", "path", "spine.leaf0.n1",
                     "role", "training", "ranks", "0-1", "partner", "n3");
    assert_true(json_equal(json_array_get(nodes, 1), want));
    assert_int_equal(json_integer_value(json_object_get(j, "leaves")), 2);
    json_decref(want);
    json_decref(j);
    dlr_cli_topo_done(&t);
}

/* --- the picture ------------------------------------------------------------------ */

/* Children lie within their parent, below its title, and on no sibling. */
static void check_boxes(const struct dlr_cli_topo *t)
{
    for (size_t i = 0; i < t->nboxes; i++)
        for (int a = t->box[i].first; a >= 0; a = t->box[a].next) {
            const struct dlr_cli_box *x = &t->box[a];

            assert_true(x->w > 0 && x->h > 0 && x->x >= 0 && x->y >= 0);
            assert_true(x->x + x->w + 8 <= t->box[i].w);
            assert_true(x->y + x->h + 28 <= t->box[i].h);
            for (int b = x->next; b >= 0; b = t->box[b].next) {
                const struct dlr_cli_box *y = &t->box[b];

                assert_true(x->x + x->w <= y->x || y->x + y->w <= x->x ||
                            x->y + x->h <= y->y || y->y + y->h <= x->y);
            }
        }
}

/* The text of a cell is within it: letters are 7.3 wide. */
static void check_texts(const struct dlr_cli_topo *t)
{
    for (size_t i = 0; i < t->nboxes; i++) {
        const struct dlr_cli_box *box = &t->box[i];

        if (box->node < 0)
            assert_true((double)box->nlabel * 7.3 < box->w);
        else if (box->nlabel <= 28)
            assert_true((double)box->nlabel * 7.3 < box->w);
    }
}

static void pictures_of_any_size_have_no_overlap(void **state)
{
    static const struct {
        const char *name;
        size_t n, per_leaf, leaves_per_pod;
        unsigned digits;
        const char *before, *after;
    } rows[] = {
        {"one node", 1, 1, 1, 0, "n", ""},
        {"four", 4, 2, 4, 0, "n", ""},
        {"64", 64, 8, 4, 3, "n", ""},
        {"512", 512, 18, 8, 4, "gpu-a100-", ""},
        {"long names", 40, 7, 3, 0, "a-name-that-is-longer-than-what-fits-",
         ".example.org"},
        {"all on one leaf", 300, 300, 1, 0, "n", ""},
        {"each on its own", 100, 1, 1000, 0, "n", ""},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        struct dlr_cli_links *links = calloc(rows[r].n, sizeof(*links));
        struct dlr_topo_node *nodes = calloc(rows[r].n, sizeof(*nodes));
        struct dlr_cli_seat *of = calloc(rows[r].n, sizeof(*of));
        struct dlr_cli_topo t;
        FILE *out = fopen("/dev/null", "w");

        print_message("  %s\n", rows[r].name);
        for (size_t i = 0; i < rows[r].n; i++) {
            size_t leaf = i / rows[r].per_leaf;

            snprintf(nodes[i].name, sizeof(nodes[i].name), "%s%0*zu%s", rows[r].before,
                     (int)rows[r].digits, i, rows[r].after);
            dlr_format(nodes[i].path, sizeof(nodes[i].path), "pod%zu.leaf%zu.%s",
                       leaf / rows[r].leaves_per_pod, leaf, nodes[i].name);
            of[i] = (struct dlr_cli_seat){"training", "100-107", nodes[i].name, ""};
            links[i] = (struct dlr_cli_links){2, 12000, 24000, ""};
            memcpy(links[i].peer, nodes[i].name, sizeof(links[i].peer));
        }
        for (int with = 0; with < 3; with++) {
            t = topo_of(nodes, with ? of : NULL, rows[r].n);
            t.links = with == 2 ? links : NULL;
            dlr_cli_topo_svg(&t, out);
            check_boxes(&t);
            check_texts(&t);
            assert_true(t.box[0].w < 6 * t.box[0].h + 400);
            dlr_cli_topo_done(&t);
        }
        fclose(out);
        free(links);
        free(nodes);
        free(of);
    }
}

/* A node's slowest link, marked when it has less than half of what is usual. */
static void measured_links_are_in_the_picture(void **state)
{
    static const struct dlr_cli_links links[5] = {
        {2, 1200, 2400, "n3"}, {0}, {1, 1100, 1100, "n<5>"}, {1, 500, 500, "n1"}, {0}};
    struct dlr_cli_topo t = topo_of(five, seats, 5);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    t.links = links;
    dlr_cli_topo_svg(&t, out);
    assert_int_equal(fclose(out), 0);
    check_boxes(&t);
    assert_non_null(strstr(text, ">1200 MB/s to n3</text>"));
    assert_non_null(strstr(text, ">1100 MB/s to n&#60;5&#62;</text>"));
    assert_null(strstr(text, ">0 MB/s"));
    assert_non_null(strstr(text, "MB/s: its slowest link"));
    assert_non_null(strstr(strstr(text, "<text class='x'"), ">500 MB/s to n1</text>"));
    free(text);
    dlr_cli_topo_done(&t);
}

static void names_cannot_end_the_picture(void **state)
{
    struct dlr_cli_topo t = topo_of(five, seats, 5);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    dlr_cli_topo_svg(&t, out);
    assert_int_equal(fclose(out), 0);
    assert_null(strstr(text, "n<5>"));
    assert_non_null(strstr(text, "n&#60;5&#62;"));
    assert_non_null(strstr(text, "-> n3") ?: strstr(text, "-&#62; n3"));
    free(text);
    dlr_cli_topo_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jobs_tree_has_a_line_for_each_node),
        cmocka_unit_test(a_clusters_tree_has_a_line_for_each_leaf),
        cmocka_unit_test(a_graph_has_every_box_and_partner),
        cmocka_unit_test(every_node_is_in_the_object_in_rank_order),
        cmocka_unit_test(pictures_of_any_size_have_no_overlap),
        cmocka_unit_test(measured_links_are_in_the_picture),
        cmocka_unit_test(names_cannot_end_the_picture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
