"""Stock Java push consumers while the leader is dead for 30 s, with notification routes and not.

One group of three, relays on. The leader is killed 8 s after the consumers' look at the routes, so
that their next look is 22 s away: without notification routes they stand still until then.

    DLEDGER_DEAD_NODE_KILLS=20 scripts/interop -k dead_consumer      so many kills; a minute each
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster

from .harness import toolchains
from .harness.content import create_topics
from .harness.rows import AFTER_LOOK_SECONDS, LOOK_SECONDS
from .harness.running import Program, started
from .test_dead_node import KILLS, kill_for_long

pytestmark = pytest.mark.long

SENDERS, PAUSE_MS = 4, 20
TOPIC = "DeadC"
REBALANCE_SECONDS = 20.0
# A pause of 3 s after an error, and what came before it.
GAP_SECONDS_MAX = 5.0
RETRIED = 1_000


def killed_once(local: LocalCluster, program: Program, began_ms: int) -> dict[str, Any]:
    """What the consumers saw from the kill until the node was started again."""
    since = time.time() - began_ms / 1000 - AFTER_LOOK_SECONDS
    time.sleep(-since % LOOK_SECONDS)
    program.ask("mark")
    kill_for_long(local)
    seen = program.ask("mark")
    local.wait_ready()
    return seen


def run_kills(
    local: LocalCluster, home: Path, version: str, members: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What was seen of each kill, and at the end."""
    create_topics(local.nameserver, [TOPIC])
    command = [*toolchains.java(version), f"-Duser.home={home}", "interop.DeadConsumer"]
    arguments = [local.nameserver, TOPIC, str(SENDERS), str(PAUSE_MS), str(members)]
    with started([*command, *arguments], home) as program:
        began_ms = program.until(lambda counts: counts["received"] > 0)["began_ms"]
        # A group that is new has its notification route from its second look on, after 20 s more.
        time.sleep(LOOK_SECONDS + REBALANCE_SECONDS)
        seen = [killed_once(local, program, began_ms) for _ in range(KILLS)]
        return seen, program.ask("stop")


@pytest.mark.timeout(240 + 90 * KILLS)
@pytest.mark.parametrize(
    ("version", "members", "notified"),
    [
        ("5.3.3", 1, False),
        ("5.3.3", 1, True),
        ("5.5.0", 1, True),
        ("5.3.3", 3, True),
        ("4.9.8", 1, True),
    ],
)
def test_dead_consumer(
    make_session_cluster: Callable[..., LocalCluster],
    tmp_path: Path,
    version: str,
    members: int,
    notified: bool,
) -> None:
    try:
        toolchains.java(version)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    settings = {"nameserver.notify_routes": "on" if notified else "off"}
    local = make_session_cluster(settings=settings)
    seen, last = run_kills(local, tmp_path, version, members)
    for one in (*seen, last):
        print(f"{version}, {members} members, notified {notified}: {one}")
    assert last["missing"] == 0, "lost"
    if not notified:
        assert all(one["gap_ms"] > 15_000 for one in seen), "the test can tell"
        return
    seconds_max = LOOK_SECONDS + GAP_SECONDS_MAX if version < "5" else GAP_SECONDS_MAX
    assert all(one["gap_ms"] < 1000 * seconds_max for one in seen)


@pytest.mark.timeout(420)
@pytest.mark.parametrize("version", ["4.9.8", "5.5.0"])
def test_a_retried_message_comes_once_per_level(
    make_session_cluster: Callable[..., LocalCluster], tmp_path: Path, version: str
) -> None:
    """Two members with queues of a notification route beside the real one of the retry topic."""
    try:
        command = [*toolchains.java(version), "interop.Retried"]
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    local = make_session_cluster(settings={"nameserver.notify_routes": "on"})
    create_topics(local.nameserver, [TOPIC])
    arguments = [local.nameserver, TOPIC, str(RETRIED), "2"]
    done = subprocess.run(
        [*command[:1], f"-Duser.home={tmp_path}", *command[1:], *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=400,
    )
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts == {f"level_{level}": RETRIED for level in range(3)} | {"doubled": 0}
