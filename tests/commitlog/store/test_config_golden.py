"""config/*.json as a real RocketMQ 5.3.3 wrote them: read, and written again byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from commitlog.store.config_json import parse_config, render_config

FOLDER = Path(__file__).parents[2] / "data/golden/dledger/dledger-broker/store/config"
FILES = sorted(FOLDER.glob("*.json"))


def bare_keys(value: Any) -> Any:
    """Integer keys are read as digits and written from integers."""
    if isinstance(value, dict):
        numbers = bool(value) and all(key.isdigit() for key in value)
        return {int(k) if numbers else k: bare_keys(v) for k, v in value.items()}
    return value


def test_the_golden_folder_is_there() -> None:
    assert len(FILES) == 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_a_real_broker_come_out_as_they_went_in(path: Path) -> None:
    data = path.read_bytes()
    assert render_config(bare_keys(parse_config(data, str(path)))) == data
