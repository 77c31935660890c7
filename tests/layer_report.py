"""Leave what came of a run of tests where `scripts/test` finds it ($DLEDGER_COUNTS).

    {"passed": 5, "skipped": 1, "failures": [{"test", "said", "text", "safety"}, …]}

`safety` says that the failure is a verdict, which is never tried again: the test is marked `safety`
or lies in a folder whose subject is safety, or the failure itself tells of messages that were lost,
doubled or reordered, of replicas that differ, or of a broken rule.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

# So that the last page of a long output still tells every failure.
SAID_CHARACTERS_MAX, TEXT_CHARACTERS_MAX = 300, 100_000
#: Simulated clusters and the core: no real time is in them, so every failure there is a finding.
SAFETY_FOLDERS = (
    "tests/chaos/checkers/",
    "tests/chaos/sim/",
    "tests/dledger/core/",
    "tests/paper/",
    "tests/scenarios/",
)
_VERDICT = re.compile(
    r"(?<!connection )(?<!connection was )\blost\b"
    r"|\b(doubled|reordered|diverg\w*|violat\w*)\b|SafetyViolation",
    re.IGNORECASE,
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "safety: a failure is a verdict and is never tried again")


def is_verdict(nodeid: str, markers: frozenset[str], said: str) -> bool:
    """Is the failure one about safety?"""
    return (
        "safety" in markers
        or nodeid.startswith(SAFETY_FOLDERS)
        or _VERDICT.search(said) is not None
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write the report; the workers of xdist have none of their own."""
    target = os.environ.get("DLEDGER_COUNTS")
    if not target or hasattr(terminalreporter.config, "workerinput"):
        return
    stats = terminalreporter.stats
    bad = [*stats.get("failed", ()), *stats.get("error", ())]
    report = {
        "passed": len(stats.get("passed", ())) + len(stats.get("xpassed", ())),
        "skipped": len(stats.get("skipped", ())) + len(stats.get("xfailed", ())),
        "failures": list({one.nodeid: _failure(one) for one in bad}.values()),
    }
    Path(target).write_text(json.dumps(report))


def _failure(report: Any) -> dict[str, Any]:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr)
    sections = "".join(f"\n-- {title}\n{text}" for title, text in report.sections)
    keywords = frozenset(getattr(report, "keywords", ()))
    return {
        "test": report.nodeid,
        "said": " ".join(said.split())[:SAID_CHARACTERS_MAX],
        "text": (str(report.longrepr) + sections)[:TEXT_CHARACTERS_MAX],
        "safety": is_verdict(report.nodeid, keywords, said),
    }
