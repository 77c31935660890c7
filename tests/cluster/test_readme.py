"""The README says of every request code who answers it."""

from __future__ import annotations

import re
from pathlib import Path

import cluster
from cluster.protocol.codes import RequestCode

README = Path(cluster.__file__).parent / "README.md"


def codes_in_the_table() -> list[int]:
    """Numbers of the first column below "Request codes"."""
    section = README.read_text("utf-8").partition("## Request codes")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return [int(number) for row in rows for number in re.findall(r"\d+", row)]


def test_every_code_stands_in_the_table_once() -> None:
    listed = codes_in_the_table()
    assert sorted(listed) == sorted(RequestCode)
