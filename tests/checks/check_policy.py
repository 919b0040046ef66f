#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/checks/check_policy.py [--write]

Whether the table of docs/policy.md, of which dlrover(7) is made, is that of mpi_launcher/policy/rules.c: one row for
each rule. --write makes it so. Exit status 1 when it is not.
"""
import difflib
import re
import sys

RULES, PAGE = "mpi_launcher/policy/rules.c", "docs/policy.md"
BEGIN, END = "<!-- table: rules -->\n", "<!-- end of table -->"
PLAIN = {"always": "", "nothing": "", "same": ""}  # said by an empty cell


def words(name):
    name = name.strip().lower().replace("_", " ")
    return PLAIN.get(name, name)


def rows():
    source = open(RULES).read()
    rules = re.findall(r"^    R\(([^()]*)\),$", source, re.M)
    lines = len(re.findall(r"^ *R\(", source, re.M))
    if not rules or lines != len(rules):
        sys.exit(f"{RULES}: of {lines} rules {len(rules)} can be read")
    yield "| state | event | if | do | next |"
    yield "|---|---|---|---|---|"
    for rule in rules:
        states, *rest = rule.split(",")
        yield f"| {states.strip().lower().replace(' |', ',')} | " + " | ".join(words(w) for w in rest) + " |"


def main():
    old = open(PAGE).read()
    head, found, rest = old.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        sys.exit(f"{PAGE}: has no place for the table")
    new = head + BEGIN + "\n".join(rows()) + "\n" + END + tail
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w") as f:
            f.write(new)
        return 0
    sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), PAGE, RULES, n=0))
    if old != new:
        print(f"{PAGE} does not show the rules: tests/checks/check_policy.py --write", file=sys.stderr)
    return old != new


if __name__ == "__main__":
    sys.exit(main())
