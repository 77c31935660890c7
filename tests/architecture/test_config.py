"""Every setting is documented, stands in conf/, and conf/ is what the dataclasses say."""

from __future__ import annotations

import pytest

from cluster.conf_files import FOLDER, files
from cluster.node_settings import SECTIONS, build_node, read_node
from cluster.settings_docs import describe


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_is_documented(name: str) -> None:
    silent = [doc.name for doc in describe(SECTIONS[name]) if not doc.text]
    assert not silent, f"[{name}] says nothing about {silent}"


@pytest.mark.parametrize("name", files())
def test_conf_is_current(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == files()[name], "run scripts/gen-conf"


def test_every_setting_stands_in_the_file() -> None:
    text = files()["broker.toml"]
    for kind in SECTIONS.values():
        for doc in describe(kind):
            assert f"\n# {doc.name} =" in text


def test_the_shipped_example_starts() -> None:
    build_node(read_node(FOLDER / "broker-of-three.toml", {}))
