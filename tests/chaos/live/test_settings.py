"""Run settings: the shipped files load, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.faults import CHOREOGRAPHIES, KINDS
from chaos.live.settings import RunSettingsError, load

CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize("name", ["chaos-smoke.toml", "chaos-nightly.toml", "chaos-five.toml"])
def test_the_shipped_files_load(name: str) -> None:
    settings = load(CONF / name)
    assert settings.seconds > 0
    assert settings.kinds


@pytest.mark.parametrize("name", ["chaos-power.toml", "chaos-nightly.toml"])
def test_power_cuts_meet_sends_of_both_levels(name: str) -> None:
    workload = load(CONF / name).workload
    assert workload.producers
    assert workload.in_memory


def test_nightly_draws_every_safe_kind_and_every_choreography() -> None:
    safe = {kind.name for kind in (*KINDS, *CHOREOGRAPHIES) if kind.safe}
    assert set(load(CONF / "chaos-nightly.toml").kinds) == safe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nsecond = 3", "has no second"),
        ("[faults]\nkinds = ['tea']", "there is no fault 'tea'"),
        ("[faults]\nkinds = ['kill']\nwithout = ['tea']", "there is no fault 'tea'"),
        ("[faults]\ngap_min = 4.0\ngap_max = 1.0", "gap_min"),
        ("[faults]\nweather_seconds = 0", "weather_seconds is 0"),
        ("[run]\nseconds = 1.0", "no time for faults"),
        ("[run]\nnodes = 12", "nodes is 12"),
        ("[workload]\nqueues = 0", "a queue and a producer"),
        ("[tea]\ncups = 2", "no section tea"),
        ("tea", "no TOML"),
        ('[run]\nacked_min = "10"', r"\[run\] acked_min is '10' and must be a whole number"),
        ("[run]\nseconds = nan", "must be 0 or more, and finite"),
        ("[run]\nseconds = inf", "must be 0 or more, and finite"),
        ("[run]\nnodes = 3.0", "nodes is 3.0 and must be a whole number"),
        ("[run]\nnodes = true", "nodes is True and must be a whole number"),
        ("[run]\nnetwork = 'tea'", "tea"),
        ("run = 3", r"must be a section, \[run\]"),
        ('[faults]\nswarm = "no"', "swarm is 'no' and must be true or false"),
        ("[faults]\nquiet = -5", "must be 0 or more"),
        ("[faults]\nkinds = 'kill'", "must be a list of names"),
        ("[faults]\nkinds = [1]", "must be a list of names"),
        ("[workload]\nproducers = -1", "must be 0 or more"),
        ("[workload]\nproducers = 2.5", "must be a whole number"),
        ("[workload]\nrate = inf", "and finite"),
        ("[run]\nnetwrk = 'proxies'", "has no netwrk; did you mean network?"),
        ("[faults]\nwithot = ['kill']", "has no withot; did you mean without?"),
        ("[workload]\nqeues = 1", "has no qeues; did you mean queues?"),
        ("[rum]\nseconds = 9", "no section rum; did you mean run?"),
        (
            "[settings]\n'raft.hartbeat_ms' = 1",
            "unknown setting raft.hartbeat_ms .* did you mean raft.heartbeat_ms",
        ),
        ("[settings]\nraft.hartbeat_ms = 1", "unknown setting raft.hartbeat_ms"),
        ("[settings.brokr]\nroot = ''", "unknown setting brokr.root"),
        ("[settings]\nheartbeat = 1", "heartbeat is no .section.key."),
        ("[settings]\n'raft.data_file_size' = 'big'", "raft.data_file_size .* a whole number"),
        ("[settings]\n'raft.data_file_size' = 10", "must fit into data_file_size 10"),
        ("settings = [1]", r"must be a section, \[settings\]"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(RunSettingsError, match=said) as raised:
        load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("text", ["'raft.entry_size_max' = 300000", "raft.entry_size_max = 300000"])
def test_settings_of_nodes_may_be_quoted_or_not(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"[settings]\n{text}\n")
    assert load(path).node_settings["raft.entry_size_max"] == "300000"


def test_kinds_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        "[faults]\nkinds = 'all'\nwithout = ['wipe']\n[settings]\n'raft.heartbeat_ms' = 90\n"
    )
    settings = load(path)
    assert "wipe" not in settings.kinds
    assert "kill" in settings.kinds
    assert settings.node_settings["raft.heartbeat_ms"] == "90"
