"""What systemd is told, and what comes of nobody being there to be told."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from cluster.local import supervisor


def told(place: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(place)
        monkeypatch.setenv(supervisor.NOTIFY_SOCKET, shown)
        supervisor.tell(supervisor.READY)
        return notices.recv(100)


def test_by_path_and_by_abstract_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    assert told(path, path, monkeypatch) == b"READY=1"
    name = f"dledger-test-{tmp_path}"[-100:]
    assert told(f"\0{name}", f"@{name}", monkeypatch) == b"READY=1"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", ""),
        ("/nowhere/notify", "No such file"),
        ("vsock:2:1", "neither a path nor @name"),
        ("/" + "x" * 200, "could not be told"),
    ],
)
def test_a_node_starts_whether_it_can_be_told_or_not(
    place: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(supervisor.NOTIFY_SOCKET, place)
    with caplog.at_level(logging.WARNING):
        supervisor.tell(supervisor.READY)
    assert said in caplog.text
    assert bool(said) == bool(caplog.records)
