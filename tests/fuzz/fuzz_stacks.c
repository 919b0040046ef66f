/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/unwind,mpi_launcher/cli/stacks */
/* What nodes say of stacks, and environments of processes. The first byte says which.
 * Reaches dlr_rank_set_parse(), dlr_stack_reader_take(), dlr_stacks_answer_read(),
 * dlr_unwind_task_read().
 */
#include <stdio.h>

#include "mpi_launcher/cli/stacks/ask_nodes.h"
#include "mpi_launcher/unwind/tasks.h"
#include "tests/fuzz/fuzz.h"

#define NODES 3

static void check_tree(const struct dlr_stack_tree *tree)
{
    FILE *out = fopen("/dev/null", "w");

    FUZZ_CHECK(out);
    for (size_t i = 0; i < dlr_stack_tree_count(tree); i++) {
        const struct dlr_stack_node *node = dlr_stack_tree_node(tree, i);

        FUZZ_CHECK(node->parent < (int)i);
        for (const char *c = node->frame; *c; c++)
            FUZZ_CHECK(*c >= ' ' && *c <= '~');
        for (size_t r = 1; r < node->ranks.n; r++)
            FUZZ_CHECK(node->ranks.ranges[r - 1].last + 1 <
                       node->ranks.ranges[r].first);
    }
    FUZZ_CHECK(dlr_stack_tree_print(tree, out) == 0);
    dlr_stack_rows_write(tree, out);
    fclose(out);
}

static void read_answers(char *text)
{
    struct dlr_stacks_answer answer = {.tree = dlr_stack_tree_new(65536),
                                       .readers =
                                           calloc(NODES, sizeof(*answer.readers)),
                                       .n = NODES};
    char *line;

    FUZZ_CHECK(answer.tree && answer.readers);
    for (size_t i = 0; i < NODES; i++)
        dlr_stack_reader_init(&answer.readers[i], answer.tree);
    while ((line = fuzz_line(&text)))
        FUZZ_CHECK(dlr_stacks_answer_read(&answer, line) == 0);
    check_tree(answer.tree);
    dlr_stacks_answer_done(&answer);
}

static void read_ranks(const char *text)
{
    struct dlr_rank_set set, again;
    char buf[65536];

    if (dlr_rank_set_parse(text, &set, NULL) < 0)
        return;
    if (dlr_rank_set_text(&set, buf, sizeof(buf))) {
        FUZZ_CHECK(dlr_rank_set_parse(buf, &again, NULL) == 0);
        FUZZ_CHECK(dlr_rank_set_equal(&set, &again));
        dlr_rank_set_done(&again);
    }
    dlr_rank_set_done(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t rank = 0;
    char *text;

    if (size == 0)
        return 0;
    if (data[0] == 'e') {
        if (dlr_unwind_task_read((const char *)data + 1, size - 1, "7", NULL, &rank))
            FUZZ_CHECK(rank < DLR_RANK_SET_END);
        return 0;
    }
    text = fuzz_text(data + 1, size - 1);
    if (data[0] == 'r')
        read_ranks(text);
    else
        read_answers(text);
    free(text);
    return 0;
}
