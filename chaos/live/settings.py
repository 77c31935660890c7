"""A run's settings: a TOML file of conf/, checked before anything starts.

[run]        seconds, nodes, seed, gap_seconds_max, acked_min, network ("proxies", "namespaces")
[faults]     kinds ("all" or names), without, gap_min, gap_max, quiet, swarm
[workload]   chaos.workloads.Workload, field by field
[settings]   "section.key" = value for every node
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from chaos.faults import KINDS, Network, kind_of
from chaos.schedule import Bounds
from chaos.workloads import Workload

#: Small files: they roll over while things break, and a loop disk holds them.
NODE_SETTINGS = {
    "raft.data_file_size": str(1 << 20),
    "raft.index_file_size": str(64 << 10),
    "broker.queue_file_size": str(20 * 5_000),
    "broker.index_slot_count": "5000",
    "broker.index_entry_count": "20000",
    "raft.entry_size_max": str(256 << 10),
    "broker.body_size_max": str(128 << 10),
    # What is old goes at any hour and is not kept for who lags: files are made old by a course.
    "broker.delete_hours": ",".join(str(hour) for hour in range(24)),
    "broker.follower_grace_seconds": "0",
}
NODES_MAX = 9


class RunSettingsError(ValueError):
    """A settings file cannot be used; the sentence says where and why."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One run.

    Attributes:
        seconds: length of the load.
        nodes: size of the cluster.
        gap_seconds_max: longest time without an acknowledgement while a majority is in service.
        converge_seconds_max: after the last fault, until all replicas are at one end.
        acked_min: fewer acknowledged appends prove nothing.
        kinds: faults that may be drawn; those that cannot work here are left out and listed.
        network: what nodes dial each other through.
    """

    seconds: float = 60.0
    nodes: int = 3
    gap_seconds_max: float = 10.0
    converge_seconds_max: float = 10.0
    acked_min: int = 100
    kinds: tuple[str, ...] = tuple(kind.name for kind in KINDS if kind.safe)
    gap_min: float = 1.0
    gap_max: float = 3.0
    quiet: float = 2.0
    swarm: bool = True
    network: Network = Network.PROXIES
    workload: Workload = field(default_factory=Workload)
    node_settings: Mapping[str, str] = field(default_factory=lambda: dict(NODE_SETTINGS))

    def __post_init__(self) -> None:
        if self.nodes not in range(1, NODES_MAX + 1):
            raise RunSettingsError(f"nodes is {self.nodes} and must be 1 to {NODES_MAX}")
        if self.seconds <= 2 * self.quiet:
            raise RunSettingsError(
                f"seconds {self.seconds} leaves no room for faults between two quiet times of "
                f"{self.quiet} s"
            )
        if not 0 < self.gap_min <= self.gap_max:
            raise RunSettingsError(f"gap_min {self.gap_min} must be up to gap_max {self.gap_max}")

    def bounds(self, kinds: tuple[str, ...]) -> Bounds:
        """For the schedule; `kinds` of these settings that work here."""
        return Bounds(
            self.seconds, self.nodes, kinds, self.gap_min, self.gap_max, self.quiet, self.swarm
        )


_RUN = ("seconds", "nodes", "gap_seconds_max", "converge_seconds_max", "acked_min")
_FAULTS = ("gap_min", "gap_max", "quiet", "swarm")


def load(path: Path) -> RunSettings:
    """Raises RunSettingsError for a file that is not one, OSError when it cannot be read."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunSettingsError(f"{path} is no TOML: {error}") from error
    try:
        return _of(found)
    except (TypeError, ValueError) as error:
        raise RunSettingsError(f"{path}: {error}") from error


def _of(found: dict[str, Any]) -> RunSettings:
    values: dict[str, Any] = {}
    faults = dict(found.pop("faults", {}))
    names = faults.pop("kinds", "all")
    without = {kind_of(name).name for name in faults.pop("without", [])}
    chosen = (
        [k.name for k in KINDS if k.safe] if names == "all" else [kind_of(n).name for n in names]
    )
    values["kinds"] = tuple(name for name in chosen if name not in without)
    values |= _known("faults", faults, _FAULTS)
    run = dict(found.pop("run", {}))
    values["network"] = Network(run.pop("network", Network.PROXIES.value))
    values |= _known("run", run, _RUN)
    workload = dict(found.pop("workload", {}))
    allowed = tuple(one.name for one in fields(Workload))
    values["workload"] = Workload(**_known("workload", workload, allowed))
    own = {name: str(value) for name, value in found.pop("settings", {}).items()}
    values["node_settings"] = NODE_SETTINGS | own
    if found:
        raise ValueError(f"there is no section {', '.join(sorted(found))}")
    return RunSettings(**values)


def _known(section: str, values: dict[str, Any], allowed: tuple[str, ...]) -> dict[str, Any]:
    unknown = sorted(set(values) - set(allowed))
    if unknown:
        raise ValueError(f"[{section}] has no {unknown[0]}; it has {', '.join(allowed)}")
    return values
