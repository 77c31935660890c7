"""A value of the log that would keep every client out counts nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.live_settings import LiveSettings, changed


@pytest.mark.parametrize(
    ("name", "text"), [("connections_max", "1"), ("idle_seconds_max", "0.001")]
)
def test_no_value_keeps_those_out_who_could_take_it_back(
    name: str, text: str, tmp_path: Path
) -> None:
    config = BrokerConfig("n0", tmp_path)
    with pytest.raises(ValueError, match="while nodes run"):
        changed(config, name, text)
    live = LiveSettings(config)
    live.take({name: text, "reserved_hours": "48"})
    assert getattr(live.now, name) == getattr(config, name)
    assert live.now.reserved_hours == 48
