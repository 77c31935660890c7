"""Print the quickest interpreter of the version that runs this, for scripts/_env.

    python3.11 scripts/quickest_python.py        a path

A build of CPython that was not optimised by a profile takes 1.1 to 1.3 times as long, and a machine
often has both: one that a version manager compiled stands first on the path, and the system's own
stands behind it. A build does not always say how it was made (Debian's does not), so each runs a
loop of calls, objects and dictionaries. The first one on the path stays unless another takes a
twentieth less, so that noise decides nothing. An interpreter that cannot make environments by
itself (Debian's without python3-venv) is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

#: Folders that are looked into behind those of the path.
FOLDERS = ("/usr/local/bin", "/usr/bin")
#: What another must stay below, as a part of the time of the first.
QUICKER_MAX = 0.95
ROUNDS = 2
ASK_SECONDS_MAX = 60.0
# Prints where it is and processor seconds, the least of some; fails when it lacks ensurepip.
MEASURE = """
import ensurepip, sys, time, venv

class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right
    def sum(self):
        return self.left + self.right

def work():
    found = {}
    for number in range(20_000):
        found[number % 997] = found.get(number % 997, 0) + Pair(number, 1).sum() + len(str(number))

def seconds():
    begun = time.process_time()
    work()
    return time.process_time() - begun

work()
print(min(seconds() for _ in range(5)), sys.version_info[:2] == VERSION, sys.executable)
"""
Found = tuple[float, str]


def measured(path: str) -> Found | None:
    """Seconds and the path that the interpreter itself gives; None if it is none for us."""
    code = MEASURE.replace("VERSION", repr(tuple(sys.version_info[:2])))
    try:
        done = subprocess.run(
            [path, "-I", "-c", code], capture_output=True, text=True, timeout=ASK_SECONDS_MAX
        )
    except (OSError, subprocess.SubprocessError):
        return None
    seconds, _, rest = done.stdout.strip().partition(" ")
    is_same, _, where = rest.partition(" ")
    return (float(seconds), where) if is_same == "True" and where else None


def candidates(environment: Mapping[str, str]) -> Iterator[str]:
    """Of this version, in the order of the path, each file once; this interpreter is the first."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    yield sys.executable
    known = {os.path.realpath(sys.executable)}
    for folder in (*environment.get("PATH", "").split(os.pathsep), *FOLDERS):
        path = Path(folder or ".", name)
        real = os.path.realpath(path)
        if real not in known and os.access(path, os.X_OK):
            known.add(real)
            yield str(path)


def quickest(paths: list[str], ask: Callable[[str], Found | None] = measured) -> str:
    """Of `paths`; the first one unless another is quicker by more than noise."""
    if len(paths) < 2:
        return paths[0]
    best: dict[str, Found] = {}
    for _ in range(ROUNDS):  # by turns: what else the machine does meets all of them
        for path in paths:
            if (found := ask(path)) is not None:
                best[path] = min(found, best.get(path, found))
    if not best:
        return paths[0]
    seconds, where = min(best.values())
    first = best.get(paths[0])
    return where if first is None or seconds <= QUICKER_MAX * first[0] else paths[0]


if __name__ == "__main__":
    print(quickest(list(candidates(os.environ))))
