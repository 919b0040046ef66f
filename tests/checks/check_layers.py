#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/checks/check_layers.py OBJECTS [ROOT]

Whether folders see each other as mk/layers says: includes, and calls of dlr_ names by what nm says of the objects below
OBJECTS, so that a call without an include is seen too. Also files that reach each other in a ring, foreign headers
outside their folders, and sizes. One line for each thing that is wrong, and exit status 1. mk/layers.known holds what
is wrong today; a line of it that is true no longer is wrong as well:

    include FOLDER: FOLDER...    call FOLDER: FOLDER...    ring FILE...    long FILE...
"""
import collections
import os
import re
import subprocess
import sys

FILES_MAX, HEADER_MAX, SOURCE_MAX = 30, 180, 520
INSTALLED = "ckpt/ckpt.h"  # as long as its manual needs
# Whose headers these are, by their beginning; those of the C library are not listed.
FOREIGN = [("cuda", "cuda"), ("czmq.h", "czmq"), ("elfutils/", "dw"), ("hwloc", "hwloc"), ("isa-l", "isal"), ("jansson.h", "jansson"),
           ("mpi.h", "mpi"), ("munge.h", "munge"), ("openssl/", "ssl"), ("slurm/spank.h", "spank"), ("slurm/slurm_version.h", "spank"), ("slurm/", "slurm"),
           ("ucp/", "ucp"), ("ucs/", "ucs"), ("uct/", "ucp"), ("xxhash.h", "xxhash"), ("zmq.h", "zmq")]
# Programs beside the table: what they may include.
PROGRAMS = {"examples": (("examples/", INSTALLED, "feed/client/feed.h"), {"mpi", "xxhash"}), "bench": (("",), {"mpi", "isal", "ucp"})}

wrong = []


def folder(path):
    return os.path.dirname(path)


def load_table(path):
    sees, libraries = {}, {}
    for number, line in enumerate(open(path), 1):
        if line.startswith("#") or not line.strip():
            continue
        name, _, rest = line.rstrip("\n").partition(":")
        words, _, foreign = rest.partition("|")
        for other in words.split():
            if other not in sees:
                wrong.append(f"{path}:{number}: {name} sees {other}, which has no line above it")
        sees[name], libraries[name] = set(words.split()), set(foreign.split())
    return sees, libraries


def load_known(path):
    known = {"include": set(), "call": set(), "ring": set(), "long": set()}
    for number, line in enumerate(open(path), 1):
        if line.startswith("#") or not line.strip():
            continue
        kind, *words = line.split()
        if kind not in known or not words:
            wrong.append(f"{path}:{number}: no such line: {line.strip()}")
        elif kind in ("ring", "long"):
            known[kind].update(words)
        else:
            known[kind].update((words[0].rstrip(":"), other) for other in words[1:])
    return known


def find_files(tops):
    for top in tops:
        for place, _, names in os.walk(top):
            yield from (os.path.join(place, name) for name in names if name.endswith((".c", ".h")))


def includes(path):
    with open(path, encoding="utf8") as f:
        return re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', f.read(), re.M)


def check_includes(files, sees, libraries, known, used):
    for path in files:
        here = folder(path)
        program = PROGRAMS.get(path.split("/")[0])
        for mark, header in includes(path):
            there = folder(header)
            if mark == "<":
                name = next((lib for begin, lib in FOREIGN if header.startswith(begin)), None)
                if name and name not in (program[1] if program else libraries.get(here, set())):
                    wrong.append(f"{path}: includes <{header}>: mk/layers does not give {name} to {here}")
            elif program:
                if not header.startswith(program[0]):
                    wrong.append(f'{path}: includes "{header}", which is not for {here}')
            elif "/" not in header:
                wrong.append(f'{path}: includes "{header}": write the path from the root')
            elif there != here and there not in sees.get(here, set()):
                report("include", (here, there), f'{path}: includes "{header}": {here} may not see {there}', known, used)


def report(kind, key, words, known, used):
    if key in known[kind]:
        used[kind].add(key)
    else:
        wrong.append(words)


def load_symbols(sources, objects):
    """Of each source what it defines and what it needs, by nm."""
    paths = {os.path.join(objects, source[:-2] + ".o"): source for source in sources}
    for path, source in list(paths.items()):
        if not os.path.exists(path):
            wrong.append(f"{source}: was not compiled: there is no {path}")
            del paths[path]
    defines, needs = {}, collections.defaultdict(set)
    said = subprocess.run(["nm", "-A", "-g", *paths], check=True, capture_output=True, text=True).stdout if paths else ""
    for line in said.splitlines():
        path, _, rest = line.partition(":")
        *_, kind, name = rest.split()
        if not name.startswith("dlr_"):
            continue
        if kind == "U":
            needs[paths[path]].add(name)
        elif name in defines:
            wrong.append(f"{paths[path]}: {name} is defined in {defines[name]}, too")
        else:
            defines[name] = paths[path]
    return {source: {name: defines[name] for name in names if defines.get(name, source) != source}
            for source, names in needs.items()}


def check_calls(calls, sees, known, used):
    for source in sorted(calls):
        for name, other in sorted(calls[source].items()):
            here, there = folder(source), folder(other)
            if there != here and there not in sees.get(here, set()):
                report("call", (here, there), f"{source}: calls {name}() of {other}: {here} may not see {there}",
                       known, used)


def find_rings(calls):
    """Sets of files of which each reaches each other one (Tarjan's algorithm, without recursion)."""
    graph = {source: sorted(set(names.values())) for source, names in calls.items()}
    number, low, stack, rings = {}, {}, [], []
    for root in sorted(graph):
        if root in number:
            continue
        work = [(root, iter(graph.get(root, ())))]
        number[root] = low[root] = len(number)
        stack.append(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    ring = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    if len(ring) > 1:
                        rings.append(sorted(ring))
    return rings


def check_rings(rings, known, used):
    for ring in rings:
        strange = [path for path in ring if path not in known["ring"]]
        used["ring"].update(path for path in ring if path in known["ring"])
        if strange:
            wrong.append(f"in a ring of {len(ring)} files that reach each other: {' '.join(strange)}")


def check_sizes(files, known, used):
    count = collections.Counter(folder(path) for path in files)
    for place, number in sorted(count.items()):
        if number > FILES_MAX and place.split("/")[0] not in PROGRAMS:
            wrong.append(f"{place}: {number} files, at most {FILES_MAX}")
    for path in files:
        with open(path, encoding="utf8") as f:
            lines = sum(1 for _ in f)
        most = HEADER_MAX if path.endswith(".h") else SOURCE_MAX
        if lines > most and path != INSTALLED:
            report("long", path, f"{path}: {lines} lines, at most {most}", known, used)


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__.split("\n")[0])
    objects = os.path.abspath(sys.argv[1])
    os.chdir(sys.argv[2] if len(sys.argv) > 2 else os.path.join(folder(os.path.abspath(__file__)), "../.."))
    sees, libraries = load_table("mk/layers")
    known, used = load_known("mk/layers.known"), collections.defaultdict(set)
    files = sorted(find_files({name.split("/")[0] for name in sees}))
    places = {folder(path) for path in files}
    wrong.extend(f"{place}: has no line in mk/layers" for place in sorted(places - set(sees)))
    wrong.extend(f"mk/layers: there is no folder {name}" for name in sorted(set(sees) - places))
    check_includes(files + sorted(find_files(PROGRAMS)), sees, libraries, known, used)
    check_sizes(files, known, used)
    sources = [path for path in files if path.endswith(".c")]
    calls = load_symbols(sources, objects)
    check_calls(calls, sees, known, used)
    rings = find_rings(calls)
    check_rings(rings, known, used)
    for kind in known:
        for key in sorted(known[kind] - used[kind]):
            what = key if isinstance(key, str) else ": ".join(key)
            wrong.append(f"mk/layers.known: is true no longer: {kind} {what}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(rings)} rings in {len(sources)} files")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
