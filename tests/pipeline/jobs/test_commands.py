"""`dledger pipeline …`: each job by its command, with its exit code."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from chaos.history import Kind, Operation, Outcome
from cluster.client import blocking
from cluster.commands.errors import USAGE, exit_code_of, is_expected
from cluster.local.launcher import LocalCluster
from pipeline import requirements
from pipeline.cli import commands
from pipeline.jobs.commands import pipeline
from pipeline.jobs.manifest import ArchiveError
from pipeline.options import OptionError
from tests.waiting import limit

from .stores import DLEDGER, THREE, put


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(pipeline, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def run_json(*words: object, code: int = 0) -> Any:
    return json.loads(run(*words, "-o", "json", code=code))


def test_the_group_is_a_command() -> None:
    assert commands["pipeline"].target == "pipeline.jobs.commands:pipeline"
    assert set(pipeline.commands) == {
        "archive", "verify", "compact", "audit", "rebuild", "backlog", "convert", "history",
        "replay",
    }  # fmt: skip


def test_archive_verify_replay(local_cluster: LocalCluster, tmp_path: Path) -> None:
    put(tmp_path / "store", range(40))
    assert run_json("archive", tmp_path / "store", tmp_path / "a", "--jobs", 2)["rows"] == 40
    assert "0 rows" in run("archive", tmp_path / "store", tmp_path / "a")
    assert "40 rows, every queue whole" in run("verify", tmp_path / "a")
    assert run_json("compact", tmp_path / "a", tmp_path / "c")["rows"] == 40
    assert "40 rows, every queue whole" in run("verify", tmp_path / "c")
    topic = f"commands-{uuid.uuid4().hex[:8]}"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(topic, 3)
    where = ("--servers", local_cluster.nameserver, "--topic", topic)
    assert run_json("replay", tmp_path / "a", "odd", *where) == {"rows": 20}
    assert run_json("replay", tmp_path / "a", "odd", *where) == {"rows": 20}, "each once"
    assert "20 rows of odd" in run("replay", tmp_path / "a", "odd", "--by-key", *where)
    with blocking.connect(local_cluster.nameserver) as mq:
        assert mq.admin().describe_topic(topic).message_count == 40, "by key is another replay"


def test_what_is_no_archive_is_not_called_whole(tmp_path: Path) -> None:
    where = ("--servers", "127.0.0.1:9", "--topic", "t")
    for words in (["verify", tmp_path], ["replay", tmp_path, "t", *where]):
        with pytest.raises(ArchiveError, match="is no archive; give the ROOT") as refused:
            run(*words)
        assert is_expected(refused.value)


def test_a_bad_option_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="write host:port") as refused:
        run("replay", tmp_path, "t", "--servers", "nowhere", "--topic", "t")
    assert (is_expected(refused.value), exit_code_of(refused.value)) == (True, USAGE)


def test_audit(tmp_path: Path) -> None:
    assert "all equal" in run("audit", *THREE)
    shutil.copytree(DLEDGER, tmp_path / "n1")
    log = min((tmp_path / "n1").glob("dledger-*/data/0*"))
    data = bytearray(log.read_bytes())
    data[60] ^= 1
    log.write_bytes(data)
    found = run_json("audit", DLEDGER, tmp_path / "n1", code=1)
    assert found["differences"][0]["index"] == 0


def test_rebuild(tmp_path: Path) -> None:
    sizes = ("--queue-file-size", 400, "--index-slots", 64, "--index-entries", 40)
    text = run("rebuild", DLEDGER, tmp_path / "new", *sizes, "--compare")
    assert "byte for byte" in text
    wrong = run_json("rebuild", DLEDGER, tmp_path / "other", "--compare", code=1)
    assert wrong["differences"]


def test_backlog(local_cluster: LocalCluster, tmp_path: Path) -> None:
    topic = f"backlog-{uuid.uuid4().hex[:8]}"
    with blocking.connect(local_cluster.nameserver) as mq:
        mq.admin().create_topic(topic, 1)
    where = ("--servers", local_cluster.nameserver, "--topic", topic)
    found = run_json("backlog", DLEDGER, "--page", tmp_path / "page.html", *where)
    assert "<svg" in (tmp_path / "page.html").read_text()
    with blocking.connect(local_cluster.nameserver) as mq, mq.reader(topic) as reader:
        rows = [json.loads(reader.receive(limit(30)).body) for _ in found["rows"]]  # type: ignore[union-attr]
    assert rows == found["rows"]
    assert "unread" in run("backlog", DLEDGER)
    assert "--servers is not; give both" in run("backlog", DLEDGER, "--topic", topic, code=2)


def test_history(tmp_path: Path) -> None:
    ops = [
        Operation("p", Kind.APPEND, f"v{n}", n, n + 0.5, Outcome.OK, n % 4, "q") for n in range(5)
    ]
    (tmp_path / "history.jsonl").write_text("".join(op.to_json() + "\n" for op in ops))
    assert "5 operations" in run("convert", tmp_path / "history.jsonl", tmp_path / "h")
    found = run_json("history", tmp_path / "h", code=1)
    assert set(found["names"]) == {"inconsistent-offsets", "nonmonotonic-send"}
    assert (found["lost"], found["reordered"]) == (1, 1)


def test_arrow_is_asked_for_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise requirements.SparkMissing("pyarrow is not installed")

    monkeypatch.setattr(requirements, "check_arrow", missing)
    with pytest.raises(requirements.SparkMissing, match="pyarrow") as refused:
        run("verify", tmp_path)
    assert is_expected(refused.value)


def test_spark_is_asked_for_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise requirements.SparkMissing("no Java is here")

    monkeypatch.setattr(requirements, "local_session", missing)
    put(tmp_path / "store", range(2))
    text = run("archive", tmp_path / "store", tmp_path / "a", "--master", "local[1]", code=1)
    assert "no Java is here" in text
