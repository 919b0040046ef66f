/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/host_words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define BETWEEN " \t\n'\"`;&|()<>{}" /* between the words of a shell's line */

struct mapper {
    dlr_host_words_fn fn;
    void *arg;
    FILE *out;
    bool address; /* the word before was an option that takes an address */
};

/* Options and variables whose value is a host or begins with one, as launchers call
 * them; "_" also stands for "-", in either case.
 */
static const char *const options[] = {
    "rdzv_endpoint",
    "master_addr",
    "main_process_ip",
    "coordinator_address",
    "coordinator",
    "coordinator_ip",
    "init_method",
    "dist_url",
    "dist_init_method",
    "head",
    "head_addr",
    "head_address",
    "head_node",
    "head_node_ip",
    "head_ip",
    "master",
    "master_ip",
    "master_host",
    "master_address",
    "host",
    "hosts",
    "hostname",
    "address",
    "addr",
    "ip",
    "server",
    "node_ip_address",
    "nodelist",
    "w",
    "redis_address",
    "store_host",
    "rank0_addr",
    "rank_0_addr",
    "coordinator_bind_ip",
};

static bool is_option(const char *text, size_t len)
{
    while (len && *text == '-') {
        text++;
        len--;
    }
    for (size_t i = 0; len && i < sizeof(options) / sizeof(*options); i++) {
        size_t k = 0;

        while (k < len && options[i][k] &&
               options[i][k] ==
                   (text[k] == '-' ? '_' : tolower((unsigned char)text[k])))
            k++;
        if (k == len && !options[i][k])
            return true;
    }
    return false;
}

static bool is_ipv4(const char *text, size_t len)
{
    unsigned dots = 0, digits = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && digits) {
            dots++;
            digits = 0;
        } else if (isdigit((unsigned char)text[i]) && digits < 3) {
            digits++;
        } else {
            return false;
        }
    }
    return dots == 3 && digits;
}

/* ":29500", to the end or to what cannot belong to a number. */
static bool is_port(const char *text, size_t len)
{
    size_t i = 1;

    while (i < len && isdigit((unsigned char)text[i]))
        i++;
    return len && text[0] == ':' && i > 1 && (i == len || text[i] == '/');
}

/* One element: [scheme://][user@]HOST[.domain][:port][rest]. */
static void map_element(struct mapper *m, const char *text, size_t len, bool address)
{
    const char *scheme = memmem(text, len, "://", 3), *at, *name = NULL;
    size_t lead = scheme ? (size_t)(scheme + 3 - text) : 0, host, short_name;

    at = memchr(text + lead, '@', len - lead);
    if (at)
        lead = (size_t)(at + 1 - text);
    for (host = 0; lead + host < len; host++)
        if (!isalnum((unsigned char)text[lead + host]) &&
            !strchr(".-_", text[lead + host]))
            break;
    short_name = host;
    if (!is_ipv4(text + lead, host)) {
        const char *dot = memchr(text + lead, '.', host);

        short_name = dot ? (size_t)(dot - text) - lead : host;
    }
    address = address || scheme || at || is_ipv4(text + lead, host) ||
              is_port(text + lead + host, len - lead - host);
    if (short_name && (address || lead + host == len))
        name = m->fn(m->arg, text + lead, short_name, !address);
    fprintf(m->out, "%.*s", (int)lead, text);
    if (name)
        fputs(name, m->out);
    else
        short_name = 0;
    fprintf(m->out, "%.*s", (int)(len - lead - short_name), text + lead + short_name);
}

/* A token: "value", "--option", "key=value"; a value is a list of elements. */
static void map_token(struct mapper *m, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t at = equals ? (size_t)(equals + 1 - text) : 0;
    bool address = equals ? is_option(text, at - 1) : m->address;

    m->address = !equals && *text == '-' && is_option(text, len);
    fprintf(m->out, "%.*s", (int)at, text);
    while (at < len) {
        const char *comma = memchr(text + at, ',', len - at);
        size_t size = comma ? (size_t)(comma - text) - at : len - at;

        map_element(m, text + at, size, address);
        at += size;
        if (comma) {
            fputc(',', m->out);
            at++;
        }
    }
}

static void map_word(struct mapper *m, const char *word)
{
    while (*word) {
        size_t gap = strspn(word, BETWEEN), len = strcspn(word + gap, BETWEEN);

        fprintf(m->out, "%.*s", (int)gap, word);
        if (len)
            map_token(m, word + gap, len);
        word += gap + len;
    }
    fputc('\0', m->out);
}

char **dlr_host_words_map(char *const *words, dlr_host_words_fn fn, void *arg)
{
    DLR_AUTO_FREE char *text = NULL;
    struct mapper m = {.fn = fn, .arg = arg};
    size_t size = 0, n = 0;
    char **copy, *to;

    m.out = open_memstream(&text, &size);
    if (!m.out)
        return NULL;
    while (words[n])
        map_word(&m, words[n++]);
    if (fclose(m.out) != 0)
        return NULL;
    copy = malloc((n + 1) * sizeof(*copy) + size);
    if (!copy)
        return NULL;
    to = memcpy((char *)(copy + n + 1), text, size);
    for (size_t i = 0; i < n; i++) {
        copy[i] = to;
        to += strlen(to) + 1;
    }
    copy[n] = NULL;
    return copy;
}
