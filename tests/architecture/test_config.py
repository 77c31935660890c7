"""Every setting is documented, stands in conf/, and conf/ is what the dataclasses say."""

from __future__ import annotations

import pytest

from cluster.settings.conf_files import FILES, ROOT
from cluster.settings.docs import describe
from cluster.settings.node import SECTIONS, build_node, read_node
from cluster.settings.settings import SettingsError


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_is_documented(name: str) -> None:
    silent = [doc.name for doc in describe(SECTIONS[name]) if not doc.text]
    assert not silent, f"[{name}] says nothing about {silent}"


@pytest.mark.parametrize("name", FILES)
def test_conf_is_current(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == FILES[name](), "run scripts/gen-conf"


def test_every_setting_stands_in_the_file() -> None:
    text = FILES["conf/broker.toml"]()
    for kind in SECTIONS.values():
        for doc in describe(kind):
            assert f"\n# {doc.name} =" in text


def test_the_shipped_example_starts_when_its_secrets_are_drawn() -> None:
    file, drawn = ROOT / "conf" / "broker-of-three.toml", "c0ffee" * 8
    with pytest.raises(SettingsError, match="still the example's text"):
        build_node(read_node(file, {}))
    one = [f"raft.secret={drawn}"]
    with pytest.raises(SettingsError, match="cluster_secret is still the example's text"):
        build_node(read_node(file, {}, one))
    build_node(read_node(file, {}, [*one, f"broker.cluster_secret={drawn}"]))
