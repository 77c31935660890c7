"""The table of a dead leader, beside RocketMQ: figures of all kills, and what counts as failed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.harness.rows import Seen, Stored
from tests.peers import failover
from tests.peers.failover import CONTROLLER, OURS, Found, main, table


def seen(failed: int, gap_ms: int) -> Seen:
    return Seen("leader killed", 0, "Java 5.3.3", 100, failed, 0, None, gap_ms, 0, [], 1.5)


def test_table_has_medians_worsts_and_sums_of_all_kills() -> None:
    ours = Found([])
    for failed, gap_ms in ((0, 200), (0, 300), (6, 22_000)):
        ours.add([seen(failed, gap_ms)], Stored(100, 0, 1))
    line = table({(OURS, "Java 5.3.3"): ours}).splitlines()[2]
    assert line == "| ours | Java 5.3.3 | 3 | 0 | 6 | 0.30 s | 22.00 s | 300 | 0 | 3 |"


@pytest.mark.parametrize(
    ("subject", "lost", "code"), [(OURS, 0, 0), (OURS, 1, 1), (CONTROLLER, 1, 0)]
)
def test_only_a_loss_of_ours_fails(
    monkeypatch: pytest.MonkeyPatch, subject: str, lost: int, code: int
) -> None:
    def run(*_: Any) -> dict[tuple[str, str], Found]:
        return {(subject, "Java 5.3.3"): Found([seen(0, 200)], 100, lost)}

    monkeypatch.setattr(failover, "run", run)
    assert main(["kills=1"]) == code


def test_help_is_the_text_of_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "stays dead for 30 s" in capsys.readouterr().out
