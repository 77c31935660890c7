"""anomalies/*.txt says what the page's section says, without a browser."""

from __future__ import annotations

import re
from pathlib import Path

from chaos.report.page import write_report
from tests.chaos.report.folders import replicas, write_folder
from tests.chaos.report.test_page import ANOMALY, Page


def test_each_anomaly_has_a_text_and_the_page_links_it(tmp_path: Path) -> None:
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))
    two = {"name": "election/safety", "detail": "term 2 has two leaders: n1 at 5.7 s, n2 at 5.8 s"}
    root = write_folder(tmp_path / "run", [ANOMALY, two], logs)
    page = Page(write_report(root).read_text("utf-8"))
    names = ["anomalies/001-lost-middle.txt", "anomalies/002-election_safety.txt"]
    assert [link for link in page.links if link.startswith("anomalies/")] == names
    lost, elected = ((root / name).read_text("utf-8") for name in names)
    assert lost.startswith(f"lost-middle\n{ANOMALY['detail']}\n")
    assert "again: dledger chaos run --seed 5" in lost
    assert "p0 append p0-6 q0 offset 3 ok at 1.500 s took 100.0 ms" in lost
    assert re.search(r"^  > +3 +p0-6 +absent +p0-6$", lost, re.MULTILINE)
    assert "5.7000  n1  leader in term 2, vote n1, leader n1, committed 19, last 19" in elected
    assert "4.90  kill   n0  n0 died <by> 9" in elected


def test_texts_of_an_earlier_report_go(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    (root / "anomalies").mkdir()
    (root / "anomalies" / "001-lost-middle.txt").write_text("an earlier one")
    write_report(root)
    assert not (root / "anomalies").exists()
