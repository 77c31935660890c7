"""One scene, or a calm span, on a cluster of its own beside a real Prometheus.

arena up ─► steady load ─► Prometheus ─► fault ─► fired? ─► fault ends ─► cleared? ─► down
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.alerts.client_scenes import ACCOUNTS, ADMIN
from chaos.alerts.place import Place, steady
from chaos.alerts.prometheus import Prometheus
from chaos.alerts.scenes import Scene
from chaos.faults import Network
from chaos.live.arena import Arena
from chaos.live.load import Drain, Load
from chaos.live.run import equipped, left_out
from cluster.client import ClientConfig
from cluster.local import plan
from cluster.local.profile import BROKER
from cluster.settings.conf_alerts import RULES

NODES = 3
SETTINGS = {"raft.data_file_size": str(16 << 20), "raft.index_file_size": str(4 << 20)}
PATIENCE_SECONDS = 120.0
"""Beside the time that a rule wants its condition to hold: a busy machine, a rate that rises."""
WINDOWS_MAX_MINUTES = 15
MINUTES = {rule.name: rule.minutes for rule in RULES}
_starting = asyncio.Lock()
"""Clusters start one after the other: many at once are too slow for elections."""


@dataclass(slots=True)
class Row:
    """One line of the table: one rule in one scene.

    Attributes:
        after: seconds from the fault to the alert; None: it did not fire.
        cleared: seconds from the fault's end; None: it did not clear in time.
        why: of an alert that need not clear, or a scene that could not be played.
    """

    scene: str
    fault: str
    rule: str
    minutes: int = 0
    after: float | None = None
    cleared: float | None = None
    beside: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    why: str = ""
    skipped: bool = False

    @property
    def good(self) -> bool:
        """The rule fired, and no other one without a reason."""
        return self.skipped or (self.after is not None and not self.unexpected)


@dataclass(slots=True)
class Calm:
    """The outcome of a span without any fault."""

    seconds: float
    sent: int = 0
    failed: int = 0
    read: int = 0
    fired: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    machine_load: tuple[float, float] = (0.0, 0.0)  # least and most, over one minute

    @property
    def good(self) -> bool:
        """No alert fired, and all messages were sent and read."""
        return not self.fired and not self.failed and self.read >= self.sent > 0


def why_not(scene: Scene) -> str:
    """Why the scene cannot be played on this machine; "" when it can."""
    found = left_out(scene.equipment, NODES, Network.PROXIES) if scene.equipment else {}
    return "; ".join(found.values())


async def play(scene: Scene, folder: Path, *, faster: float = 1.0) -> list[Row]:
    """The scene's rows, one a rule that must fire. Raises LauncherError, OSError, NoPrometheus."""
    if reason := why_not(scene):
        return [Row(scene.name, "", rule, why=reason, skipped=True) for rule in scene.fires]
    async with _placed(folder, faster, scene) as (place, prometheus):
        wanted = frozenset(scene.fires)
        began = prometheus.now()
        async with scene.course(place) as fault:
            longest = max(MINUTES[rule] for rule in wanted)
            held = (longest + WINDOWS_MAX_MINUTES / 3) * 60 / faster + PATIENCE_SECONDS
            await prometheus.until(wanted, fire=True, seconds_max=held)
        ended = prometheus.now()
        clearing = wanted - scene.stays.keys()
        window = WINDOWS_MAX_MINUTES * 60 / faster + PATIENCE_SECONDS
        await prometheus.until(clearing, fire=False, seconds_max=window)
        return _rows(scene, fault, prometheus, began, ended)


def _rows(
    scene: Scene, fault: str, prometheus: Prometheus, began: float, ended: float
) -> list[Row]:
    fired = prometheus.fired
    beside = sorted(fired.keys() & set(scene.beside))
    unexpected = sorted(fired.keys() - set(scene.fires) - set(scene.beside))
    rows = []
    for rule in scene.fires:
        row = Row(scene.name, fault, rule, MINUTES[rule], None, None, beside, unexpected)
        if rule in fired:
            row.after = round(fired[rule].first - began, 1)
            if rule not in prometheus.firing:
                row.cleared = round(max(0.0, fired[rule].last - ended), 1)
        row.why = scene.stays.get(rule, "")
        rows.append(row)
    return rows


async def calm(folder: Path, seconds: float, *, rate: float, faster: float = 1.0) -> Calm:
    """A cluster of three under a steady load and no fault."""
    found = Calm(seconds)
    loads = [os.getloadavg()[0]]

    def judged(load: Load, drain: Drain) -> None:
        found.sent = len(load.acknowledged_at)
        found.failed = load.sent - found.sent
        found.read = len(drain.seen)

    async with _up(folder, faster, None) as (place, prometheus):
        async with place.client() as client, steady(client, rate, judged=judged):
            end = prometheus.now() + seconds
            while prometheus.now() < end:
                await asyncio.sleep(min(15.0, max(0.0, end - prometheus.now())))
                loads.append(os.getloadavg()[0])
        found.fired = sorted(prometheus.fired)
        found.pending = sorted(prometheus.pending)
    found.machine_load = (round(min(loads), 1), round(max(loads), 1))
    return found


@contextlib.asynccontextmanager
async def _placed(
    folder: Path, faster: float, scene: Scene
) -> AsyncIterator[tuple[Place, Prometheus]]:
    async with _up(folder, faster, scene) as (place, prometheus):
        if not scene.rate:
            yield place, prometheus
            return
        config = ClientConfig(account=ADMIN) if scene.accounts else None
        async with (
            place.client(config) as client,
            steady(client, scene.rate, judged=lambda *_: None),
        ):
            yield place, prometheus


@contextlib.asynccontextmanager
async def _up(
    folder: Path, faster: float, scene: Scene | None
) -> AsyncIterator[tuple[Place, Prometheus]]:
    arena = await asyncio.to_thread(_arena, folder, scene)
    kinds = scene.equipment if scene is not None else ()
    targets = [m.admin for m in arena.cluster.profile.members if m.kind == BROKER]
    prometheus = Prometheus(folder / "prometheus", targets, faster=faster)
    with equipped(arena, folder, kinds) as (disks, shims):
        async with contextlib.AsyncExitStack() as stack:
            async with _starting:
                await stack.enter_async_context(arena)
            await stack.enter_async_context(prometheus)
            yield Place(arena, folder, faster, disks, shims), prometheus


def _arena(folder: Path, scene: Scene | None) -> Arena:
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(SETTINGS)
    if scene is not None and scene.accounts:
        (folder / "accounts.yml").write_text(ACCOUNTS, encoding="utf-8")
        settings["broker.acl_file"] = str(folder / "accounts.yml")
    hosts = plan.scratch_hosts(NODES)
    return Arena(folder / "cluster", nodes=NODES, hosts=hosts, settings=settings)
