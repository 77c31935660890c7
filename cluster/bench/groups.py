"""`dledger bench groups`: many idle groups on three hosts, one process each (dledger.Host).

    parent ── spawns ──► host process × 3, which opens every group
           ── "cost" ──► processor time, waits of the event loop, memory, threads and
                         descriptors of each
           ── "load" ──► the leader of one group keeps `window` commands in flight beside the rest
           ── kills the host that leads most; "led" ──► until the others know a leader of each group

    counts          groups, one row for each (default 20,100)
    idle_seconds    measured without traffic (default 10)
    settle_seconds  before it (default 5)
    load_seconds    one group under load (default 3; 0: none)
    window          commands in flight (default 64)
    body_size       bytes of one (default 1024)
    quiescence      1: idle groups fall silent, 0: they beat (default 1)
    folder          where to work

Reported: a row for each count, the sum of the three hosts. Bars at 1,000 groups: at most 0.10 of a
core and 300 MB of anonymous memory while idle, all groups led again within 2 s.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cluster.bench.embed import Node, group

#: The bars are those of so many groups, or more.
BAR_GROUPS = 1000
CORE_SHARE_BAR = 0.10
ANONYMOUS_BYTES_BAR = 300e6
LED_AGAIN_SECONDS_BAR = 2.0
#: From the last group that is opened until all have leaders, and after the kill.
_LED_SECONDS_MAX = 120.0
_LOOK_SECONDS = 0.05
#: Of a node's "cost": what it holds at that moment.
_HELD = ("anonymous_bytes", "pss_bytes", "uss_bytes", "rss_bytes", "threads", "files")
#: Small files: what is measured is groups, and a thousand of them shall fit on any disk.
_FILES = {"data_file_size": 1 << 20, "index_file_size": 32 * 2000, "entry_size_max": 256 << 10}


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """As the module's text says of each; "" for none."""

    folder: str = ""
    counts: tuple[int, ...] = (20, 100)
    idle_seconds: float = 10.0
    settle_seconds: float = 5.0
    load_seconds: float = 3.0
    window: int = 64
    body_size: int = 1024
    quiescence: int = 1

    @classmethod
    def smoke(cls, folder: Path) -> GroupsOptions:
        """Small enough for the test suite."""
        return cls(str(folder), (3,), 0.2, 0.1, 0.1, 8)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object. Raises RuntimeError when a group gets no leader."""
    given = GroupsOptions(**options)
    if isinstance(given.counts, int):  # one value on the command line
        given = replace(given, counts=(given.counts,))
    rows = []
    for count in given.counts:
        scratch = tempfile.TemporaryDirectory(prefix="groups-bench-", dir=given.folder or None)
        command = partial(_command, bool(given.quiescence))
        with scratch as name, group(Path(name), command) as hosts:
            rows.append(measure(hosts, count, given))
    return {"bench": "groups", "options": asdict(given), "rows": rows, "bars": judge(rows)}


def _command(quiescence: bool, config: dict[str, Any]) -> Sequence[str]:
    given = config | _FILES | {"quiescence": quiescence}
    return [sys.executable, "-m", "cluster.bench.groups_node", json.dumps(given)]


def measure(hosts: list[Node], count: int, given: GroupsOptions) -> dict[str, Any]:
    """One row."""
    opening = time.perf_counter()
    opened = max(answer["seconds"] for answer in ask_all(hosts, do="open", count=count))
    leaders = wait_until_led(hosts, count)
    led = time.perf_counter() - opening
    time.sleep(given.settle_seconds)
    before, begun = ask_all(hosts, do="cost"), time.perf_counter()
    time.sleep(given.idle_seconds)
    after, took = ask_all(hosts, do="cost"), time.perf_counter() - begun
    spent = {
        name: sum(b[name] - a[name] for a, b in zip(before, after, strict=True)) / took
        for name in ("cpu_seconds", "waits")
    }
    row: dict[str, Any] = {
        "groups": count,
        "open_s": opened,
        "led_s": led,
        "core_share": spent["cpu_seconds"],
        "waits_per_second": spent["waits"],
        **{name: sum(answer[name] for answer in after) for name in _HELD},
    }
    if given.load_seconds:
        at = next(host for host in hosts if host.name == leaders["g0"])
        load = {"window": given.window, "size": given.body_size, "seconds": given.load_seconds}
        row["one_active"] = at.ask(do="load", group="g0", **load)
    leaders = wait_until_led(hosts, count)
    busiest = Counter(leaders.values()).most_common(1)[0][0]
    killed = next(host for host in hosts if host.name == busiest)
    killed.kill()
    begun = time.perf_counter()
    wait_until_led([host for host in hosts if host is not killed], count, gone=killed.name)
    return {**row, "led_again_s": time.perf_counter() - begun}


def judge(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The bars, of rows with enough groups."""
    bars: dict[str, Any] = {}
    for row in rows:
        if row["groups"] >= BAR_GROUPS:
            bars |= {
                "core_share_max": CORE_SHARE_BAR,
                "core_share_met": row["core_share"] <= CORE_SHARE_BAR,
                "anonymous_bytes_max": ANONYMOUS_BYTES_BAR,
                "anonymous_bytes_met": row["anonymous_bytes"] <= ANONYMOUS_BYTES_BAR,
                "led_again_s_max": LED_AGAIN_SECONDS_BAR,
                "led_again_met": row["led_again_s"] <= LED_AGAIN_SECONDS_BAR,
            }
    return bars


def ask_all(hosts: list[Node], **command: Any) -> list[dict[str, Any]]:
    """Side by side."""
    for host in hosts:
        host.tell(**command)
    return [host.hear() for host in hosts]


def wait_until_led(hosts: list[Node], count: int, gone: str = "") -> dict[str, str]:
    """The leaders by group, when these hosts agree about each and none is `gone`.

    Raises RuntimeError.
    """
    end = time.perf_counter() + _LED_SECONDS_MAX
    while time.perf_counter() < end:
        found: list[dict[str, str]] = [answer["leaders"] for answer in ask_all(hosts, do="led")]
        led = [name for name in found[0].values() if name and name != gone]
        if len(led) == count and all(leaders == found[0] for leaders in found):
            return found[0]
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"{count - len(led)} of {count} groups have no leader that all hosts know")
