"""Every kind of fault, once, on one running cluster: each is seen to take effect, nothing is lost.

The cluster runs once for all of these tests; a kind that this machine cannot have is skipped with
its reason, as `dledger chaos faults` says it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.checkers.verdict import Word
from chaos.drivers import versions
from chaos.drivers.probe import FAULTS, availability
from chaos.faults import KINDS
from chaos.live.run import Ran, make_plan, run
from chaos.live.settings import RunSettings
from chaos.workloads import Workload
from tests.integration.former import COMMIT as FORMER_COMMIT

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]
SAFE = [kind.name for kind in KINDS if kind.safe]
PACKAGES = ("commitlog", "dledger", "cluster", "chaos")
LOAD = Workload(queues=3, producers=5, keyed=2, readers=1, registers=1, rate=120.0, asks=6.0)


def _older_release(folder: Path) -> bool:
    """The packages of FORMER_COMMIT; False where git does not have it, as in a shallow clone."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", FORMER_COMMIT, *PACKAGES], capture_output=True
    )
    if archive.returncode == 0:
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return archive.returncode == 0


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    root: Path = tmp_path_factory.mktemp("kinds")
    other = tmp_path_factory.mktemp("release")
    if versions.VARIABLE not in os.environ and _older_release(other):
        os.environ[versions.VARIABLE] = str(other)
    settings = RunSettings(workload=LOAD, gap_seconds_max=20.0)
    try:
        yield asyncio.run(run(make_plan(settings, 11, each=True), root))
    finally:
        if os.environ.get(versions.VARIABLE) == str(other):
            del os.environ[versions.VARIABLE]


@pytest.mark.parametrize("kind", SAFE)
def test_a_fault_takes_effect_and_its_node_comes_back(ran: Ran, kind: str) -> None:
    if kind == "version-skew" and availability()[kind]:
        pytest.skip(
            f"not here: an older release: git history with {FORMER_COMMIT} or {versions.VARIABLE}"
        )
    if reason := availability()[kind]:
        pytest.skip(f"not here: {reason}")
    (one,) = [one for one in ran.evidence.happened if one.planned.kind == kind]
    assert one.seen, one.error
    assert not one.error
    assert one.nodes
    assert one.recovery < 30


def test_nothing_was_lost_doubled_or_reordered(ran: Ran) -> None:
    verdict = ran.judgement.verdict
    assert verdict.anomalies == ()
    assert ran.judgement.word is Word.VALID
    assert verdict.acked > 500
    kinds = {op.kind.value for op in ran.evidence.history}
    assert kinds == {"append", "read", "poll", "commit", "fetch"}


def test_every_kind_has_a_driver_or_a_reason() -> None:
    found = availability()
    assert set(found) == {kind.name for kind in KINDS}
    assert set(found) <= set(FAULTS)
    assert all(reason.startswith("needs ") for reason in found.values() if reason)
