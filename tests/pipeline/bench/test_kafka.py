"""`dledger bench spark-kafka` in small, where the peer's parts are or may be fetched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.bench.everything import rows
from pipeline.bench.kafka import installation
from pipeline.bench.kafka.command import run
from pipeline.bench.kafka.installation import Kafka, KafkaMissing
from pipeline.bench.kafka.side_by_side import QUEUES, Options

READERS = {"kafka", "three"}
WRITERS = READERS | {"three_at_least_once", "three_in_memory"}


@pytest.fixture
def kafka() -> Kafka:
    """A gigabyte to fetch: in CI, and when somebody asked for that, or did before."""
    found = installation.find()
    asked = os.environ.get("CI") == "true" or os.environ.get("DLEDGER_KAFKA_INSTALL")
    if found is None and not asked:
        pytest.skip("not here: .tools/kafka, which `dledger bench spark-kafka` makes")
    try:
        return found or installation.install()
    except KafkaMissing as error:
        pytest.skip(f"not here: {error}")


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)  # the first time it fetches a gigabyte
def test_both_read_and_write_the_same_messages(kafka: Kafka, tmp_path: Path) -> None:
    found = run(Options(rows=4000, written=2000, repeats=1, folder=str(tmp_path)), kafka)
    for what, names in (("read", READERS), ("write", WRITERS)):
        assert set(found[what]) == set(found["ratios"][what]) == names
        assert all(row["rows_per_s_best"] > 0 for row in found[what].values())
        assert found[what]["kafka"]["ratio_to_kafka"] == 1.0
        assert all(sum(parts.values()) > 0 for parts in found["cpu_us_a_row"][what].values())
    assert found["kafka_replicas_in_sync"] == [3] * QUEUES
    assert {"read_met", "write_met"} < set(found["bars"])
    assert len(rows("spark-kafka", found)) == 6
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_what_cannot_be_fetched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "HOME", tmp_path / "kafka")
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    assert installation.find() is None
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(KafkaMissing, match="java is not on the path"):
        installation.install()
    program = tmp_path / "mvn"
    program.write_text("#!/bin/sh\necho 'Unknown host'; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: "here")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(KafkaMissing, match=r"is its index in reach.*Unknown host"):
        installation.install()
    assert installation.find() is None, "what was made in part does not count"
