"""Where a setting comes from, who wins, and what a wrong one is told."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cluster.settings.settings import SettingsError
from cluster.settings.sources import read
from cluster.settings.values import convert, to_toml


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine."""

    name: str
    size_max: int = 10
    ratio: float = 0.5
    mode: Mode = Mode.SAFE
    wheels: tuple[str, ...] = ()
    peers: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    folder: Path | None = None
    loud: bool = False

    def validate(self) -> None:
        if self.ratio * 100 > self.size_max * 10:
            raise ValueError(f"ratio {self.ratio} is too high for size_max {self.size_max}")


SECTIONS = {"engine": Engine}


def write(folder: Path, text: str, name: str = "x.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[engine]\nname = "a"\nsize_max = 1\nratio = 0.1\n')
    environment = {"DLEDGER_ENGINE_SIZE_MAX": "2", "DLEDGER_ENGINE_NAME": "b", "OTHER": "x"}
    settings = read(SECTIONS, file, environment, ["engine.name=c"])
    assert settings.build("engine", Engine) == Engine("c", size_max=2, ratio=0.1)
    origins = {row["key"]: row["origin"] for row in settings.rows()}
    assert origins["engine.name"] == "flag"
    assert origins["engine.size_max"] == "environment DLEDGER_ENGINE_SIZE_MAX"
    assert origins["engine.ratio"] == f"file {file}"
    assert origins["engine.loud"] == "default"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("engine.sizeMax", "engine.size_max"),
        ("engin.mode", "engine.mode"),
        ("x.loud", "engine.loud"),
    ],
)
def test_an_unknown_key_is_told_the_nearest(key: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown setting {key}.*did you mean {near}"):
        read(SECTIONS, None, {}, [f"{key}=1"])


def test_a_key_like_no_other_is_told_where_all_are() -> None:
    with pytest.raises(SettingsError, match="dledger config show lists all"):
        read(SECTIONS, None, {}, ["zzz.qqqqqqq=1"])


def test_an_unknown_section_in_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean engine"):
        read(SECTIONS, write(tmp_path, "[engines]\nname = 'a'\n"), {})
    with pytest.raises(SettingsError, match="unknown setting nam"):
        read(SECTIONS, write(tmp_path, "nam = 'a'\n"), {})


def test_impossible_relations_name_both_values() -> None:
    settings = read(SECTIONS, None, {}, ["engine.name=a", "engine.ratio=5", "engine.size_max=2"])
    with pytest.raises(SettingsError, match=r"\[engine\] ratio 5.0 .* size_max 2"):
        settings.build("engine", Engine)


def test_a_required_setting_is_asked_for() -> None:
    with pytest.raises(SettingsError, match=r"engine\.name is required"):
        read(SECTIONS, None, {}).build("engine", Engine)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine.size_max=much", "expected a whole number, got 'much'"),
        ("engine.loud=maybe", "expected true or false"),
        ("engine.mode=slow", "expected one of fast, safe"),
        ("engine.peers=a=nowhere", 'expected "host:port"'),
        ("engine.name", "is not of the form section.key=value"),
    ],
)
def test_unreadable_values_say_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read(SECTIONS, None, {}, [text])


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not valid TOML"):
        read(SECTIONS, write(tmp_path, "[engine\n"), {})
    with pytest.raises(SettingsError, match="cannot be read"):
        read(SECTIONS, tmp_path / "missing.toml", {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read(SECTIONS, tmp_path / "binary.toml", {})


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, bool),
        (12, int),
        (123_456_789, int),
        (0.25, float),
        ('with "quotes" and \\', str),
        (Path("/a/b"), Path),
        (Mode.FAST, Mode),
        (("a", "b"), tuple[str, ...]),
        (("127.0.0.1", 80), tuple[str, int]),
        ({"n0": ("127.0.0.1", 80)}, Mapping[str, tuple[str, int]]),
        (None, int | None),
    ],
)
def test_values_survive_toml(value: object, hint: object) -> None:
    import tomllib

    if value is None:
        assert convert("", hint) is None
        return
    assert convert(tomllib.loads(f"x = {to_toml(value)}")["x"], hint) == value
