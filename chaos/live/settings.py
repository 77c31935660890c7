"""A run's settings: a TOML file of conf/, checked before anything starts.

[run]        seconds, nodes, gap_seconds_max, converge_seconds_max, acked_min,
             network (chaos.faults.Network)
[faults]     kinds ("all", "choreographies" or names; or a list), without, gap_min, gap_max, quiet,
             swarm, weather_seconds
[workload]   chaos.workloads.Workload, field by field
[settings]   "section.key" = value for every node; checked as its own settings file is

A key that nobody knows is refused with the nearest one: a run whose setting was mistyped would be
a run of something else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from chaos.faults import SETS, Network, kind_of, kinds_named
from chaos.live.node_options import as_options, check_options
from chaos.live.typed import as_names, as_table, check_known, check_types
from chaos.schedule import WEATHER_SECONDS, Bounds
from chaos.workloads import Workload
from commitlog.advice import Advised

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
    # Rot is looked for in all of a log that has grown for hours, within seconds of the question.
    "raft.scrub_bytes_per_second": str(64 << 20),
    # A run sees several checks of a transaction that its producer left open, and lasts seconds;
    # what stays undecided keeps the log's files from being deleted.
    "broker.transaction_timeout_ms": "1500",
    "broker.transaction_check_interval_ms": "2000",
    "broker.transaction_check_max": "5",
}
NODES_MAX = 9
#: What a settings file does not name of these is there, too.
DEFERRED = {"delayed": 1, "transactional": 1}


class RunSettingsError(Advised, ValueError):
    """A settings file cannot be used; the sentence says where and why."""

    advice = "correct the setting"


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
        weather_seconds: after as many, swarm parameters are drawn again.
        network: what nodes dial each other through.
    """

    seconds: float = 60.0
    nodes: int = 3
    gap_seconds_max: float = 10.0
    converge_seconds_max: float = 10.0
    acked_min: int = 100
    kinds: tuple[str, ...] = kinds_named(["all"])
    gap_min: float = 1.0
    gap_max: float = 3.0
    quiet: float = 2.0
    swarm: bool = True
    weather_seconds: float = WEATHER_SECONDS
    network: Network = Network.PROXIES
    workload: Workload = field(default_factory=lambda: Workload(**DEFERRED))
    node_settings: Mapping[str, str] = field(default_factory=lambda: dict(NODE_SETTINGS))

    def __post_init__(self) -> None:
        if self.nodes not in range(1, NODES_MAX + 1):
            raise RunSettingsError(f"nodes is {self.nodes} and must be 1 to {NODES_MAX}")
        if self.seconds <= 2 * self.quiet:
            raise RunSettingsError(
                f"seconds {self.seconds} leaves no time for faults between two quiet times of "
                f"{self.quiet} s; give more --seconds"
            )
        if not 0 < self.gap_min <= self.gap_max:
            raise RunSettingsError(f"gap_min {self.gap_min} must be up to gap_max {self.gap_max}")
        if self.weather_seconds <= 0:
            raise RunSettingsError(f"weather_seconds is {self.weather_seconds} and must be above 0")

    def bounds(self, kinds: tuple[str, ...]) -> Bounds:
        """For the schedule; `kinds` of these settings that work here."""
        return Bounds(
            self.seconds,
            self.nodes,
            kinds,
            self.gap_min,
            self.gap_max,
            self.quiet,
            self.swarm,
            self.weather_seconds,
        )


_RUN = ("seconds", "nodes", "gap_seconds_max", "converge_seconds_max", "acked_min")
_FAULTS = ("gap_min", "gap_max", "quiet", "swarm", "weather_seconds")


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
    check_known("there is no section", found, ("run", "faults", "workload", "settings"))
    faults = as_table("faults", found.pop("faults", {}))
    check_known("[faults] has no", faults, (*_FAULTS, "kinds", "without"))
    names = faults.pop("kinds", "all")
    without = {kind_of(name).name for name in as_names("without", faults.pop("without", []))}
    chosen = kinds_named([names] if names in tuple(SETS) else as_names("kinds", names))
    values["kinds"] = tuple(name for name in chosen if name not in without)
    values |= _known("faults", faults, _FAULTS, RunSettings)
    run = as_table("run", found.pop("run", {}))
    check_known("[run] has no", run, (*_RUN, "network"))
    values["network"] = Network(run.pop("network", Network.PROXIES.value))
    values |= _known("run", run, _RUN, RunSettings)
    workload = as_table("workload", found.pop("workload", {}))
    allowed = tuple(one.name for one in fields(Workload))
    known = _known("workload", workload, allowed, Workload)
    values["workload"] = Workload(**(DEFERRED | known))
    options = as_options(as_table("settings", found.pop("settings", {})))
    values["node_settings"] = NODE_SETTINGS | options
    check_options(values["node_settings"])
    return RunSettings(**values)


def _known(
    section: str, values: dict[str, Any], allowed: tuple[str, ...], cls: type
) -> dict[str, Any]:
    check_known(f"[{section}] has no", values, allowed)
    check_types(section, values, cls)
    return values
