"""Run settings: the shipped files load, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.faults import KINDS
from chaos.live.settings import RunSettingsError, load

CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize("name", ["chaos-smoke.toml", "chaos-nightly.toml"])
def test_the_shipped_files_load(name: str) -> None:
    settings = load(CONF / name)
    assert settings.seconds > 0
    assert settings.kinds


@pytest.mark.parametrize("name", ["chaos-power.toml", "chaos-nightly.toml"])
def test_power_cuts_meet_sends_of_both_levels(name: str) -> None:
    workload = load(CONF / name).workload
    assert workload.producers
    assert workload.in_memory


def test_nightly_draws_every_safe_kind() -> None:
    assert set(load(CONF / "chaos-nightly.toml").kinds) == {k.name for k in KINDS if k.safe}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nsecond = 3", "has no second"),
        ("[faults]\nkinds = ['tea']", "there is no fault 'tea'"),
        ("[faults]\nkinds = ['kill']\nwithout = ['tea']", "there is no fault 'tea'"),
        ("[faults]\ngap_min = 4.0\ngap_max = 1.0", "gap_min"),
        ("[run]\nseconds = 1.0", "no room for faults"),
        ("[run]\nnodes = 12", "nodes is 12"),
        ("[workload]\nqueues = 0", "a queue and a producer"),
        ("[tea]\ncups = 2", "no section tea"),
        ("tea", "no TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(RunSettingsError, match=said):
        load(path)


def test_kinds_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[faults]\nkinds = 'all'\nwithout = ['wipe']\n[settings]\n'raft.x' = 1\n")
    settings = load(path)
    assert "wipe" not in settings.kinds
    assert "kill" in settings.kinds
    assert settings.node_settings["raft.x"] == "1"
