# SPDX-License-Identifier: Apache-2.0
"""What the demo writes to the terminal: lines that stay, and below them one that is redrawn."""
import os
import shutil
import sys
import time

LINE_EVERY_S = 5  # where nothing can be redrawn
BAR = 20

COLOURS = {"bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "36"}


def width():
    return shutil.get_terminal_size((80, 24)).columns


class Screen:
    def __init__(self, started):
        self.started = started
        self.tty = sys.stdout.isatty()
        self.colour = self.tty and not os.environ.get("NO_COLOR")
        self.drawn = False
        self.drawn_at = 0.0

    def paint(self, text, *names):
        if not self.colour or not names:
            return text
        return f"\x1b[{';'.join(COLOURS[n] for n in names)}m{text}\x1b[0m"

    def clear(self):
        if self.drawn:
            sys.stdout.write("\r\x1b[K")
            self.drawn = False

    def line(self, text="", *colours):
        self.clear()
        print(self.paint(text, *colours), flush=True)

    def since(self, at=None):
        return (at or time.time()) - self.started

    def say(self, what, text, *colours, at=None):
        """As say() of scripts/demo: seconds since the start, what, text."""
        self.line(f"{self.since(at):6.1f} s  " + self.paint(f"{what:<9} {text}", *colours))

    def after(self, seconds, text, *colours):
        """A moment after the kill, its seconds counted from there."""
        self.line(" " * 10 + f"{seconds:+7.2f} s  " + self.paint(text, *colours))

    def progress(self, what, done, total, text, force=False):
        """The line at the bottom; where it cannot be redrawn one every few seconds."""
        now = time.monotonic()
        if not self.tty and not force and now - self.drawn_at < LINE_EVERY_S:
            return
        self.drawn_at = now
        filled = BAR * done // total if total else 0
        line = (f"{self.since():6.1f} s  {what:<9} [{'#' * filled}{'.' * (BAR - filled)}] "
                f"{done:>{len(str(total))}}/{total}  {text}")
        if not self.tty:
            print(line, flush=True)
            return
        sys.stdout.write("\r" + line[:width() - 1] + "\x1b[K")
        sys.stdout.flush()
        self.drawn = True

    def keep(self):
        """What is on the bottom line stays, and goes up."""
        if self.drawn:
            print(flush=True)
            self.drawn = False


def table(rows, gap=3):
    """Rows of words as lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [(" " * gap).join(word.ljust(w) for word, w in zip(row, widths)).rstrip()
            for row in rows]
