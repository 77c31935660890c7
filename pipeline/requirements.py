"""Checks that Spark's requirements are installed, in versions that work, and says so in one
sentence. Spark itself answers with a stack trace (no Java), a warning (pandas 3) or silence
(workers without Arrow; docs/spec/pipeline.md 2.6).

    check_packages    pyspark ≥ 4.2, < 5 · pyarrow ≥ 18 · pandas ≥ 2.2, < 3
    check_arrow       pyarrow alone: jobs and frames without Spark
    check_java        17 or newer, by JAVA_HOME or PATH
    local_session     a session of this process, with this Python for its workers, that starts on a
                      crowded machine, too
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.connect_first import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_SECONDS_MAX = 20.0  # for `java -version`, on a machine that swaps
#: Settings of each session of ours. Workers that run while a query is planned, and collect(), wait
#: for their other side as long as this; 15 s are too few where many interpreters start at once.
PATIENCE: Mapping[str, str] = {"spark.python.authenticate.socketTimeout": "120s"}
INSTALL = "pip install 'dledger[spark]'"
#: package → first version that works, first one that does not
PACKAGES: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "pyspark": ((4, 2), (5, 0)),
    "pyarrow": ((18, 0), (1000, 0)),
    "pandas": ((2, 2), (3, 0)),
}


class SparkMissing(ImportError):
    """A requirement of Spark is missing, too old or too new; the message names it."""


def check_packages(
    version_of: Callable[[str], str] = version, names: Iterable[str] = tuple(PACKAGES)
) -> None:
    """Raises SparkMissing."""
    for name in names:
        first, end = PACKAGES[name]
        try:
            found = version_of(name)
        except PackageNotFoundError:
            if name == "pyspark" and _is_here("pyspark"):
                continue  # on a cluster it comes with Spark, without metadata
            text = f"{name} is not installed; the pipeline needs it: {INSTALL}"
            raise SparkMissing(text) from None
        numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
        if not first <= numbers < end:
            raise SparkMissing(
                f"{name} {found} does not work here: it must be {_text(first)} at least"
                + (f" and below {_text(end)}" if end[0] < 1000 else "")
                + f"; {INSTALL}"
            )


def check_arrow() -> None:
    """Checks the requirements of the jobs that run without Spark. Raises SparkMissing."""
    check_packages(names=("pyarrow",))


def _is_here(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def _text(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


def check_java() -> None:
    """Raises SparkMissing."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        where = (
            f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "no java is on PATH"
        )
        raise SparkMissing(f"{where}; Spark needs Java {JAVA_MIN} or newer: install it")
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissing(f"{program} cannot be run: {error}") from None
    said = done.stderr + done.stdout
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None or done.returncode:
        raise SparkMissing(f"{program} -version says {said.strip()[:200]!r}; is it a Java?")
    if int(match[1]) < JAVA_MIN:
        raise SparkMissing(
            f"{program} is Java {match[1]}; Spark needs {JAVA_MIN} or newer: set JAVA_HOME to one"
        )


@contextmanager
def local_session(
    name: str, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session with our sources registered; one that runs already is used, and goes on.

    Raises SparkMissing.
    """
    check_packages()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())  # else workers take another Python
    from pyspark.sql import SparkSession

    import pipeline

    theirs = SparkSession.getActiveSession()
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {"spark.ui.enabled": "false", **PATIENCE, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        pipeline.register(spark)
        yield spark
    finally:
        if theirs is None:
            spark.stop()
