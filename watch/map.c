/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlr_watch_map *maps;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (struct dlr_watch_map *map = maps; map; map = map->next) {
        map->page = NULL;
        map->ring = NULL;
        map->records = 0;
    }
    maps = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static void *map_file(int fd, size_t bytes)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *at;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
        st.st_size != (off_t)bytes)
        return NULL;
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static uint32_t records_of(int ring_fd)
{
    struct stat st;
    uint64_t records;

    if (ring_fd < 0 || fstat(ring_fd, &st) < 0 || st.st_size <= DLR_RING_HEAD)
        return 0;
    records = (st.st_size - DLR_RING_HEAD) / sizeof(struct dlr_ring_record);
    return records <= UINT32_MAX / 2 && !(records & (records - 1)) ? records : 0;
}

int dlr_watch_map_open(struct dlr_watch_map *map, int page_fd, int ring_fd,
                       struct dlr_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint32_t records = records_of(ring_fd);

    pthread_once(&once, watch_forks);
    *map = (struct dlr_watch_map){.page = map_file(page_fd, DLR_WATCH_BYTES)};
    if (!map->page)
        return dlr_fail(err, -EBADMSG, "the watch page is not one");
    if (map->page->magic != DLR_WATCH_MAGIC || map->page->size != DLR_WATCH_BYTES) {
        munmap(map->page, DLR_WATCH_BYTES);
        map->page = NULL;
        return dlr_fail(err, -EBADMSG, "the watch page is not one");
    }
    if (records)
        map->ring = map_file(ring_fd, DLR_RING_BYTES(records));
    map->records = map->ring ? records : 0;
    pthread_mutex_lock(&lock);
    map->next = maps;
    maps = map;
    pthread_mutex_unlock(&lock);
    return 0;
}

void dlr_watch_map_close(struct dlr_watch_map *map)
{
    if (!map->page)
        return;
    pthread_mutex_lock(&lock);
    for (struct dlr_watch_map **at = &maps; *at; at = &(*at)->next) {
        if (*at == map) {
            *at = map->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    munmap(map->page, DLR_WATCH_BYTES);
    if (map->ring)
        munmap(map->ring, DLR_RING_BYTES(map->records));
    *map = (struct dlr_watch_map){0};
}
