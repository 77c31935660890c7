"""No test waits for time: see tests/waiting.py. What is left is counted in waits.toml."""

from __future__ import annotations

import tomllib

import pytest

from .source_tree import ROOT
from .waits import found_in, offences


def test_waits_for_time_are_those_in_the_list() -> None:
    """The list is a ratchet: a file's number may shrink, and each has its reason."""
    listed = tomllib.loads((ROOT / "tests/architecture/waits.toml").read_text(encoding="utf-8"))
    allowed = listed["waits"]
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (wrong := offences(path))
    }
    more = [
        f"{name}:{one}"
        for name, wrong in found.items()
        if len(wrong) > allowed.get(name, {}).get("count", 0)
        for one in wrong
    ]
    assert not more, "wait for a condition, as tests/waiting.py does:\n" + "\n".join(more)
    fewer = {
        name: len(found.get(name, ()))
        for name, entry in allowed.items()
        if len(found.get(name, ())) < entry["count"]
    }
    assert not fewer, f"the list says more than there are, mend waits.toml: {fewer}"
    assert all(entry["reason"] for entry in allowed.values())
    assert sum(entry["count"] for entry in allowed.values()) <= listed["count_max"]


@pytest.mark.parametrize(
    "line",
    [
        "import time; time.sleep(1)",
        "from time import sleep as rest; rest(1)",
        "import asyncio; asyncio.sleep(0.1)",
        "asyncio.wait_for(future, 5)",
        "asyncio.wait_for(future, timeout=5)",
        "asyncio.timeout(SECONDS)",
        "asyncio.wait(tasks, timeout=0.5)",
        "subprocess.run(command, timeout=60)",
        "socket.settimeout(2)",
        "thread.join(5)",
        "event.wait(1.5)",
        "assert time.monotonic() - begun < 2",
        "def test() -> None:\n  end = time.monotonic() + 5\n  while more() and later < end: pass",
        "def test() -> None:\n  if asyncio.get_running_loop().time() > 5: pass",
    ],
)
def test_a_wait_for_time_is_found(line: str) -> None:
    assert len(found_in(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.sleep(0)",
        "asyncio.wait_for(future, limit(5))",
        "subprocess.run(command, timeout=waiting.limit(60))",
        "END = limit(5)\nsubprocess.run(command, timeout=END)",
        "socket.settimeout(None)",
        "thread.join()",
        "', '.join(names)",
        "pytest.mark.timeout(90)",
        "now = time.time()",
        "@pytest.mark.long\ndef test() -> None: time.sleep(1)",
        "pytestmark = pytest.mark.virtual_time\nasync def test() -> None: asyncio.sleep(1)",
        "pytestmark = [pytest.mark.long, pytest.mark.alone]\ntime.sleep(1)",
    ],
)
def test_a_wait_for_a_condition_is_not_found(line: str) -> None:
    assert not found_in(line)
