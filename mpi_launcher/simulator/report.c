/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/simulator/report.h"

#include "common/base/str.h"

static const char *const part_texts[DLR_SIM_PARTS] = {
    [DLR_SIM_TRAINED] = "training that counts",
    [DLR_SIM_SAVING] = "steps longer by saves",
    [DLR_SIM_LOST] = "work done again",
    [DLR_SIM_SMALLER] = "fewer nodes than wanted",
    [DLR_SIM_DETECT] = "failures not known yet",
    [DLR_SIM_CLEAR] = "the old round goes away",
    [DLR_SIM_MEET] = "rendezvous",
    [DLR_SIM_PREPARE] = "copies moved or read",
    [DLR_SIM_START] = "program starts",
    [DLR_SIM_AGENTS] = "agents start",
    [DLR_SIM_PERSIST] = "state written for a requeue",
    [DLR_SIM_QUEUE] = "in the queue",
    [DLR_SIM_GIVEN_UP] = "given up, until somebody looks",
};

static void redundancy_text(const struct dlr_sim_conf *c, char *buf, size_t size)
{
    if (c->members > 0)
        snprintf(buf, size, "%s:%.0f+%.0f", "rs", c->members, c->copies);
    else if (c->copies > 1)
        snprintf(buf, size, "partner:%.0f", c->copies);
    else
        snprintf(buf, size, "%s", c->copies > 0 ? "partner" : "none");
}

static void put(const char *what, double share, const char *rest, FILE *out)
{
    fprintf(out, "%-32s%7.2f %%%s\n", what, 100 * share, rest);
}

void dlr_sim_report(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r,
                    FILE *out)
{
    char text[96], kept[32];
    double every;
    double plain = dlr_sim_plain(conf, &every);

    redundancy_text(conf, kept, sizeof(kept));
    fprintf(out, "%.0f GPUs on %u nodes, %.0f spares, redundancy %s%s, %.0f days\n\n",
            conf->gpus, dlr_sim_places(conf), conf->spares, kept,
            conf->in_process ? ", in-process" : "", r->days);
    snprintf(text, sizeof(text), "   95 %%: %.2f to %.2f", 100 * r->low, 100 * r->high);
    put("goodput", r->goodput, text, out);
    put("  of all nodes, spares too", r->paid, "", out);
    put("  by the closed formula", dlr_sim_formula(conf), "", out);
    snprintf(text, sizeof(text), "   by formula, a checkpoint each %.0f s", every);
    put("  plain requeue", plain, text, out);
    fputs("\nwhere the time goes\n", out);
    for (unsigned i = 0; i < DLR_SIM_PARTS; i++)
        if (r->part[i] > 0) {
            snprintf(text, sizeof(text), "  %s", part_texts[i]);
            put(text, r->part[i], "", out);
        }
    fprintf(
        out,
        "\nlost: %lu nodes, %lu leaf switches, %lu batch hosts; %lu failures of the "
        "program, %lu false alarms\n"
        "%lu rounds, %lu requeues, %lu starts from the disk, %lu times given up\n",
        r->nodes_lost, r->leaves_lost, r->batch_hosts, r->program_failures,
        r->false_alarms, r->rounds, r->requeues, r->from_disk, r->given_up);
}

static unsigned same_option(const struct dlr_sim_variant *list, unsigned n, unsigned at)
{
    unsigned i = at;

    while (i < n && dlr_streq(list[i].option, list[at].option))
        i++;
    return i - at;
}

void dlr_sim_report_variants(const struct dlr_sim_variant *list, unsigned n, FILE *out)
{
    for (unsigned i = 0, many; i < n; i += many) {
        unsigned best;

        many = same_option(list, n, i);
        best = i + dlr_sim_best(&list[i], many);
        fprintf(out, "\n%-14s %8s  %-17s %s\n", list[i].option, "goodput", "95 %",
                "of all nodes");
        for (unsigned v = i; v < i + many; v++)
            fprintf(out, "  %-12s %6.2f %%  %6.2f to %6.2f %8.2f %%%s%s\n",
                    list[v].value, 100 * list[v].result.goodput,
                    100 * list[v].result.low, 100 * list[v].result.high,
                    100 * list[v].result.paid, v == best ? "  take this" : "",
                    list[v].given ? "  (as given)" : "");
    }
}

json_t *dlr_sim_json(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r)
{
    json_t *parts = json_object(), *keys = json_object();
    char kept[32];
    double every, plain = dlr_sim_plain(conf, &every);

    redundancy_text(conf, kept, sizeof(kept));
    for (unsigned i = 0; i < DLR_SIM_PARTS; i++)
        json_object_set_new(parts, dlr_sim_part_name(i), json_real(r->part[i]));
    for (const struct dlr_sim_key *key = dlr_sim_keys; key->name; key++)
        json_object_set_new(
            keys, key->name,
            json_real(*(const double *)((const char *)conf + key->offset)));
    return json_pack(
        "{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:b,"
        "s:I,s:o}",
        "goodput", r->goodput, "low", r->low, "high", r->high, "paid", r->paid,
        "formula", dlr_sim_formula(conf), "plain", plain, "plain_every_s", every,
        "parts", parts, "nodes_lost", (json_int_t)r->nodes_lost, "leaves_lost",
        (json_int_t)r->leaves_lost, "batch_hosts_lost", (json_int_t)r->batch_hosts,
        "program_failures", (json_int_t)r->program_failures, "false_alarms",
        (json_int_t)r->false_alarms, "rounds", (json_int_t)r->rounds, "requeues",
        (json_int_t)r->requeues, "from_disk", (json_int_t)r->from_disk, "given_up",
        (json_int_t)r->given_up, "redundancy", kept, "in_process", conf->in_process,
        "seed", (json_int_t)conf->seed, "keys", keys);
}

json_t *dlr_sim_json_variants(const struct dlr_sim_variant *list, unsigned n)
{
    json_t *all = json_array();

    for (unsigned i = 0, many; i < n; i += many) {
        unsigned best;

        many = same_option(list, n, i);
        best = i + dlr_sim_best(&list[i], many);
        for (unsigned v = i; v < i + many; v++)
            json_array_append_new(
                all, json_pack("{s:s,s:s,s:f,s:f,s:f,s:f,s:b,s:b}", "option",
                               list[v].option, "value", list[v].value, "goodput",
                               list[v].result.goodput, "low", list[v].result.low,
                               "high", list[v].result.high, "paid", list[v].result.paid,
                               "best", v == best, "given", list[v].given));
    }
    return all;
}

/* --- the picture ------------------------------------------------------------------ */

#define WIDTH 900
#define BAR_X 250
#define BAR_W 520
#define ROW 26

static const char *const fills[DLR_SIM_PARTS] = {
    "#16a34a", "#86efac", "#f59e0b", "#fde68a", "#dc2626", "#fca5a5", "#7c3aed",
    "#c4b5fd", "#2563eb", "#93c5fd", "#0f766e", "#64748b", "#0f172a"};

static void text(double x, unsigned y, const char *words, FILE *out)
{
    fprintf(out, "<text x='%.0f' y='%u'>%s</text>\n", x, y, words);
}

static void bar(double from, double share, unsigned y, const char *fill, FILE *out)
{
    fprintf(out, "<rect x='%.2f' y='%u' width='%.2f' height='16' fill='%s'/>\n",
            BAR_X + from * BAR_W, y - 13, share * BAR_W, fill);
}

/* A bar from 0 to 100 % for each. */
static unsigned draw_shares(const struct dlr_sim_conf *conf,
                            const struct dlr_sim_result *r, unsigned y, FILE *out)
{
    const struct {
        const char *name;
        double share;
    } bars[] = {{"simulated", r->goodput},
                {"closed formula", dlr_sim_formula(conf)},
                {"plain requeue", dlr_sim_plain(conf, NULL)}};
    char words[64];

    for (unsigned i = 0; i < sizeof(bars) / sizeof(*bars); i++, y += ROW) {
        text(10, y, bars[i].name, out);
        bar(0, 1, y, "#f1f5f9", out);
        bar(0, bars[i].share, y, fills[DLR_SIM_TRAINED], out);
        snprintf(words, sizeof(words), "%.2f %%", 100 * bars[i].share);
        text(BAR_X + BAR_W + 10, y, words, out);
    }
    return y;
}

/* What is not trained, each as a part of all that is not. */
static unsigned draw_losses(const struct dlr_sim_result *r, unsigned y, FILE *out)
{
    double from = 0, all = 1 - r->part[DLR_SIM_TRAINED];
    char words[64];

    for (unsigned i = 1; i < DLR_SIM_PARTS; i++) {
        double share = all > 0 ? r->part[i] / all : 0;

        if (share <= 0)
            continue;
        text(10, y, part_texts[i], out);
        bar(from, share, y, fills[i], out);
        snprintf(words, sizeof(words), "%.3f %%", 100 * r->part[i]);
        text(BAR_X + BAR_W + 10, y, words, out);
        from += share;
        y += ROW;
    }
    return y;
}

void dlr_sim_picture(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r,
                     FILE *out)
{
    char title[160];
    unsigned rows = 6, y = 30;

    for (unsigned i = 1; i < DLR_SIM_PARTS; i++)
        rows += r->part[i] > 0;
    fprintf(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%u' "
        "viewBox='0 0 %d %u'>\n<style>text{font-family:monospace;font-size:13px;"
        "fill:#0f172a}</style>\n<rect width='100%%' height='100%%' fill='#ffffff'/>\n",
        WIDTH, rows * ROW + 10, WIDTH, rows * ROW + 10);
    snprintf(title, sizeof(title), "Goodput of %.0f GPUs, %.0f spares, %.0f days",
             conf->gpus, conf->spares, r->days);
    text(10, y, title, out);
    y = draw_shares(conf, r, y + ROW, out);
    text(10, y + 8, "where the rest goes", out);
    (void)draw_losses(r, y + 8 + ROW, out);
    fputs("</svg>\n", out);
}
