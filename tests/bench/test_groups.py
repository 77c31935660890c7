"""`dledger bench groups` in smoke size: three real processes, one of them killed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from cluster.bench import groups


@pytest.mark.long
def test_groups_are_measured_and_led_again(tmp_path: Path) -> None:
    row = groups.run(asdict(groups.GroupsOptions.smoke(tmp_path)))["rows"][0]
    assert row["groups"] == 3
    assert row["led_again_s"] > 0
    assert row["one_active"]["commands_per_second"] > 0
    assert row["anonymous_bytes"] > 0
    assert row["threads"] >= 3 * 8
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_bars_are_those_of_a_thousand_groups() -> None:
    row = {"groups": 100, "core_share": 0.2, "anonymous_bytes": 2e8, "led_again_s": 1.0}
    assert groups.judge([row]) == {}
    bars = groups.judge([row | {"groups": 1000}])
    assert (bars["core_share_met"], bars["anonymous_bytes_met"], bars["led_again_met"]) == (
        False,
        True,
        True,
    )
