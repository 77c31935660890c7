"""The addresses of a client, and settings that contradict each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.client.config import ClientConfig, ClientConfigError, ProducerConfig
from cluster.client.discovery import resolve

pytestmark = pytest.mark.virtual_time


def test_where_the_name_servers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("DLEDGER_HOME", str(tmp_path))
    assert resolve("a:1;b:2, c:3") == ["a:1", "b:2", "c:3"]
    with pytest.raises(ClientConfigError, match="dledger up"):
        resolve(None)
    for bad in ("a", "a:", ":1", "a:b"):
        with pytest.raises(ClientConfigError, match="host:port"):
            resolve(bad)
    (tmp_path / "local").mkdir()
    ports = {"ns": {"client": "127.0.0.1:9"}, "n0": {"client": "127.0.0.11:8"}}
    (tmp_path / "local" / "ports.json").write_text(json.dumps(ports))
    assert resolve(None) == ["127.0.0.1:9"]
    monkeypatch.setenv("NAMESRV_ADDR", "env:5")
    assert resolve(None) == ["env:5"]


def test_impossible_settings_name_both_values() -> None:
    with pytest.raises(ClientConfigError, match=r"3.0 .*1.0"):
        ClientConfig(stall_timeout=3.0, request_timeout=1.0)
    with pytest.raises(ClientConfigError, match="batch_bytes_max"):
        ProducerConfig(batch_bytes_max=1 << 30)
    with pytest.raises(ClientConfigError):
        ProducerConfig(in_flight_max=0)
