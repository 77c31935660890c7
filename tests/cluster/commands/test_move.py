"""`dledger import` and `dledger export` as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from cluster.cli import dledger
from cluster.local.launcher import LocalCluster

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
STORE = GOLDEN / "dledger" / "dledger-broker" / "store"


def _run(*arguments: str, nameserver: str = "") -> tuple[int, str, str]:
    result = CliRunner(env={"NAMESRV_ADDR": nameserver}).invoke(dledger, list(arguments))
    said = str(result.exception) if result.exception else ""
    return result.exit_code, result.stdout, result.stderr + said


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "c"
    code, out, err = _run("import", str(STORE), "--root", str(root), "-o", "json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["messages"], row["entries"], row["written"]) == (211, 211, 0)
    assert "nothing was written" in err
    assert not root.exists()


def test_import_run_consume_export(tmp_path: Path) -> None:
    root, out = tmp_path / "c", tmp_path / "out"
    code, _, err = _run("import", str(STORE), "--root", str(root), "-n", "1", "--any-port", "--yes")
    assert code == 0, err
    cluster = LocalCluster(root, tied=True)
    try:
        cluster.up()
        code, said, err = _run(
            *("consume", "GoldA", "-n", "5", "-o", "jsonl"), nameserver=cluster.nameserver
        )
        assert code == 0, err
        assert len(said.splitlines()) == 5
    finally:
        cluster.down()
    data = str(root / "n0" / "data")
    size = ("--commit-log-file-size", str(8 << 20))
    code, said, _ = _run("export", data, str(out), *size, "-o", "json")
    assert (code, json.loads(said)[0]["written"], out.exists()) == (0, 0, False)
    code, said, err = _run("export", data, str(out), *size, "--yes", "-o", "json")
    assert code == 0, err
    # Three messages of level 18 (two hours) were not delivered yet when the source was stopped. Two
    # transactions are as old as the source; a broker that runs for some seconds gives them up, each
    # with a copy in TRANS_CHECK_MAX_TIME_TOPIC.
    assert json.loads(said)[0]["written"] - (211 + 3) in (0, 1, 2)
    code, _, err = _run("export", data, str(out), *size)
    assert code != 0
    assert "not empty" in err


def test_a_cluster_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    root = tmp_path / "c"
    options = ("--root", str(root), "-n", "1", "--any-port", "--yes")
    assert _run("import", str(STORE), *options)[0] == 0
    code, _, err = _run("import", str(STORE), *options)
    assert code == 2
    assert "has a cluster already" in err


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "c"
    shutil.copytree(GOLDEN / "java-store" / "normal", store)
    log = min((store / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[5000] ^= 0xFF
    log.write_bytes(data)
    code, _, err = _run("import", str(store), "--root", str(root), "--yes")
    assert code == 1
    assert "is damaged in" in err
    assert "position" in err
    assert not root.exists()
