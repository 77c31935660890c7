"""The peer's parts, made once below .tools/kafka (about 1 GB, one to three minutes):

    .tools/kafka/venv         this package with the pyspark that Kafka's connector was built for
    .tools/kafka/broker       jars of a Kafka broker       (broker.xml)
    .tools/kafka/connector    jars of the connector        (connector.xml)
    .tools/kafka/stamp        what they were made from
    .tools/cache/m2           what Maven downloaded

Maven and pip use their own settings for where packages come from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / ".tools" / "kafka"
PYSPARK = "pyspark==4.2.0"
POMS = {name: Path(__file__).parent / f"{name}.xml" for name in ("broker", "connector")}
STEP_SECONDS_MAX = 600.0  # Spark alone is 450 MB


class KafkaMissing(Exception):
    """The peer cannot be had here; the sentence says why."""


class Kafka(NamedTuple):
    """Where the parts are."""

    python: Path
    broker: Path
    connector: Path


PARTS = Kafka(HOME / "venv" / "bin" / "python", HOME / "broker", HOME / "connector")


def find() -> Kafka | None:
    """The parts, when they are there and up to date."""
    stamp = HOME / "stamp"
    return PARTS if stamp.exists() and stamp.read_text() == _wanted() else None


def install() -> Kafka:
    """The parts, made when they are not there. Raises KafkaMissing."""
    if (found := find()) is not None:
        return found
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaMissing(f"{program} is not on the path; Kafka's parts come through Maven")
    (HOME / "stamp").unlink(missing_ok=True)
    for name, pom in POMS.items():
        shutil.rmtree(HOME / name, ignore_errors=True)
        _copy_jars(pom, HOME / name)
    shutil.rmtree(HOME / "venv", ignore_errors=True)
    for step in _python_steps():
        _run(step)
    (HOME / "stamp").write_text(_wanted())
    return PARTS


def _wanted() -> str:
    return "\n".join([PYSPARK, *(pom.read_text(encoding="utf-8") for pom in POMS.values())])


def _copy_jars(pom: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    _run(
        [
            *("mvn", "-q", "-B", "-ntp", "-f", str(pom), "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
            f"-Dmaven.repo.local={ROOT / '.tools' / 'cache' / 'm2'}",
        ]
    )


def _python_steps() -> Sequence[Sequence[str]]:
    """With uv, which builds pyspark once for all environments, or with pip."""
    ours = ROOT / ".tools" / "uv" / "bin" / "uv"
    uv = shutil.which("uv") or (str(ours) if ours.exists() else None)
    parts = [PYSPARK, "-e", f"{ROOT}[server,spark]"]
    python = str(PARTS.python)
    if uv is not None and not os.environ.get("DLEDGER_NO_UV"):
        return (
            [uv, "venv", "-q", "--python", sys.executable, str(HOME / "venv")],
            [uv, "pip", "install", "-q", "--python", python, *parts],
        )
    return (
        [sys.executable, "-m", "venv", str(HOME / "venv")],
        [python, "-m", "pip", "install", "-q", *parts],
    )


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=STEP_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KafkaMissing(f"{' '.join(command[:3])} did not end: {error}") from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-500:]
        raise KafkaMissing(f"`{' '.join(command[:6])} …` failed; is its index in reach? {said}")
