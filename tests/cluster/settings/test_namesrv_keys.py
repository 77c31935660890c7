"""RocketMQ's namesrv.conf as options of our name server."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.local import nameserver_main
from cluster.settings.namesrv_keys import KEYS, REFUSED, NamesrvConf, read_namesrv_conf
from cluster.settings.settings import SettingsError


def read(folder: Path, text: str) -> NamesrvConf:
    (folder / "namesrv.conf").write_text(text)
    return read_namesrv_conf(folder / "namesrv.conf")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", NamesrvConf("0.0.0.0:9876")),
        ("# a remark\nlistenPort = 9900\nbindAddress=10.0.0.1\n", NamesrvConf("10.0.0.1:9900")),
        ("bindAddress=::1", NamesrvConf("[::1]:9876")),
        ("waitSecondsForService=9", NamesrvConf("0.0.0.0:9876")),
        ("needWaitForService=true", NamesrvConf("0.0.0.0:9876", 45.0)),
        ("needWaitForService=true\nwaitSecondsForService=9", NamesrvConf("0.0.0.0:9876", 9.0)),
        (
            "kvConfigPath=/x/namesrv/kvConfig.json",
            NamesrvConf("0.0.0.0:9876", 0.0, Path("/x/namesrv")),
        ),
    ],
)
def test_keys_become_options(tmp_path: Path, text: str, found: NamesrvConf) -> None:
    assert read(tmp_path, text) == found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("listenPort=x", "give 0 to 65535"),
        ("listenPort=65536", "give 0 to 65535"),
        ("needWaitForService=yes", "neither true nor false"),
        ("bindAddress=", "has no value"),
        ("listenPrt=1", "or give listenPort"),
        ("serverWorkerThreads=8", "has no meaning here: one event loop"),
        ("just words", "is not of the form key=value"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read(tmp_path, line)


def test_all_wrong_lines_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="2 lines cannot be used") as told:
        read(tmp_path, "listenPort=x\nclusterTest=true\n")
    assert "namesrv.conf:1" in str(told.value)
    assert "namesrv.conf:2" in str(told.value)
    assert not set(KEYS) & set(REFUSED)


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        ([], None, "--listen is needed"),
        (["--config", "none.conf"], None, "none.conf"),
        (["--config", "namesrv.conf"], "listenPort=x", "give 0 to 65535"),
    ],
)
def test_a_name_server_without_an_address_says_what_to_give(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    text: str | None,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("namesrv.conf").write_text(text)
    with pytest.raises(SystemExit) as ended:
        nameserver_main.main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_options_count_more_than_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namesrv.conf").write_text("needWaitForService=true\n")
    made: list[tuple[str, int, float]] = []

    class Server:
        def __init__(self, host: str, port: int, *, warm_up_seconds: float, **_: object) -> None:
            made.append((host, port, warm_up_seconds))

        async def start(self) -> None: ...

    monkeypatch.setattr(nameserver_main, "NameServer", Server)
    monkeypatch.setattr(nameserver_main.service, "run", lambda start, _: _once(start))
    config = ["--config", str(tmp_path / "namesrv.conf")]
    nameserver_main.main(config)
    nameserver_main.main([*config, "--listen", "127.0.0.1:9900", "--warm-up", "0"])
    assert made == [("0.0.0.0", 9876, 45.0), ("127.0.0.1", 9900, 0.0)]


def _once(start: object) -> int:
    try:
        start().send(None)  # type: ignore[operator]
    except StopIteration:
        return 0
    raise AssertionError("it waited")
