/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=watch */
/* A user's rules, then lines of a program, with a NUL between: the first line is also a
 * pattern by itself. Reaches dlr_class_rules_parse(), dlr_pattern_parse().
 */
#include "watch/classify.h"
#include "watch/pattern.h"

#include "tests/fuzz/fuzz.h"

static void one_pattern(const char *text, const char *line, size_t len)
{
    char *first = strndup(text, strcspn(text, "\n"));
    struct dlr_pattern *p = NULL;

    if (first && dlr_pattern_parse(first, &p, NULL) == 0)
        dlr_pattern_find(p, line, len);
    dlr_pattern_free(p);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    size_t used = strlen(text);
    struct dlr_class_rules *r = dlr_class_rules_new();
    struct dlr_ending e = {.code = 1, .signal = 9, .oom = true, .xid = 79};
    struct dlr_class_said said;
    struct dlr_err err;

    FUZZ_CHECK(r);
    e.text = used < size ? text + used + 1 : text;
    e.len = used < size ? size - used - 1 : used;
    if (dlr_class_rules_parse(r, text, &err) < 0)
        FUZZ_CHECK(dlr_class_rules_count(r) == 0 && err.text[0]);
    if (dlr_classify(r, &e, &said) && said.line)
        FUZZ_CHECK(said.line >= e.text && said.line + said.len <= e.text + e.len);
    one_pattern(text, e.text, e.len);
    dlr_class_rules_free(r);
    free(text);
    return 0;
}
