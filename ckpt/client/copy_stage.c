/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/copy_stage.h"

void dlr_copy_stage_init(struct dlr_copy_stage *s)
{
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void dlr_copy_stage_done(struct dlr_copy_stage *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

void dlr_copy_stage_begin(struct dlr_copy_stage *s)
{
    pthread_mutex_lock(&s->lock);
    s->come = s->taken = s->done = 0;
    s->over = false;
    pthread_mutex_unlock(&s->lock);
}

void dlr_copy_stage_come(struct dlr_copy_stage *s, uint32_t blocks)
{
    pthread_mutex_lock(&s->lock);
    s->come = blocks;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void dlr_copy_stage_end(struct dlr_copy_stage *s, bool dropped)
{
    pthread_mutex_lock(&s->lock);
    s->over = true;
    if (dropped)
        s->come = s->taken;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool dlr_copy_stage_take(struct dlr_copy_stage *s, bool wait, uint32_t *ret_block)
{
    bool there;

    pthread_mutex_lock(&s->lock);
    while (wait && !s->over && s->taken == s->come)
        pthread_cond_wait(&s->changed,
                          &s->lock); /* ends with the copies, which have a limit */
    there = s->taken < s->come;
    if (there)
        *ret_block = s->taken++;
    pthread_mutex_unlock(&s->lock);
    return there;
}

void dlr_copy_stage_through(struct dlr_copy_stage *s)
{
    pthread_mutex_lock(&s->lock);
    if (++s->done == s->taken)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void dlr_copy_stage_settle(struct dlr_copy_stage *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->done < s->taken)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
