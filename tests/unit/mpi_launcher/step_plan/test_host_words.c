/* SPDX-License-Identifier: Apache-2.0 */
/* Names of nodes in the words of a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/host_words.h"

/* n1 is n9 now, and its address; what is bare is marked. */
static const char *rename_n1(void *arg, const char *host, size_t len, bool bare)
{
    if (len == 2 && !strncmp(host, "n1", len))
        return bare ? "BARE" : "n9";
    if (len == 8 && !strncmp(host, "10.0.0.1", len))
        return bare ? "BARE" : "10.0.0.9";
    return NULL;
}

static void addresses_are_told_from_words(void **state)
{
    static const char *const rows[][2] = {
        {"n1:29500", "n9:29500"},
        {"--rdzv_endpoint=n1:29500", "--rdzv_endpoint=n9:29500"},
        {"--rdzv-endpoint=n1", "--rdzv-endpoint=n9"},
        {"tcp://n1:29500", "tcp://n9:29500"},
        {"tcp://n1/x", "tcp://n9/x"},
        {"alice@n1", "alice@n9"},
        {"n1.site.org:80", "n9.site.org:80"},
        {"10.0.0.1:29500", "10.0.0.9:29500"},
        {"10.0.0.1", "10.0.0.9"},
        {"10.0.0.12:29500", "10.0.0.12:29500"},
        {"10.0.0.1.2", "10.0.0.1.2"},
        {"MASTER_ADDR=n1", "MASTER_ADDR=n9"},
        {"hosts=n1:8,n2:8,n1:4", "hosts=n9:8,n2:8,n9:4"},
        {"n1", "BARE"},
        {"--name=n1", "--name=BARE"},
        {"n2,n1", "n2,BARE"},
        {"n1.site.org", "BARE.site.org"},
        {"n12", "n12"},
        {"xn1:80", "xn1:80"},
        {"n1/data", "n1/data"},
        {"/scratch/n1", "/scratch/n1"},
        {"n1:alpha", "n1:alpha"},
        {"n1-old", "n1-old"},
        {"", ""},
        {"=", "="},
        {",,", ",,"},
        {"://", "://"},
        {"--lr=0.1", "--lr=0.1"},
        {"--norm=--", "--norm=--"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *words[] = {(char *)rows[i][0], NULL};
        DLR_AUTO_FREE char **got = dlr_host_words_map(words, rename_n1, NULL);

        print_message("%s\n", rows[i][0]);
        assert_non_null(got);
        assert_string_equal(got[0], rows[i][1]);
        assert_null(got[1]);
    }
}

static void an_option_tells_of_the_next_word(void **state)
{
    static const char *const rows[][2] = {
        {"torchrun|--master_addr|n1|train.py|n1",
         "torchrun|--master_addr|n9|train.py|BARE"},
        {"x|--Master-Addr|n1", "x|--Master-Addr|n9"},
        {"x|--lr|n1", "x|--lr|BARE"},
        {"-w|n1,n2", "-w|n9,n2"},
        {"bash|-c|torchrun --rdzv_endpoint n1:29500 a.py; echo 'n1'",
         "bash|-c|torchrun --rdzv_endpoint n9:29500 a.py; echo 'BARE'"},
        {"bash|-c|MASTER_ADDR=n1 x --master_addr \"n1\" >n1/log",
         "bash|-c|MASTER_ADDR=n9 x --master_addr \"n9\" >n1/log"},
        {"|", "|"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char line[256], want[256], *words[16], *at = line;
        DLR_AUTO_FREE char **got = NULL;
        unsigned n = 0;

        dlr_format(line, sizeof(line), "%s", rows[i][0]);
        while (at)
            words[n++] = strsep(&at, "|");
        words[n] = NULL;
        got = dlr_host_words_map(words, rename_n1, NULL);
        assert_non_null(got);
        want[0] = '\0';
        for (unsigned k = 0; k < n; k++) {
            strcat(want, k ? "|" : "");
            strcat(want, got[k]);
        }
        assert_string_equal(want, rows[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_told_from_words),
        cmocka_unit_test(an_option_tells_of_the_next_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
