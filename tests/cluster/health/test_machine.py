"""Each thing that is wrong with a machine is one alert, with one thing to try."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.health.alerts import CRITICAL, WARNING
from cluster.health.machine import Machine, file_system_of, look, machine_alerts, strangers

GIB = 1 << 30
WELL = Machine(
    system="Linux",
    python=(3, 11),
    folder=Path("/data"),
    file_system="ext4",
    disk_total=100 * GIB,
    disk_free=50 * GIB,
    inodes_free=1_000_000,
    memory_free=4 * GIB,
    open_files_hard=1 << 17,
    missing_modules=frozenset(),
    strangers={},
)


def test_machine_that_is_well_has_no_alert() -> None:
    assert list(machine_alerts(WELL)) == []


@pytest.mark.parametrize(
    ("changed", "level", "kind"),
    [
        ({"python": (3, 10)}, CRITICAL, "python"),
        ({"system": "Darwin"}, WARNING, "platform"),
        ({"missing_modules": frozenset({"uvloop"})}, WARNING, "fast"),
        ({"strangers": {"cluster": "cluster-tools"}}, WARNING, "packages"),
        ({"disk_free": 9 * GIB}, CRITICAL, "disk-full"),
        ({"disk_total": 2 * GIB, "disk_free": GIB - 1}, CRITICAL, "disk-small"),
        ({"disk_free": 15 * GIB}, WARNING, "disk-filling"),
        ({"inodes_free": 9_999}, CRITICAL, "inodes"),
        ({"file_system": "tmpfs"}, WARNING, "file-system"),
        ({"file_system": "nfs4"}, WARNING, "file-system"),
        ({"memory_free": 255 << 20}, WARNING, "memory"),
        ({"open_files_hard": 1_024}, WARNING, "open-files"),
    ],
)
def test_machine_with_one_fault_has_one_alert(
    changed: dict[str, Any], level: str, kind: str
) -> None:
    (found,) = machine_alerts(replace(WELL, **changed))
    assert (found["level"], found["id"], found["subject"]) == (level, kind, "this machine")
    assert found["message"]
    assert found["try"]


@pytest.mark.parametrize(
    "changed",
    [{"inodes_free": None}, {"inodes_free": 10_000}, {"disk_free": 16 * GIB}, {"file_system": ""}],
)
def test_machine_just_inside_a_bound_has_no_alert(changed: dict[str, Any]) -> None:
    assert list(machine_alerts(replace(WELL, **changed))) == []


def test_machine_with_several_faults_has_the_critical_first() -> None:
    found = list(machine_alerts(replace(WELL, system="Darwin", inodes_free=1)))
    assert [one["level"] for one in found] == [CRITICAL, WARNING]


def test_folder_that_is_not_there_is_looked_at_by_its_parent(tmp_path: Path) -> None:
    found = look(tmp_path / "not" / "there")
    assert found.folder == tmp_path
    assert 0 <= found.disk_free <= found.disk_total
    assert found.python == sys.version_info[:2]


def test_file_system_is_that_of_the_longest_mount_above_the_folder() -> None:
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    assert file_system_of(Path("/proc/self")) == "proc"


def test_only_another_distribution_with_a_name_of_ours_is_a_stranger() -> None:
    installed = {
        "cluster": ["cluster", "dledger"],
        "dledger": ["dledger"],
        "chaos": ["Dledger", "Dledger"],
        "numpy": ["numpy"],
    }
    assert strangers(installed) == {"cluster": "cluster"}
