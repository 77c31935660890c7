"""The table of features: long enough, and each command, page and route that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.console.api.routes import ROUTES
from tests.docs.test_commands import complaints

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "features.md"
APP = ROOT / "cluster" / "console" / "static" / "app.js"
MQADMIN = ROOT / "tests" / "interop" / "mqadmin" / "lines.txt"
COLUMNS = ("feature", "RocketMQ Dashboard", "mqadmin", "Kafbat")
COLUMNS += ("Redpanda Console, rpk", "nats", "dledger")
ROWS_MIN = 60
#: Entries of the Dashboard's menu.
DASHBOARD = ("Ops", "Proxy", "Dashboard", "Cluster", "Topic", "Consumer", "Producer", "Message")
DASHBOARD += ("DLQMessage", "MessageTrace", "Acl")


def rows() -> list[dict[str, str]]:
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        if not line.startswith("| ") or line.startswith("| feature |"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == len(COLUMNS), line
        found.append(dict(zip(COLUMNS, cells, strict=True)))
    return found


def test_the_table_is_long_enough_and_each_row_has_an_answer() -> None:
    found = rows()
    assert len(found) >= ROWS_MIN
    assert len({row["feature"] for row in found}) == len(found)
    assert [row["feature"] for row in found if row["dledger"] in ("", "–", "no")] == []


def test_every_verb_of_mqadmin_that_is_tested_has_a_row() -> None:
    named = " ".join(row["mqadmin"] for row in rows())
    verbs = {line.split()[0] for line in MQADMIN.read_text("utf-8").splitlines() if line.strip()}
    assert sorted(verb for verb in verbs if not re.search(rf"`{verb}\b", named)) == []


@pytest.mark.parametrize("entry", DASHBOARD)
def test_every_entry_of_the_dashboards_menu_has_a_row(entry: str) -> None:
    assert [row for row in rows() if re.search(rf"\b{entry}\b", row["RocketMQ Dashboard"])]


def test_commands_pages_and_routes_of_the_table_are_there() -> None:
    known = {f"{route.method} {route.path}" for route in ROUTES}
    app = APP.read_text("utf-8")
    shown = re.findall(r'\["(\w*)", "[\w ]+", \w', app)
    hashes = {*shown, *re.findall(r"^const OTHERS = \{ (\w+):", app, re.M)}
    commands = pages = routes = 0
    for row in rows():
        for code in re.findall(r"`([^`]+)`", row["dledger"]):
            if code.startswith("dledger "):
                commands += 1
                assert list(complaints(code, is_whole=False)) == [], code
            elif code.startswith("#/"):
                pages += 1
                assert code.removeprefix("#/") in hashes, code
            elif code.startswith(("GET ", "POST ", "PATCH ", "DELETE ")):
                routes += 1
                assert code in known, code
    assert commands > ROWS_MIN
    assert pages > 20
    assert routes > 2
