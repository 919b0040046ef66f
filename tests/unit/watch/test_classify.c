/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/classify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define MINE "rule mine\n class program\n action stop\n advice ask me\n"

static int set_up(void **state)
{
    struct dlr_class_rules *r = dlr_class_rules_new();
    struct dlr_err err = {0};

    if (dlr_class_rules_add_own(r, &err) < 0)
        print_message("etc/failures.conf: %s\n", err.text);
    *state = r;
    return err.code;
}

static int tear_down(void **state)
{
    *state = dlr_class_rules_free(*state);
    return 0;
}

/* --- recorded endings ------------------------------------------------------------- */

/* "code 7, xid 79": what is known of it beside its lines. */
static void read_how(char *how, struct dlr_ending *ret)
{
    char *rest = how, *word;

    *ret = (struct dlr_ending){.code = -1};
    while ((word = strsep(&rest, ","))) {
        word += strspn(word, " ");
        if (dlr_after(word, "code "))
            ret->code = atoi(word + 5);
        else if (dlr_after(word, "signal "))
            ret->signal = atoi(word + 7);
        else if (dlr_after(word, "xid "))
            ret->xid = (unsigned)atoi(word + 4);
        else if (dlr_after(word, "state "))
            ret->state = word + 6;
        else if (dlr_after(word, "oom"))
            ret->oom = true;
        else
            fail_msg("'%s' says nothing of an ending", word);
    }
}

static void chop(char *word)
{
    size_t len = strlen(word);

    while (len && word[len - 1] == ' ')
        word[--len] = '\0';
}

/* NAME | RULE | HOW | SOURCE, and the lines below it. False: another rule was found. */
static bool is_known(const struct dlr_class_rules *rules, char *head, const char *text,
                     size_t len)
{
    char *words[4] = {0};
    struct dlr_class_said said;
    struct dlr_ending e;

    for (int i = 0; i < 4; i++) {
        words[i] = strsep(&head, "|");
        assert_non_null(words[i]);
        words[i] += strspn(words[i], " ");
        chop(words[i]);
    }
    assert_true(words[3][0]); /* where it is from */
    read_how(words[2], &e);
    e.text = text;
    e.len = len;
    dlr_classify(rules, &e, &said);
    if (dlr_streq(said.rule[0] ? said.rule : "none", words[1]))
        return true;
    print_message("%s: not '%s' but '%s' (%.*s)\n", words[0], words[1], said.rule,
                  (int)said.len, said.line ? said.line : "");
    return false;
}

static unsigned try_file(const struct dlr_class_rules *rules, const char *path,
                         unsigned *wrong)
{
    DLR_AUTO_FREE char *text = NULL;
    unsigned n = 0;
    char *at;

    assert_int_equal(dlr_file_load(AT_FDCWD, path, 1 << 20, &text, NULL, NULL), 0);
    for (at = strstr(text, "\n=== "); at; n++) {
        char *head = at + 5, *lines = strchr(head, '\n'),
             *next = strstr(lines, "\n=== ");

        *lines++ = '\0';
        *wrong += !is_known(rules, head, lines,
                            !next          ? strlen(lines)
                            : next < lines ? 0
                                           : (size_t)(next - lines));
        at = next;
    }
    return n;
}

static void recorded_endings_are_known_by_their_rule(void **state)
{
    unsigned wrong = 0, run, forms;

    run = try_file(*state, "tests/fixtures/endings/run.txt", &wrong);
    forms = try_file(*state, "tests/fixtures/endings/forms.txt", &wrong);
    print_message("%u endings of programs that ran, %u by their form\n", run, forms);
    assert_true(run >= 60 && run + forms >= 120);
    assert_int_equal(wrong, 0);
}

static void each_class_has_a_rule_and_each_rule_its_words(void **state)
{
    DLR_AUTO_FREE char *text = NULL;
    char name[64];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    dlr_class_rules_list(*state, out);
    fclose(out);
    for (unsigned c = 0; c < DLR_CLASSES; c++) {
        dlr_format(name, sizeof(name), "| %s, ", dlr_class_name((enum dlr_class)c));
        assert_non_null(strstr(text, name));
    }
    assert_null(dlr_class_name(DLR_CLASSES));
    assert_null(dlr_class_action_name(DLR_CLASS_ACTIONS));
    assert_true(dlr_class_rules_count(*state) > 60);
}

/* --- what is looked at ------------------------------------------------------------ */

static struct dlr_class_said classify(const struct dlr_class_rules *r, const char *text)
{
    struct dlr_ending e = {.code = 1, .text = text, .len = strlen(text)};
    struct dlr_class_said said;

    dlr_classify(r, &e, &said);
    return said;
}

static void nothing_is_known_of_an_ending_without_words(void **state)
{
    struct dlr_class_said said = classify(*state, "");

    assert_string_equal(said.rule, "");
    assert_int_equal(said.class, DLR_CLASS_UNKNOWN);
    assert_int_equal(said.action, DLR_CLASS_RESTART);
    assert_null(said.line);
    assert_true(said.advice[0]);
}

static void the_line_that_shows_it_is_told(void **state)
{
    struct dlr_class_said said =
        classify(*state, "Traceback\nMemoryError\nmore\nMemoryError: later\n");

    assert_string_equal(said.rule, "out-of-memory");
    assert_int_equal(said.len, strlen("MemoryError"));
    assert_memory_equal(said.line, "MemoryError\n", 12);
}

static void only_the_last_lines_count(void **state)
{
    char text[DLR_CLASSIFY_TEXT + 64];

    memset(text, 'x', sizeof(text));
    memcpy(text, "\nMemoryError\n", 13);
    text[sizeof(text) - 1] = '\0';
    assert_string_equal(classify(*state, text).rule, "");
    memcpy(text + 70, "\nMemoryError\n", 13);
    assert_string_equal(classify(*state, text).rule, "out-of-memory");
}

static void of_many_conditions_one_of_each_kind_must_hold(void **state)
{
    static const char text[] =
        MINE " code 3\n code 4\n pattern a\n pattern b\n example a\n";
    struct dlr_class_rules *r = dlr_class_rules_new();
    struct dlr_class_said said;
    struct dlr_ending e = {.code = 4, .text = "b", .len = 1};

    assert_int_equal(dlr_class_rules_parse(r, text, NULL), 0);
    assert_true(dlr_classify(r, &e, &said));
    e.code = 5;
    assert_false(dlr_classify(r, &e, &said));
    e = (struct dlr_ending){.code = 3, .text = "c", .len = 1};
    assert_false(dlr_classify(r, &e, &said));
    e.text = NULL;
    e.len = 0;
    assert_false(dlr_classify(r, &e, &said));
    dlr_class_rules_free(r);
}

/* --- rules of users --------------------------------------------------------------- */

static void the_users_rules_come_first(void **state)
{
    static const char text[] = "# of our group\r\n"
                               "rule gpu-out-of-memory\r\n"
                               "  class memory\n"
                               "\taction requeue\n"
                               "  advice Ask Eva.  \n"
                               "  pattern CUDA out of memory\n"
                               "  example CUDA out of memory";
    struct dlr_class_rules *r = dlr_class_rules_new();
    struct dlr_class_said said;

    assert_int_equal(dlr_class_rules_parse(r, text, NULL), 0);
    assert_int_equal(dlr_class_rules_add_own(r, NULL), 0);
    said = classify(r, "RuntimeError: CUDA out of memory. Tried");
    assert_int_equal(said.action, DLR_CLASS_REQUEUE);
    assert_string_equal(said.advice, "Ask Eva.");
    dlr_class_rules_free(r);
}

static void bad_rules_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"class memory\n", "line 1: 'class' before any rule"},
        {"\nrule My_Rule\n",
         "line 2: 'My_Rule' is no name: small letters, digits and '-'"},
        {MINE "code 300\n", "line 5: '300' is no exit code: 0 to 255"},
        {MINE "signal FOO\n", "line 5: 'FOO' is no signal: KILL, SEGV or a number"},
        {MINE "xid 0\n", "line 5: '0' is no XID: 1 to 999"},
        {MINE "counter x\n", "line 5: 'x' is no counter: oom_kill"},
        {MINE "class lazy\n", "line 5: 'lazy' is no class"},
        {MINE "action dance\n", "line 5: 'dance' is no action"},
        {MINE "advice twice\n", "line 5: a second advice"},
        {MINE "pattern (\n", "line 5: pattern '(' has a '(' without its ')'"},
        {MINE "colour red\n", "line 5: 'colour' is no word of a rule"},
        {MINE "code\n", "line 5: 'code' without a value"},
        {MINE MINE, "line 5: a second rule 'mine'"},
        {MINE, "line 1: rule 'mine' has no condition"},
        {MINE "pattern x\n", "line 1: rule 'mine' has no example"},
        {"rule a\n action stop\n", "line 1: rule 'a' has no class"},
        {"rule a\n class setup\n", "line 1: rule 'a' has no action"},
        {"rule a\n class setup\n action stop\n", "line 1: rule 'a' has no advice"},
        {MINE "pattern x\nexample y\n",
         "line 1: rule 'mine' does not know its example 'y'"},
        {MINE "code 3\n\nrule other\n class setup\n action stop\n advice x\n"
              " code 3\n pattern a\n example a\n",
         "line 7: rule 'mine' before it takes 'a'"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_class_rules *r = dlr_class_rules_new();
        struct dlr_err err;

        print_message("%s\n", rows[i].says);
        assert_int_equal(dlr_class_rules_parse(r, MINE "code 3\n", NULL), 0);
        assert_true(dlr_class_rules_parse(r, rows[i].text, &err) < 0);
        assert_string_equal(err.text, rows[i].says);
        assert_int_equal(dlr_class_rules_count(r), 1);
        dlr_class_rules_free(r);
    }
}

static void rules_have_limits(void **state)
{
    struct dlr_class_rules *r = dlr_class_rules_new();
    char text[2048] = "rule a\nadvice ";
    struct dlr_err err;

    memset(text + strlen(text), 'x', 1100);
    assert_true(dlr_class_rules_parse(r, text, &err) < 0);
    assert_string_equal(err.text, "line 2: longer than 1023 bytes");
    dlr_format(text, sizeof(text), "rule a\n");
    for (unsigned i = 1; i <= 17; i++)
        dlr_format(text + strlen(text), sizeof(text) - strlen(text), "code %u\n", i);
    assert_true(dlr_class_rules_parse(r, text, &err) < 0);
    assert_string_equal(err.text, "line 18: more than 16 of one kind");
    dlr_class_rules_free(r);
}

/* --- the first cause -------------------------------------------------------------- */

static void the_cause_is_the_earliest_of_the_most_original(void **state)
{
    static const struct {
        enum dlr_class a;
        int64_t a_ms;
        enum dlr_class b;
        int64_t b_ms;
        bool before;
    } rows[] = {
        {DLR_CLASS_PROGRAM, 100, DLR_CLASS_PROGRAM, 200, true},
        {DLR_CLASS_PROGRAM, 200, DLR_CLASS_PROGRAM, 100, false},
        {DLR_CLASS_PROGRAM, 200, DLR_CLASS_PEER, 100, true}, /* it noticed sooner */
        {DLR_CLASS_HARDWARE, 2100, DLR_CLASS_PROGRAM, 100, true},
        {DLR_CLASS_HARDWARE, 2101, DLR_CLASS_PROGRAM, 100, false}, /* too late */
        {DLR_CLASS_KILLED, 100, DLR_CLASS_TIMEOUT, 1900, false},
        {DLR_CLASS_KILLED, 100, DLR_CLASS_TIMEOUT, 2200, true},
        {DLR_CLASS_UNKNOWN, 300, DLR_CLASS_NETWORK, 200, true},
        {DLR_CLASS_UNKNOWN, 100, DLR_CLASS_MEMORY, 200, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row %zu\n", i);
        assert_int_equal(
            dlr_class_before(rows[i].a, rows[i].a_ms, rows[i].b, rows[i].b_ms),
            rows[i].before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_endings_are_known_by_their_rule),
        cmocka_unit_test(each_class_has_a_rule_and_each_rule_its_words),
        cmocka_unit_test(nothing_is_known_of_an_ending_without_words),
        cmocka_unit_test(the_line_that_shows_it_is_told),
        cmocka_unit_test(only_the_last_lines_count),
        cmocka_unit_test(of_many_conditions_one_of_each_kind_must_hold),
        cmocka_unit_test(the_users_rules_come_first),
        cmocka_unit_test(bad_rules_are_refused_with_their_line),
        cmocka_unit_test(rules_have_limits),
        cmocka_unit_test(the_cause_is_the_earliest_of_the_most_original),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
