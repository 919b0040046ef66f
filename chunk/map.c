/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of tensor, by type and by whether it is frozen, has chunks of its own. In
 * each kind the groups that fit into one chunk together lie there; all other tensors
 * are put one behind the other, a module into one chunk where it is not longer.
 */
#include "chunk/map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define KINDS (2 * DLR_CHUNK_TYPES)
#define NONE UINT32_MAX
#define CHUNKS_LEAST 16 /* of a model, by which the search bounds a chunk's size */

struct dlr_chunk_map {
    uint64_t elems, wasted, hash;
    uint32_t n, chunks, room;
    struct dlr_chunk_place *places;
    struct dlr_chunk_info *infos;
};

/* What a tensor is, sorted and looked up once for all sizes that are tried. */
struct model {
    const struct dlr_chunk_tensor *tensors;
    uint32_t n;
    uint32_t *group_of; /* a small number for each pair of kind and group */
    uint64_t *group_elems;
    uint32_t groups;
    uint32_t *kind_of_group;
    uint64_t elems; /* of all that lie in chunks */
};

/* The chunks of one kind while they are filled. */
struct fill {
    uint32_t open, resident; /* or NONE */
};

static uint64_t align(uint64_t elems)
{
    return (elems + DLR_CHUNK_ALIGN - 1) / DLR_CHUNK_ALIGN * DLR_CHUNK_ALIGN;
}

static unsigned kind_of(const struct dlr_chunk_tensor *t)
{
    return 2 * t->type + (t->flags & DLR_CHUNK_FROZEN ? 1 : 0);
}

/* Has a place of its own. */
static bool placed(const struct dlr_chunk_tensor *t)
{
    return t->elems > 0 && !(t->flags & DLR_CHUNK_KEPT) && t->tied == DLR_CHUNK_UNTIED;
}

/* --- what the program says ---------------------------------------------------------- */

static int check_tied(const struct dlr_chunk_tensor *tensors, uint32_t i,
                      struct dlr_err *err)
{
    const struct dlr_chunk_tensor *t = &tensors[i], *other;

    if (t->tied >= i)
        return dlr_fail(err, -EINVAL,
                        "tensor '%.128s' is tied to number %u, which is not before it",
                        t->name, t->tied);
    other = &tensors[t->tied];
    if (other->tied != DLR_CHUNK_UNTIED)
        return dlr_fail(err, -EINVAL,
                        "tensor '%.128s' is tied to '%.128s', which is tied itself",
                        t->name, other->name);
    if (t->type != other->type)
        return dlr_fail(err, -EINVAL,
                        "tensor '%.128s' has another precision than '%.128s', to which "
                        "it is tied",
                        t->name, other->name);
    if (t->elems != other->elems || t->group != other->group ||
        t->flags != other->flags)
        return dlr_fail(err, -EINVAL,
                        "tensor '%.128s' has not the elements, group and flags of "
                        "'%.128s', to which it is tied",
                        t->name, other->name);
    return 0;
}

static int check_tensor(const struct dlr_chunk_tensor *tensors, uint32_t i,
                        struct dlr_err *err)
{
    const struct dlr_chunk_tensor *t = &tensors[i];

    if (!t->name || !t->name[0])
        return dlr_fail(err, -EINVAL, "tensor %u has no name", i);
    if ((unsigned)t->type >= DLR_CHUNK_TYPES)
        return dlr_fail(err, -EINVAL, "tensor '%.128s' is neither fp16 nor bf16",
                        t->name);
    if (t->flags & ~(DLR_CHUNK_FROZEN | DLR_CHUNK_KEPT))
        return dlr_fail(err, -EINVAL, "tensor '%.128s' has unknown flags 0x%x", t->name,
                        t->flags);
    if (t->elems > DLR_CHUNK_ELEMS_MAX)
        return dlr_fail(err, -EINVAL, "tensor '%.128s' has %" PRIu64 " elements",
                        t->name, t->elems);
    return t->tied == DLR_CHUNK_UNTIED ? 0 : check_tied(tensors, i, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct dlr_chunk_tensor *tensors, uint32_t n,
                       struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(n, sizeof(*names));

    if (!names)
        return dlr_fail(err, -ENOMEM, "no memory for the names of %u tensors", n);
    for (uint32_t i = 0; i < n; i++)
        names[i] = tensors[i].name;
    qsort(names, n, sizeof(*names), by_name);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return dlr_fail(err, -EINVAL, "two tensors are called '%.128s'", names[i]);
    return 0;
}

static int check(const struct dlr_chunk_tensor *tensors, uint32_t n, uint64_t elems,
                 struct dlr_err *err)
{
    uint64_t sum = 0;
    int rc;

    if (n == 0 || n > DLR_CHUNK_TENSORS_MAX)
        return dlr_fail(err, -EINVAL, "a model has 1 to %u tensors, not %u",
                        DLR_CHUNK_TENSORS_MAX, n);
    if (elems % DLR_CHUNK_UNIT || elems > DLR_CHUNK_UNITS_MAX * DLR_CHUNK_UNIT)
        return dlr_fail(err, -EINVAL,
                        "%" PRIu64 " elements are no chunk: it must be a multiple of "
                        "%" PRIu64 ", up to %" PRIu64,
                        elems, DLR_CHUNK_UNIT, DLR_CHUNK_UNITS_MAX * DLR_CHUNK_UNIT);
    for (uint32_t i = 0; i < n; i++) {
        if ((rc = check_tensor(tensors, i, err)) < 0)
            return rc;
        sum += tensors[i].elems;
        if (sum > DLR_CHUNK_ELEMS_MAX)
            return dlr_fail(err, -EINVAL,
                            "the model has more than %" PRIu64 " elements",
                            DLR_CHUNK_ELEMS_MAX);
    }
    return check_names(tensors, n, err);
}

/* --- groups --------------------------------------------------------------------------- */

static void model_done(struct model *m)
{
    free(m->group_of);
    free(m->group_elems);
    free(m->kind_of_group);
}

struct key {
    uint32_t kind, group, tensor;
};

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static int model_init(struct model *m, const struct dlr_chunk_tensor *tensors,
                      uint32_t n)
{
    DLR_AUTO_FREE struct key *keys = calloc(n, sizeof(*keys));

    m->tensors = tensors;
    m->n = n;
    m->group_of = calloc(n, sizeof(*m->group_of));
    m->group_elems = calloc(n, sizeof(*m->group_elems));
    m->kind_of_group = calloc(n, sizeof(*m->kind_of_group));
    if (!keys || !m->group_of || !m->group_elems || !m->kind_of_group)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct key){kind_of(&tensors[i]), tensors[i].group, i};
    qsort(keys, n, sizeof(*keys), by_key);
    for (uint32_t i = 0; i < n; i++) {
        const struct dlr_chunk_tensor *t = &tensors[keys[i].tensor];

        if (i > 0 &&
            (keys[i].kind != keys[i - 1].kind || keys[i].group != keys[i - 1].group))
            m->groups++;
        m->group_of[keys[i].tensor] = m->groups;
        m->kind_of_group[m->groups] = keys[i].kind;
        if (placed(t)) {
            m->group_elems[m->groups] += align(t->elems);
            m->elems += t->elems;
        }
    }
    m->groups++;
    return 0;
}

/* Of each kind the groups, the first ones first, that fit into a half of a chunk with
 * those before: what is larger is worth chunks of its own. A kind that is all small is
 * a chunk like any other.
 */
static void find_small(const struct model *m, uint64_t elems, bool *small)
{
    uint64_t taken[KINDS] = {0}, all[KINDS] = {0};

    for (uint32_t g = 0; g < m->groups; g++)
        all[m->kind_of_group[g]] += m->group_elems[g];
    for (uint32_t g = 0; g < m->groups; g++) {
        const uint32_t kind = m->kind_of_group[g];

        small[g] = m->group_elems[g] > 0 && all[kind] > elems &&
                   taken[kind] + m->group_elems[g] <= elems / 2;
        if (small[g])
            taken[kind] += m->group_elems[g];
    }
}

/* --- places --------------------------------------------------------------------------- */

static int add_chunk(struct dlr_chunk_map *map, const struct dlr_chunk_tensor *t,
                     bool resident, uint32_t *ret)
{
    if (map->chunks == map->room) {
        const uint32_t room = map->room ? 2 * map->room : 64;
        struct dlr_chunk_info *more = realloc(map->infos, room * sizeof(*more));

        if (!more)
            return -ENOMEM;
        map->infos = more;
        map->room = room;
    }
    map->infos[map->chunks] = (struct dlr_chunk_info){
        .type = t->type, .frozen = t->flags & DLR_CHUNK_FROZEN, .resident = resident};
    *ret = map->chunks++;
    return 0;
}

/* Its chunk is *open, or a new one where it does not fit. */
static int put(struct dlr_chunk_map *map, const struct dlr_chunk_tensor *t,
               bool resident, uint32_t *open, struct dlr_chunk_place *ret)
{
    uint64_t left = t->elems;
    int rc;

    if (*open == NONE || align(map->infos[*open].used) + t->elems > map->elems)
        if ((rc = add_chunk(map, t, resident, open)) < 0)
            return rc;
    *ret = (struct dlr_chunk_place){*open, 1, align(map->infos[*open].used)};
    for (; left > map->elems; left -= map->elems, ret->chunks++) {
        map->infos[*open].used = map->elems;
        if ((rc = add_chunk(map, t, resident, open)) < 0)
            return rc;
    }
    map->infos[*open].used = ret->offset + left; /* more chunks: at offset 0 */
    return 0;
}

/* The elements of one kind that a module has in chunks that are not resident. */
static uint64_t module_elems(const struct model *m, const bool *small, uint32_t first,
                             unsigned kind)
{
    uint64_t sum = 0;

    for (uint32_t i = first;
         i < m->n && m->tensors[i].module == m->tensors[first].module; i++)
        if (placed(&m->tensors[i]) && kind_of(&m->tensors[i]) == kind &&
            !small[m->group_of[i]])
            sum += align(m->tensors[i].elems);
    return sum;
}

/* At the beginning of a module: what does not fit into the rest of a chunk, and would
 * into a whole one, is not cut.
 */
static void keep_together(const struct dlr_chunk_map *map, const struct model *m,
                          const bool *small, uint32_t first, struct fill *fill)
{
    if (first > 0 && m->tensors[first].module == m->tensors[first - 1].module)
        return;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        const uint64_t elems =
            fill[kind].open == NONE ? 0 : module_elems(m, small, first, kind);

        if (elems > 0 && elems <= map->elems &&
            align(map->infos[fill[kind].open].used) + elems > map->elems)
            fill[kind].open = NONE;
    }
}

static int place_all(struct dlr_chunk_map *map, const struct model *m,
                     const bool *small)
{
    struct fill fill[KINDS];
    uint64_t used = 0;
    int rc = 0;

    for (unsigned kind = 0; kind < KINDS; kind++)
        fill[kind] = (struct fill){NONE, NONE};
    map->chunks = 0;
    for (uint32_t i = 0; i < m->n && rc == 0; i++) {
        const struct dlr_chunk_tensor *t = &m->tensors[i];
        const bool resident = small[m->group_of[i]];
        struct fill *f = &fill[kind_of(t)];

        keep_together(map, m, small, i, fill);
        if (t->tied != DLR_CHUNK_UNTIED)
            map->places[i] = map->places[t->tied];
        else if (!placed(t))
            map->places[i] = (struct dlr_chunk_place){0};
        else {
            rc = put(map, t, resident, resident ? &f->resident : &f->open,
                     &map->places[i]);
            used += t->elems;
        }
    }
    map->wasted = map->chunks * map->elems - used;
    return rc;
}

/* --- the size of a chunk ------------------------------------------------------------ */

/* DLR_CHUNK_USUAL, or less where the model would have few chunks; another size only
 * where it wastes less. The largest is tried first: fewer chunks are fewer messages.
 */
static int search(struct dlr_chunk_map *map, const struct model *m, bool *small)
{
    uint64_t most = m->elems / CHUNKS_LEAST / DLR_CHUNK_UNIT, least = UINT64_MAX, best;
    int rc;

    if (most > 2 * DLR_CHUNK_USUAL / DLR_CHUNK_UNIT)
        most = 2 * DLR_CHUNK_USUAL / DLR_CHUNK_UNIT;
    if (most == 0)
        most = 1;
    best = most * DLR_CHUNK_UNIT;
    for (uint64_t units = most; units > 0 && units * 4 >= most; units--) {
        map->elems = units * DLR_CHUNK_UNIT;
        find_small(m, map->elems, small);
        if ((rc = place_all(map, m, small)) < 0)
            return rc;
        if (map->wasted < least ||
            (map->wasted == least && map->elems == DLR_CHUNK_USUAL)) {
            best = map->elems;
            least = map->wasted;
        }
    }
    map->elems = best;
    return 0;
}

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *p = data;

    while (size--)
        hash = (hash ^ *p++) * UINT64_C(1099511628211); /* FNV-1a, 64 bits */
    return hash;
}

static uint64_t hash_of(const struct dlr_chunk_map *map, const struct model *m)
{
    uint64_t hash =
        mix(UINT64_C(14695981039346656037), &map->elems, sizeof(map->elems));

    for (uint32_t i = 0; i < m->n; i++) {
        const struct dlr_chunk_tensor *t = &m->tensors[i];
        const uint64_t words[] = {t->elems,
                                  t->type,
                                  t->flags,
                                  t->group,
                                  t->tied,
                                  map->places[i].chunk,
                                  map->places[i].offset};

        hash = mix(hash, t->name, strlen(t->name) + 1);
        hash = mix(hash, words, sizeof(words));
    }
    return hash;
}

static int make(struct dlr_chunk_map *map, const struct model *m, uint64_t elems)
{
    DLR_AUTO_FREE bool *small = calloc(m->groups, sizeof(*small));
    int rc;

    map->n = m->n;
    map->elems = elems;
    map->places = calloc(m->n, sizeof(*map->places));
    if (!small || !map->places)
        return -ENOMEM;
    if (elems == 0 && (rc = search(map, m, small)) < 0)
        return rc;
    find_small(m, map->elems, small);
    if ((rc = place_all(map, m, small)) < 0)
        return rc;
    map->hash = hash_of(map, m);
    return 0;
}

int dlr_chunk_map_new(const struct dlr_chunk_tensor *tensors, uint32_t n,
                      uint64_t elems, struct dlr_chunk_map **ret, struct dlr_err *err)
{
    DLR_CLEANUP(model_done) struct model m = {0};
    struct dlr_chunk_map *map;
    int rc = check(tensors, n, elems, err);

    if (rc < 0)
        return rc;
    map = calloc(1, sizeof(*map));
    rc = map ? model_init(&m, tensors, n) : -ENOMEM;
    if (rc == 0)
        rc = make(map, &m, elems);
    if (rc < 0) {
        dlr_chunk_map_free(map);
        return dlr_fail(err, rc, "no memory for a map of %u tensors", n);
    }
    *ret = map;
    return 0;
}

struct dlr_chunk_map *dlr_chunk_map_free(struct dlr_chunk_map *map)
{
    if (map) {
        free(map->places);
        free(map->infos);
    }
    free(map);
    return NULL;
}

/* --- questions ------------------------------------------------------------------------ */

uint64_t dlr_chunk_map_elems(const struct dlr_chunk_map *map)
{
    return map->elems;
}

uint32_t dlr_chunk_map_chunks(const struct dlr_chunk_map *map)
{
    return map->chunks;
}

uint64_t dlr_chunk_map_wasted(const struct dlr_chunk_map *map)
{
    return map->wasted;
}

uint64_t dlr_chunk_map_hash(const struct dlr_chunk_map *map)
{
    return map->hash;
}

struct dlr_chunk_place dlr_chunk_map_place(const struct dlr_chunk_map *map,
                                           uint32_t tensor)
{
    return map->places[tensor];
}

struct dlr_chunk_info dlr_chunk_map_info(const struct dlr_chunk_map *map,
                                         uint32_t chunk)
{
    return map->infos[chunk];
}

uint32_t dlr_chunk_owner(uint32_t chunk, uint32_t ranks)
{
    return chunk % ranks;
}

uint64_t dlr_chunk_map_at(const struct dlr_chunk_map *map, enum dlr_chunk_list list,
                          uint64_t offset)
{
    if (list == DLR_CHUNK_PARAM)
        return 2 * offset;
    return 4 * ((list - DLR_CHUNK_MASTER) * map->elems + offset);
}
