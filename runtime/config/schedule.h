/*
 * schedule.h - the learning rate of each step (schedule.c).
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include "runtime/config/settings.h"

/* The learning rate of a step. Epochs count from 1; fraction: part of the epoch that is over, [0,
 * 1); models: number of models that train in parallel (--lr-scale). */
double lr_at(const struct run *run, int models, int64_t epoch, double fraction);
void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps);
/* NULL, or a message: is this a schedule? */
char *lr_schedule_check(const struct option *o, const char *schedule);

#endif
