"""What Spark needs, missing or of a wrong version: one sentence, before Spark is asked."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pipeline.requirements import SparkMissing, check_java, check_packages

GOOD = {"pyspark": "4.3.0", "pyarrow": "26.0.1", "pandas": "2.3.3"}


def _versions(**other: str | None) -> Callable[[str], str]:
    def version_of(name: str) -> str:
        found = {**GOOD, **other}[name]
        if found is None:
            raise PackageNotFoundError(name)
        return found

    return version_of


def test_versions_that_work() -> None:
    check_packages(_versions())
    check_packages(_versions(pyspark="4.2.0.dev1", pandas="2.2.0rc1"))


def test_jobs_need_arrow_alone() -> None:
    check_packages(_versions(pyspark=None), names=("pyarrow",))
    with pytest.raises(SparkMissing, match="pyarrow is not installed; the pipeline needs it: pip"):
        check_packages(_versions(pyarrow=None), names=("pyarrow",))


@pytest.mark.parametrize(
    ("name", "version", "what"),
    [
        ("pandas", "3.0.1", "pandas 3.0.1 does not work here: it must be 2.2 at least and below 3"),
        ("pyspark", "4.1.4", "pyspark 4.1.4 does not work here: it must be 4.2 at least and below"),
        ("pyspark", "5.0.0", "pyspark 5.0.0 does not work"),
        ("pyarrow", "17.0.0", "pyarrow 17.0.0 does not work here: it must be 18.0 at least; pip"),
        ("pyarrow", None, "pyarrow is not installed"),
    ],
)
def test_a_version_that_does_not_work_is_named(name: str, version: str | None, what: str) -> None:
    with pytest.raises(SparkMissing, match=what) as caught:
        check_packages(_versions(**{name: version}))
    assert "pip install 'dledger[spark]'" in str(caught.value)


def _java(folder: Path, script: str) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="no java is on PATH; Spark needs Java 17"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=r"JAVA_HOME is .*, and there is no bin/java in it"):
        check_java()


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019' >&2", "is Java 11; Spark needs 17"),
        ("echo 'java version \"1.8.0_392\"' >&2", "is Java 8; Spark needs 17"),
        ("echo nonsense", "'nonsense'; is it a Java"),
        ("exit 3", "is it a Java"),
    ],
)
def test_a_java_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str
) -> None:
    _java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=what):
        check_java()


def test_a_java_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java(tmp_path, "echo 'openjdk version \"21.0.1\" 2023' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()
