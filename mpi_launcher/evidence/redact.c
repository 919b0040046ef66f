/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/evidence/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define GAP_MAX 8 /* characters between a word and its value: ", " or ": " and so on */

/* Words, and the end of longer ones: HF_TOKEN, --wandb-api-key, client_secret. */
static const char *const words[] = {
    "token",      "password",    "passwd",     "passphrase",    "secret",
    "api_key",    "api-key",     "apikey",     "access_key",    "access-key",
    "secret_key", "private_key", "credential", "authorization",
};

static size_t word_at(const char *text, size_t left)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t n = strlen(words[i]);

        if (n < left && strncasecmp(text, words[i], n) == 0)
            return n;
    }
    return 0;
}

static bool in(char c, const char *set)
{
    return c && strchr(set, c);
}

/* From the end of the word to its value, 0: none follows. A space alone counts behind an
 * option, else "the token that" would lose its next word.
 */
static size_t gap(const char *text, size_t left, bool option)
{
    bool sign = false, quote = false;
    size_t n = 0;

    while (n < left && n < GAP_MAX && in(text[n], "\"'=:, \t\\") &&
           (text[n] != '\\' || (n + 1 < left && in(text[n + 1], "\"'\\")))) {
        sign = sign || in(text[n], "=:");
        quote = quote || in(text[n], "\"',");
        n++;
    }
    if (n == left || n == GAP_MAX || n == 0)
        return 0;
    return sign || option ? n : 0;
}

/* Where the option or name that the word belongs to begins with '-'. */
static bool is_option(const char *text, size_t at)
{
    while (at && (isalnum((unsigned char)text[at - 1]) || in(text[at - 1], "_-.")))
        at--;
    return text[at] == '-';
}

static size_t mask(char *text, size_t left)
{
    size_t n = 0;

    while (n < left && !in(text[n], "\"', \t\r\n\\}])&;|<>") && text[n])
        text[n++] = '*';
    return n;
}

/* Up to the quote that ends it. Inside of JSON's own quotes, where those of the text are
 * escaped, an escape ends it; else it is masked as a pair, and JSON stays JSON.
 */
static size_t mask_quoted(char *text, size_t left, char quote, bool escaped)
{
    size_t n = 0;

    while (n < left && text[n] && text[n] != quote && !in(text[n], "\"\n")) {
        if (text[n] == '\\' && (escaped || n + 1 == left || !in(text[n + 1], "\"\\")))
            break;
        if (text[n] == '\\')
            text[n++] = '*';
        text[n++] = '*';
    }
    return n;
}

/* What begins at i, behind the gap that ends there. */
static size_t mask_value(char *text, size_t i, size_t size)
{
    char before = text[i - 1];

    if (before != '"' && before != '\'')
        return mask(text + i, size - i);
    return mask_quoted(text + i, size - i, before, i > 1 && text[i - 2] == '\\');
}

/* "Bearer x", "Basic x": the value is the second word. */
static size_t scheme(const char *text, size_t left)
{
    static const char *const schemes[] = {"bearer ", "basic ", "token "};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
        size_t n = strlen(schemes[i]);

        if (n < left && strncasecmp(text, schemes[i], n) == 0)
            return n;
    }
    return 0;
}

size_t dlr_evidence_redact(char *text, size_t size)
{
    size_t found = 0;

    for (size_t i = 0; i < size;) {
        size_t n = word_at(text + i, size - i), to;

        if (!n || isalnum((unsigned char)text[i + n])) {
            i++;
            continue;
        }
        to = i + n;
        n = gap(text + to, size - to, is_option(text, i));
        i = to + n;
        if (!n)
            continue;
        n = scheme(text + i, size - i);
        n += n ? mask(text + i + n, size - i - n) : mask_value(text, i, size);
        i += n;
        found += n > 0;
    }
    return found;
}
