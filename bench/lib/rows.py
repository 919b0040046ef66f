# SPDX-License-Identifier: Apache-2.0
"""Rows of a benchmark's result, and the few sums they need."""
import json
import math
import os
import statistics
import sys

# Two-sided 95 % points of Student's t by degrees of freedom; beyond 30 that of the normal.
T95 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
       2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]


def percentile(values, p):
    """The smallest of values that p percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * p / 100) - 1)]


def confidence(values):
    """Half of the width of the 95 % interval of their mean; None for less than two."""
    if len(values) < 2:
        return None
    t = T95[len(values) - 2] if len(values) <= 31 else 1.96
    return t * statistics.stdev(values) / math.sqrt(len(values))


def median_interval(values):
    """Half of the width of the 95 % interval of their median, as box plots notch it."""
    if len(values) < 4:
        return None
    low, _, high = statistics.quantiles(values, n=4)
    return 1.57 * (high - low) / math.sqrt(len(values))


def load():
    return os.getloadavg()[0]


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def room_for(mb, copies):
    """Whether as many copies of mb MB find room in this machine's memory; it is said where they do not."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) // 1000 for line in file if line.startswith("MemAvailable"))
    if free < copies * mb:
        say(f"{mb} MB: not measured, {free} MB of memory are available, {copies * mb} wanted")
    return free >= copies * mb


def _short(value, digits):
    return value if value is None else float(f"{value:.{digits}g}")


def row(name, value, unit, setup, *, ceiling=None, ceiling_name=None, ratio=None, noise=None,
        **more):
    """Prints one row; more are fields beside the common ones, such as p50."""
    out = {"name": name, "value": _short(value, 6), "unit": unit, "ceiling": _short(ceiling, 6),
           "ceiling_name": ceiling_name, "ratio": _short(ratio, 4), "noise": _short(noise, 3)}
    out.update((k, _short(v, 6) if isinstance(v, float) else v) for k, v in more.items())
    out["setup"] = setup
    print(json.dumps(out), flush=True)


def spread(name, values, unit, setup, **more):
    """A row of many measurements of one thing: their mean, and how they lie."""
    if not values:
        return
    row(name, statistics.fmean(values), unit, setup, noise=confidence(values),
        p50=percentile(values, 50), p99=percentile(values, 99), max=max(values), n=len(values),
        **more)
