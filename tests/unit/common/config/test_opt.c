/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/opt.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/config/job_config.h"

struct conf {
    bool on;
    unsigned n;
    int64_t wait_ms;
    uint64_t room;
    char dir[DLR_OPT_TEXT];
    char word[DLR_OPT_TEXT];
    char name[DLR_OPT_TEXT];
    struct dlr_heartbeat_conf beat;
    struct dlr_every_conf every;
    int64_t keep_ms;
    unsigned part;
    unsigned some;
    unsigned save;
    struct dlr_nodes_conf nodes;
    struct dlr_ratio_conf ratio;
};

#define FIELD(f) offsetof(struct conf, f)

/* clang-format off */
static const struct dlr_opt table[] = {
    {"on", DLR_OPT_SWITCH, FIELD(on), "off", "on|off", "a switch"},
    {"n", DLR_OPT_UINT, FIELD(n), "3", "N", "a number"},
    {"wait", DLR_OPT_DURATION, FIELD(wait_ms), "30s", "TIME", "a time"},
    {"room", DLR_OPT_SIZE, FIELD(room), "64k", "SIZE", "a size"},
    {"dir", DLR_OPT_PATH, FIELD(dir), "", "DIR", "a path"},
    {"word", DLR_OPT_WORD, FIELD(word), "all", "LIST", "a word"},
    {"name", DLR_OPT_NAME, FIELD(name), "", "NAME", "a name"},
    {"beat", DLR_OPT_BEAT, FIELD(beat), "200ms:5", "TIME[:MISSED]", "a beat"},
    {"keep", DLR_OPT_SPAN, FIELD(keep_ms), "off", "TIME|off", "a time or none"},
    {"every", DLR_OPT_EVERY, FIELD(every), "off", "STEPS|TIME", "how often"},
    {"part", DLR_OPT_PPM, FIELD(part), "0.1%", "PERCENT", "a share of time"},
    {"some", DLR_OPT_COUNT, FIELD(some), "auto", "N|auto", "a count"},
    {"save", DLR_OPT_SAVE, FIELD(save), "1%", "PERCENT", "a share or all"},
    {"nodes", DLR_OPT_NODES, FIELD(nodes), "0", "MIN[:MAX]", "nodes"},
    {"ratio", DLR_OPT_RATIO, FIELD(ratio), "10/1h", "N[/TIME]", "so many in a time"},
    DLR_OPT_END,
};
/* clang-format on */

static void start(struct conf *conf)
{
    memset(conf, 0xa5, sizeof(*conf));
    assert_int_equal(dlr_opt_defaults(table, conf, NULL), 0);
}

static void defaults_fill_every_field(void **state)
{
    struct conf conf;

    start(&conf);
    assert_false(conf.on);
    assert_int_equal(conf.n, 3);
    assert_int_equal(conf.wait_ms, 30000);
    assert_int_equal(conf.room, 65536);
    assert_string_equal(conf.dir, "");
    assert_string_equal(conf.word, "all");
    assert_int_equal(conf.beat.every_ms, 200);
    assert_int_equal(conf.beat.missed, 5);
}

/* What a word changes a field to, as dlr_opt_show() tells it. */
static void good_words_are_taken(void **state)
{
    static const struct {
        const char *word, *name, *shown;
    } rows[] = {
        {"on=on", "on", "on"},
        {"on=yes", "on", "on"},
        {"on=true", "on", "on"},
        {"on=1", "on", "on"},
        {"on=no", "on", "off"},
        {"on=false", "on", "off"},
        {"on=0", "on", "off"},
        {"n=0", "n", "0"},
        {"n=4294967295", "n", "4294967295"},
        {"wait=1500ms", "wait", "1500ms"},
        {"wait=2m", "wait", "120s"},
        {"wait=7", "wait", "7s"},
        {"room=4g", "room", "4g"},
        {"room=1000", "room", "1000"},
        {"room=0", "room", "0"},
        {"dir=/a b/c=d", "dir", "/a b/c=d"},
        {"dir=/home/j\xc3\xb6rg", "dir", "/home/j\xc3\xb6rg"},
        {"dir=", "dir", ""},
        {"word=memory,clock", "word", "memory,clock"},
        {"word=", "word", ""},
        {"name=lm-7.B_2", "name", "lm-7.B_2"},
        {"name=", "name", ""},
        {"name=0123456789012345678901234567890x", "name",
         "0123456789012345678901234567890x"},
        {"beat=1s", "beat", "1s:5"},
        {"beat=50ms:20", "beat", "50ms:20"},
        {"every=100", "every", "100"},
        {"every=10m", "every", "600s"},
        {"every=500ms", "every", "500ms"},
        {"every=off", "every", "off"},
        {"every=auto", "every", "auto"},
        {"keep=10m", "keep", "600s"},
        {"keep=off", "keep", "off"},
        {"some=0", "some", "0"},
        {"some=auto", "some", "auto"},
        {"some=4294967294", "some", "4294967294"},
        {"part=off", "part", "off"},
        {"part=100%", "part", "100%"},
        {"part=1.25%", "part", "1.25%"},
        {"part=0.0001%", "part", "0.0001%"},
        {"save=always", "save", "always"},
        {"save=2.5%", "save", "2.5%"},
        {"nodes=0", "nodes", "0"},
        {"nodes=6", "nodes", "6"},
        {"nodes=6:8", "nodes", "6:8"},
        {"nodes=0:8", "nodes", "0:8"},
        {"nodes=8:8", "nodes", "8:8"},
        {"ratio=3", "ratio", "3"},
        {"ratio=0", "ratio", "0"},
        {"ratio=10/1h", "ratio", "10"},
        {"ratio=5/30m", "ratio", "5/1800s"},
        {"ratio=1/1500ms", "ratio", "1/1500ms"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conf conf;
        char text[DLR_OPT_TEXT];
        const struct dlr_opt *opt = dlr_opt_find(table, rows[i].name);

        print_message("row '%s'\n", rows[i].word);
        start(&conf);
        assert_int_equal(dlr_opt_set_word(table, rows[i].word, &conf, NULL), 0);
        assert_int_equal(dlr_opt_show(opt, &conf, text, sizeof(text)), 0);
        assert_string_equal(text, rows[i].shown);
        assert_int_equal(dlr_opt_set(table, rows[i].name, text, &conf, NULL), 0);
    }
}

#define NODES_WANT(value)                                                              \
    "option 'nodes': bad value '" value                                                \
    "': must be MIN[:MAX], whole numbers with MAX not below MIN, such as '6' or '6:8'"
#define RATIO_WANT(value)                                                              \
    "option 'ratio': bad value '" value                                                \
    "': must be N[/TIME], a whole number and a time above 0 and up to 24 days, such "  \
    "as '3', '10/1h' or '5/30m'"

static void bad_words_name_option_value_and_remedy(void **state)
{
    static const struct {
        const char *word;
        int rc;
        const char *text;
    } rows[] = {
        {"on=maybe", -EINVAL, "option 'on': bad value 'maybe': must be 'on' or 'off'"},
        {"on=", -EINVAL, "option 'on': bad value '': must be 'on' or 'off'"},
        {"on", -EINVAL, "option 'on' needs a value: 'on' or 'off'"},
        {"every=0", -EINVAL,
         "option 'every': bad value '0': must be 'off', 'auto', a count of steps such "
         "as '1000', or a time such as '10m'"},
        {"every=-5m", -EINVAL,
         "option 'every': bad value '-5m': must be 'off', 'auto', a count of steps "
         "such "
         "as '1000', or a time such as '10m'"},
        {"keep=0s", -EINVAL,
         "option 'keep': bad value '0s': must be 'off', or a time up to 24 days such "
         "as "
         "'30s' or '10m'"},
        {"some=4294967295", -EINVAL,
         "option 'some': bad value '4294967295': must be 'auto', or a whole number "
         "from "
         "0 to 4294967294"},
        {"part=0%", -EINVAL,
         "option 'part': bad value '0%': must be 'off', or a percentage from '0.0001%' "
         "to "
         "'100%' such as '0.1%'"},
        {"part=101%", -EINVAL,
         "option 'part': bad value '101%': must be 'off', or a percentage from "
         "'0.0001%' "
         "to '100%' such as '0.1%'"},
        {"part=0.1", -EINVAL,
         "option 'part': bad value '0.1': must be 'off', or a percentage from "
         "'0.0001%' to "
         "'100%' such as '0.1%'"},
        {"save=off", -EINVAL,
         "option 'save': bad value 'off': must be 'always', or a percentage from "
         "'0.0001%' to '100%' such as '1%'; the setting checkpoint=off is what saves "
         "nothing"},
        {"nodes=8:6", -EINVAL, NODES_WANT("8:6")},
        {"nodes=6:", -EINVAL, NODES_WANT("6:")},
        {"nodes=:8", -EINVAL, NODES_WANT(":8")},
        {"nodes=6-8", -EINVAL, NODES_WANT("6-8")},
        {"nodes=0:0", -EINVAL, NODES_WANT("0:0")},
        {"ratio=5/", -EINVAL, RATIO_WANT("5/")},
        {"ratio=/1h", -EINVAL, RATIO_WANT("/1h")},
        {"ratio=5/0s", -EINVAL, RATIO_WANT("5/0s")},
        {"ratio=5 per hour", -EINVAL, RATIO_WANT("5 per hour")},
        {"ratio=5/hour", -EINVAL, RATIO_WANT("5/hour")},
        {"ratio=-1", -EINVAL, RATIO_WANT("-1")},
        {"ratio=5/30d", -EINVAL, RATIO_WANT("5/30d")},
        {"n=-1", -EINVAL,
         "option 'n': bad value '-1': must be a whole number from 0 to 4294967295"},
        {"n=4294967296", -EINVAL,
         "option 'n': bad value '4294967296': must be a whole number from 0 to "
         "4294967295"},
        {"wait=0s", -EINVAL,
         "option 'wait': bad value '0s': must be a time above 0 and up to 24 days, "
         "such "
         "as '30s', '2m' or '500ms'"},
        {"room=4x", -EINVAL,
         "option 'room': bad value '4x': must be a size in bytes, such as '4096', "
         "'64k' "
         "or '4g'"},
        {"dir=tmp", -EINVAL,
         "option 'dir': bad value 'tmp': must be an absolute path of printable "
         "characters, at most 1023 bytes"},
        {"dir=/a\nb", -EINVAL,
         "option 'dir': bad value '/a b': must be an absolute path of printable "
         "characters, at most 1023 bytes"},
        {"word=a b", -EINVAL,
         "option 'word': bad value 'a b': must be a word of printable characters "
         "without "
         "blanks or quotes, at most 1023 bytes"},
        {"word=a\"b", -EINVAL,
         "option 'word': bad value 'a\"b': must be a word of printable characters "
         "without "
         "blanks or quotes, at most 1023 bytes"},
        {"name=a/b", -EINVAL,
         "option 'name': bad value 'a/b': must be at most 32 letters, digits, '.', '_' "
         "and '-', the first one neither '.' nor '-'"},
        {"beat=1ms", -EINVAL,
         "option 'beat': bad value '1ms': must be TIME[:MISSED], a time from 10ms to "
         "1m "
         "and a count from 2 to 1000, such as '200ms:5'"},
        {"nn=1", -ENOENT,
         "unknown option 'nn': known are on, n, wait, room, dir, word, name, beat, "
         "keep, every, part, some, save, nodes, ratio"},
        {"=1", -ENOENT,
         "unknown option '': known are on, n, wait, room, dir, word, name, beat, "
         "keep, every, part, some, save, nodes, ratio"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conf conf, before;
        struct dlr_err err = {0};

        print_message("row '%s'\n", rows[i].word);
        start(&conf);
        before = conf;
        assert_int_equal(dlr_opt_set_word(table, rows[i].word, &conf, &err),
                         rows[i].rc);
        assert_string_equal(err.text, rows[i].text);
        assert_memory_equal(&conf, &before, sizeof(conf));
    }
}

static void beats_have_limits(void **state)
{
    static const char *const bad[] = {
        "beat=",
        "beat=:5",
        "beat=200ms:",
        "beat=200ms:1",
        "beat=200ms:1001",
        "beat=9ms:5",
        "beat=61s:5",
        "beat=200ms:5:5",
        "beat=200ms,5",
        "beat=200ms:-5",
        "beat=00000000000000000000000000000000200ms:5",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct conf conf;

        print_message("row '%s'\n", bad[i]);
        start(&conf);
        assert_int_equal(dlr_opt_set_word(table, bad[i], &conf, NULL), -EINVAL);
    }
}

static void names_are_names_of_files(void **state)
{
    static const char *const bad[] = {
        "name=.",    "name=..",       "name=.x",
        "name=-x",   "name=a b",      "name=a+1",
        "name=a\nb", "name=\xc3\xb6", "name=012345678901234567890123456789012",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct conf conf;

        print_message("row '%s'\n", bad[i]);
        start(&conf);
        assert_int_equal(dlr_opt_set_word(table, bad[i], &conf, NULL), -EINVAL);
    }
}

static void a_long_value_is_refused_and_quoted_in_part(void **state)
{
    char word[5 + DLR_OPT_TEXT + 1] = "word=";
    struct conf conf;
    struct dlr_err err;

    start(&conf);
    memset(word + 5, 'x', DLR_OPT_TEXT);
    assert_int_equal(dlr_opt_set_word(table, word, &conf, &err), -EINVAL);
    assert_non_null(strstr(err.text, "xxx'...: must be a word"));
    word[5 + DLR_OPT_TEXT - 1] = '\0';
    assert_int_equal(dlr_opt_set_word(table, word, &conf, &err), 0);
}

static void options_accept_the_same_value_twice(void **state)
{
    struct conf conf;

    start(&conf);
    assert_int_equal(dlr_opt_set_word(table, "n=7", &conf, NULL), 0);
    assert_int_equal(dlr_opt_set_word(table, "n=7", &conf, NULL), 0);
    assert_int_equal(dlr_opt_set_word(table, "n=8", &conf, NULL), 0);
    assert_int_equal(conf.n, 8);
}

static void a_bad_default_is_reported(void **state)
{
    /* clang-format off */
    static const struct dlr_opt broken[] = {
        {"n", DLR_OPT_UINT, FIELD(n), "x", "N", "a number"},
        DLR_OPT_END,
    };
    /* clang-format on */
    struct conf conf;

    assert_int_equal(dlr_opt_defaults(broken, &conf, NULL), -EINVAL);
}

static void help_is_aligned_and_names_defaults(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    dlr_opt_help(table, "x-", out);
    fclose(out);
    assert_string_equal(
        text, "  --x-on=on|off           a switch (default off)\n"
              "  --x-n=N                 a number (default 3)\n"
              "  --x-wait=TIME           a time (default 30s)\n"
              "  --x-room=SIZE           a size (default 64k)\n"
              "  --x-dir=DIR             a path\n"
              "  --x-word=LIST           a word (default all)\n"
              "  --x-name=NAME           a name\n"
              "  --x-beat=TIME[:MISSED]  a beat (default 200ms:5)\n"
              "  --x-keep=TIME|off       a time or none (default off)\n"
              "  --x-every=STEPS|TIME    how often (default off)\n"
              "  --x-part=PERCENT        a share of time (default 0.1%)\n"
              "  --x-some=N|auto         a count (default auto)\n"
              "  --x-save=PERCENT        a share or all (default 1%)\n"
              "  --x-nodes=MIN[:MAX]     nodes (default 0)\n"
              "  --x-ratio=N[/TIME]      so many in a time (default 10/1h)\n");
    free(text);
}

static void a_table_has_key_default_value_and_meaning(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    dlr_opt_table(table + 4, out);
    fclose(out);
    assert_string_equal(text, "KEY    DEFAULT  VALUE          MEANING\n"
                              "dir    -        DIR            a path\n"
                              "word   all      LIST           a word\n"
                              "name   -        NAME           a name\n"
                              "beat   200ms:5  TIME[:MISSED]  a beat\n"
                              "keep   off      TIME|off       a time or none\n"
                              "every  off      STEPS|TIME     how often\n"
                              "part   0.1%     PERCENT        a share of time\n"
                              "some   auto     N|auto         a count\n"
                              "save   1%       PERCENT        a share or all\n"
                              "nodes  0        MIN[:MAX]      nodes\n"
                              "ratio  10/1h    N[/TIME]       so many in a time\n");
    free(text);
}

static void job_settings_survive_being_shown(void **state)
{
    struct dlr_job_config conf, again;

    memset(&conf, 0, sizeof(conf));
    memset(&again, 0, sizeof(again));
    dlr_job_config_init(&conf);
    for (const struct dlr_opt *opt = dlr_job_config_opts; opt->name; opt++) {
        char text[DLR_OPT_TEXT];

        print_message("row '%s'\n", opt->name);
        assert_int_equal(dlr_opt_show(opt, &conf, text, sizeof(text)), 0);
        assert_int_equal(
            dlr_opt_set(dlr_job_config_opts, opt->name, text, &again, NULL), 0);
        assert_true(strlen(opt->name) < 64); /* what a word's name may have */
    }
    assert_memory_equal(&conf, &again, sizeof(conf));
    assert_int_equal(dlr_job_config_dead_ms(&conf), 1000);
}

static void rounds_are_one_of_three_words(void **state)
{
    static const struct dlr_opt when[] = {
        {"when", DLR_OPT_ROUNDS, 0, "off", "off|first|always", "when"}, DLR_OPT_END};
    enum dlr_rounds conf = DLR_ROUNDS_ALWAYS;
    struct dlr_err err;
    char text[16];

    assert_int_equal(dlr_opt_defaults(when, &conf, NULL), 0);
    assert_int_equal(conf, DLR_ROUNDS_OFF);
    assert_int_equal(dlr_opt_set_word(when, "when=always", &conf, NULL), 0);
    assert_int_equal(conf, DLR_ROUNDS_ALWAYS);
    assert_int_equal(dlr_opt_set_word(when, "when=first", &conf, NULL), 0);
    assert_int_equal(dlr_opt_show(when, &conf, text, sizeof(text)), 0);
    assert_string_equal(text, "first");
    assert_int_equal(dlr_opt_set_word(when, "when=on", &conf, &err), -EINVAL);
    assert_string_equal(
        err.text, "option 'when': bad value 'on': must be 'off', 'first' or 'always'");
    assert_int_equal(conf, DLR_ROUNDS_FIRST);
}

static void a_reorder_is_one_of_three_words(void **state)
{
    static const struct dlr_opt how[] = {
        {"how", DLR_OPT_REORDER, 0, "never", "never|always|auto", "how"}, DLR_OPT_END};
    enum dlr_reorder conf = DLR_REORDER_AUTO;
    struct dlr_err err;
    char text[16];

    assert_int_equal(dlr_opt_defaults(how, &conf, NULL), 0);
    assert_int_equal(conf, DLR_REORDER_NEVER);
    assert_int_equal(dlr_opt_set_word(how, "how=always", &conf, NULL), 0);
    assert_int_equal(conf, DLR_REORDER_ALWAYS);
    assert_int_equal(dlr_opt_set_word(how, "how=auto", &conf, NULL), 0);
    assert_int_equal(dlr_opt_show(how, &conf, text, sizeof(text)), 0);
    assert_string_equal(text, "auto");
    assert_int_equal(dlr_opt_set_word(how, "how=off", &conf, &err), -EINVAL);
    assert_string_equal(
        err.text, "option 'how': bad value 'off': must be 'never', 'always' or 'auto'");
    assert_int_equal(conf, DLR_REORDER_AUTO);
}

static void a_transport_is_one_of_three_words(void **state)
{
    static const struct dlr_opt way[] = {
        {"way", DLR_OPT_TRANSPORT, 0, "auto", "auto|ucx", "a way"}, DLR_OPT_END};
    enum dlr_transport conf = DLR_TRANSPORT_UCX;
    struct dlr_err err;
    char text[16];

    assert_int_equal(dlr_opt_defaults(way, &conf, NULL), 0);
    assert_int_equal(conf, DLR_TRANSPORT_AUTO);
    assert_int_equal(dlr_opt_set_word(way, "way=stream", &conf, NULL), 0);
    assert_int_equal(conf, DLR_TRANSPORT_STREAM);
    assert_int_equal(dlr_opt_show(way, &conf, text, sizeof(text)), 0);
    assert_string_equal(text, "stream");
    assert_int_equal(dlr_opt_set_word(way, "way=tcp", &conf, &err), -EINVAL);
    assert_string_equal(
        err.text, "option 'way': bad value 'tcp': must be 'auto', 'stream' or 'ucx'");
    assert_int_equal(conf, DLR_TRANSPORT_STREAM);
}

static void a_binding_is_one_of_three_words(void **state)
{
    static const struct dlr_opt bind[] = {
        {"bind", DLR_OPT_BIND, 0, "off", "off|numa|cores", "a way"}, DLR_OPT_END};
    enum dlr_bind conf = DLR_BIND_CORES;
    struct dlr_err err;
    char text[16];

    assert_int_equal(dlr_opt_defaults(bind, &conf, NULL), 0);
    assert_int_equal(conf, DLR_BIND_OFF);
    assert_int_equal(dlr_opt_set_word(bind, "bind=numa", &conf, NULL), 0);
    assert_int_equal(conf, DLR_BIND_NUMA);
    assert_int_equal(dlr_opt_show(bind, &conf, text, sizeof(text)), 0);
    assert_string_equal(text, "numa");
    assert_int_equal(dlr_opt_set_word(bind, "bind=on", &conf, &err), -EINVAL);
    assert_string_equal(
        err.text, "option 'bind': bad value 'on': must be 'off', 'numa' or 'cores'");
    assert_int_equal(conf, DLR_BIND_NUMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_one_of_three_words),
        cmocka_unit_test(a_reorder_is_one_of_three_words),
        cmocka_unit_test(a_transport_is_one_of_three_words),
        cmocka_unit_test(a_binding_is_one_of_three_words),
        cmocka_unit_test(defaults_fill_every_field),
        cmocka_unit_test(good_words_are_taken),
        cmocka_unit_test(bad_words_name_option_value_and_remedy),
        cmocka_unit_test(beats_have_limits),
        cmocka_unit_test(names_are_names_of_files),
        cmocka_unit_test(a_long_value_is_refused_and_quoted_in_part),
        cmocka_unit_test(options_accept_the_same_value_twice),
        cmocka_unit_test(a_bad_default_is_reported),
        cmocka_unit_test(help_is_aligned_and_names_defaults),
        cmocka_unit_test(a_table_has_key_default_value_and_meaning),
        cmocka_unit_test(job_settings_survive_being_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
