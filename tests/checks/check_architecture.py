#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/checks/check_architecture.py [ROOT]

Whether the picture in docs/architecture.md shows the folders of mk/layers and who sees whom there, both ways. Lines of
the picture (those that are indented), the highest first:

    BLOCK/ -> TOP... | WORDS      a block: what its folders see outside it; without an arrow when it is only a heading
      FOLDER -> FOLDER... | WORDS

A name without its block's, as in "base" below ckpt/, is one of the block. An arrow of the picture is one of mk/layers and
points down; what its end sees is seen with it, so that each arrow of mk/layers is a way down the picture. The files that
the page names are there. One line for each thing that is wrong, and exit status 1.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from check_layers import load_table, wrong

PAGE = "docs/architecture.md"


def load_picture(text, sees):
    """Of each folder its arrows, of each block its arrows: in the order of the picture."""
    folders, blocks, block = {}, {}, ""

    def full(name):
        return block + name if block + name in sees else name

    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if indent < 4:
            continue
        what, _, arrows = line.partition("|")[0].partition("->")
        name, words = what.strip(), arrows.split()
        if indent == 4:
            block = name if name.endswith("/") else ""
            blocks[name] = set(words)
        else:
            folders[full(name)] = [full(word) for word in words]
    return folders, blocks


def reach(folder, arrows):
    found, work = set(), [folder]
    while work:
        for other in arrows.get(work.pop(), ()):
            if other not in found:
                found.add(other)
                work.append(other)
    return found


def compare_folders(picture, sees):
    wrong.extend(f"{PAGE}: the picture has no folder {name}" for name in sees if name not in picture)
    order = list(picture)
    for at, name in enumerate(order):
        if name not in sees:
            wrong.append(f"{PAGE}: mk/layers has no folder {name}")
            continue
        for other in picture[name]:
            if other not in sees[name]:
                wrong.append(f"{PAGE}: {name} -> {other} is no arrow of mk/layers")
            elif other not in order[at + 1:]:
                wrong.append(f"{PAGE}: {name} -> {other} does not point down")
        for other in sorted(sees[name] - reach(name, picture)):
            wrong.append(f"{PAGE}: the picture has no way from {name} to {other}, which mk/layers lets it see")


def compare_blocks(blocks, sees):
    for block, shown in blocks.items():
        if block.endswith("/"):
            tops = {other.split("/")[0] + "/" for name in sees if f"{name}/".startswith(block) for other in sees[name]}
            tops.discard(block)
            if tops != shown:
                wrong.append(f"{PAGE}: {block} sees {' '.join(sorted(tops))}, the picture says {' '.join(sorted(shown))}")


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    sees, _ = load_table("mk/layers")
    with open(PAGE, encoding="utf8") as f:
        text = f.read()
    picture, blocks = load_picture(text, sees)
    compare_folders(picture, sees)
    compare_blocks(blocks, sees)
    for path in sorted(set(re.findall(r"`([\w/.-]+/[\w.-]+\.(?:[ch]|py|bats|mk|tsv))`", text))):
        if not os.path.exists(path):
            wrong.append(f"{PAGE}: there is no file {path}")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
