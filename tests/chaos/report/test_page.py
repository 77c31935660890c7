"""report.html: whole, fetched from nowhere, right about the run, and readable in a browser."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.verdict import some_of_each
from chaos.live.command import chaos
from chaos.report import tables
from chaos.report.page import write_report
from chaos.tools.exit_codes import USAGE
from tests.chaos.report.folders import COUNT, all_seen, replicas, rows, write_folder, write_lines
from tests.interop.harness import toolchains
from tests.waiting import limit

VOID = {"meta", "br", "hr", "img", "input", "link"}
ANOMALY = {
    "name": "lost-middle",
    "detail": "q0: p0-6 acknowledged to p0 at offset 3, 1.600000 s, is not in the log",
}
#: Nothing in it tells a browser where a line may end.
LONG = {"name": "damaged-answer", "detail": f"r0_was_told_{'mush_' * 100}"}
NARROW_PX, WIDE_PX = 390, 1280
BROWSER_SECONDS_MAX = limit(60)
#: Text of a report, each kind of it, and what WCAG 2.1 (AA) asks of text of this size.
READ = "['body','.chart .term','.chart .tick','th','td','.key','.numbers span','.zoom button']"
CONTRAST_MIN = 4.5
#: Of the first element that a selector names, against the first background that is not transparent.
CONTRAST = """
const parts = (said) => said.match(/[0-9.]+/g).map(Number);
const light = (said) => parts(said).slice(0, 3).map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
const behind = (one) => {
  const said = getComputedStyle(one).backgroundColor;
  return parts(said)[3] === 0 && one.parentElement ? behind(one.parentElement) : said;
};
const contrast = (name) => {
  const one = document.querySelector(name), style = getComputedStyle(one);
  const ink = light(one.closest('svg') ? style.fill : style.color), page = light(behind(one));
  return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
};
"""


class Page(HTMLParser):
    """Checks that tags nest, and keeps what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.heads: list[str] = []
        self.links: list[str] = []
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[name] or "" for name in ("href", "src") if name in found]
        self.kinds += (found.get("class") or "").split()
        assert not any(name.startswith("on") for name in found)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.heads.append(data)
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)


def lost_one(root: Path) -> Path:
    """The folder of a run in which n1 lost an acknowledged message."""
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))
    return write_folder(root, [ANOMALY], logs)


def test_a_check_that_could_not_fail_did_not_pass(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    said = json.loads((root / "verdict.json").read_text("utf-8"))
    assert "not checked" not in write_report(root).read_text("utf-8")
    reason = "the group never changed, as far as logs go back"
    said["not_checked"] = {"two-changes": reason, "diverged": "of another row"}
    (root / "verdict.json").write_text(json.dumps(said), "utf-8")
    text = write_report(root).read_text("utf-8")
    assert f"two-changes: {reason}" in text
    assert text.count("<td>not checked</td>") == 2


def test_a_page_says_what_was_compared(tmp_path: Path) -> None:
    text = write_report(write_folder(tmp_path / "run")).read_text("utf-8")
    assert "came to one end after 0.25 s" in text
    assert "Compared: 4000 bytes in 1 rows of files of each replica, entries 0 to 39." in text
    assert text.count("<td>9f31</td>") == 3


def test_a_page_fetches_nothing_and_its_tags_nest(tmp_path: Path) -> None:
    written = write_report(lost_one(tmp_path / "run"))
    text = written.read_text("utf-8")
    page = Page(text)
    assert set(page.links) == {
        *("copies.json", "env.json", "faults.jsonl", "history.jsonl"),
        *("nodes.jsonl", "replicas.json", "verdict.json", "zero.json"),
        *(f"cluster/n{n}/trace.jsonl" for n in range(3)),
        "anomalies/001-lost-middle.txt",
    }
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttp", text)
    assert [path.name for path in written.parent.glob("*report*")] == ["report.html"]


def test_a_page_holds_every_part(tmp_path: Path) -> None:
    page = Page(write_report(lost_one(tmp_path / "run")).read_text("utf-8"))
    assert page.heads == [
        "Checks",
        "The run on one time axis",
        "Nodes in space and time",
        "Clients",
        "What became of every value sent",
        "Anomalies (1)",
        "Replicas",
        "Faults: kinds and targets",
        "Recovery by kind of fault",
        "Faults, one by one",
        "Weather",
        "Environment",
        "Files of this run",
    ]
    count = page.kinds.count
    assert count("fate-ok") + count("fate-lost") == COUNT - 4
    assert (count("fate-lost"), count("fate-failed"), count("fate-unseen")) == (1, 1, 4)
    assert (count("fault"), count("no-effect"), count("band")) == (2 + 1, 1, 2)  # one in the key
    assert count("silence") == 1 + 1
    # Of the axis and its key, of the diagram and its, and n0 around the anomaly.
    assert count("role-leader") == (2 + 1) + (2 + 1) + 1
    assert (count("link-vote"), count("link-led")) == (3, 4 + 1)
    said = " ".join(page.words)
    assert "INVALID" in said
    assert "dledger chaos run --seed 5" in said
    assert "needs root" in said
    assert "Not drawn by this seed: clock" in said


def test_each_weather_of_the_run_is_a_row(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run", [])
    both = ("0</td><td>1 to 3</td><td>50 %</td><td>0.3</td><td>pause", "6</td>")
    text = write_report(root).read_text("utf-8")
    assert all(f"<td>{row}" in text for row in both)
    env = json.loads((root / "env.json").read_text())
    (root / "env.json").write_text(json.dumps(env | {"swarm": env["swarm"][0]}))  # of older runs
    text = write_report(root).read_text("utf-8")
    assert [f"<td>{row}" in text for row in both] == [True, False]


def test_an_anomaly_shows_each_replicas_log_around_it(tmp_path: Path) -> None:
    text = write_report(lost_one(tmp_path / "run")).read_text("utf-8")
    row = '<tr class="here"><td>3</td><td>p0-6</td><td>absent</td><td>p0-6</td></tr>'
    assert row in text
    assert "replicas first differ at offset 3" in text
    assert "p0 append p0-6 q0 offset 3 ok at 1.500 s took 100.0 ms" in text


def test_what_people_and_nodes_wrote_is_text_and_never_markup(tmp_path: Path) -> None:
    evil = {"name": "<script>x", "detail": "<img src=x onerror=alert(1)>"}
    text = write_report(write_folder(tmp_path / "run", [evil])).read_text("utf-8")
    Page(text)
    assert "<script>x" not in text
    role = {"time": 2.0, "node": "n2", "role": 'x"><img src=x>', "term": 1, "boot": 1}
    write_lines(tmp_path / "run" / "nodes.jsonl", [*rows(), role | {"committed": 1, "last": 1}])
    text = write_report(tmp_path / "run").read_text("utf-8")
    Page(text)
    assert "<img" not in text
    assert "<9>" not in text
    assert "died &lt;by&gt; 9" in text


def test_no_kind_of_anomaly_hides_behind_many_of_another() -> None:
    found = [Anomaly("lost-middle", f"{n}") for n in range(500)] + [Anomaly("election-safety", "x")]
    shown = some_of_each(found, 200)
    assert (len(shown), shown[1].name) == (200, "election-safety")
    verdict = {"anomalies": [], "anomaly_counts": {"lost-middle": 500, "election-safety": 1}}
    broken = {one.promise: one.broken for one in tables.results(verdict) if one.broken}
    assert list(broken.values()) == [500, 1]


def test_a_verdict_that_the_evidence_contradicts_is_not_believed(tmp_path: Path) -> None:
    root = all_seen(lost_one(tmp_path / "run"))
    said = json.loads((root / "verdict.json").read_text("utf-8"))
    said |= {"verdict": "valid", "lost": 0, "violations": 0, "anomalies": []}
    (root / "verdict.json").write_text(json.dumps(said), "utf-8")
    done = CliRunner().invoke(chaos, ["report", str(root)])
    page = (root / "report.html").read_text("utf-8")
    assert (done.exit_code, Page(page).words[0].split()[0]) == (0, "UNKNOWN")
    assert "says otherwise than the evidence" in page


def test_the_command_writes_the_page_and_refuses_what_is_no_run(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    done = CliRunner().invoke(chaos, ["report", str(root)])
    assert (done.exit_code, done.output.strip()) == (0, str(root / "report.html"))
    assert Page((root / "report.html").read_text("utf-8")).words[0].startswith("UNKNOWN")
    (root / "history.jsonl").unlink()
    refused = CliRunner().invoke(chaos, ["report", str(root)])
    assert refused.exit_code == USAGE
    assert "no folder of a run" in refused.output


def test_a_run_that_died_has_a_page_that_says_so(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    for name in ("verdict.json", "replicas.json", "copies.json"):
        (root / name).unlink()
    page = Page(write_report(root).read_text("utf-8"))
    assert page.words[0].startswith("UNKNOWN")
    assert "the run did not end: no replica was read" in page.words


def _with_long_words(root: Path) -> Path:
    """As `lost_one`, with words longer than a phone is wide wherever sentences of checkers go."""
    said = json.loads((lost_one(root) / "verdict.json").read_text("utf-8"))
    said |= {"anomalies": [ANOMALY, LONG], "unknown_because": [LONG["detail"]], "violations": 2}
    (root / "verdict.json").write_text(json.dumps(said))
    return root


@pytest.fixture(scope="module")
def browser() -> str:
    """A Chromium; CI installs it where Debian's packages can be reached."""
    try:
        return toolchains.browser()
    except toolchains.Missing as missing:
        pytest.skip(
            f"not here: a browser ({missing})" if toolchains.may_install() else str(missing)
        )


@pytest.mark.timeout(600)  # the first may have to install the browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_a_browser_shows_it_without_errors_and_without_sideways_scrolling(
    tmp_path: Path, width: int, browser: str, *, dark: bool
) -> None:
    text = write_report(_with_long_words(tmp_path / "run")).read_text("utf-8")
    # A frame has the wanted width whatever window the browser opens; the page tells on its parent.
    probe = (
        f"<script>{CONTRAST}document.querySelectorAll('details').forEach(one=>one.open=true);"
        "document.querySelectorAll('[data-zoom]')[2].click();"
        "const click=(what)=>{document.querySelector(what).dispatchEvent("
        "new MouseEvent('click',{bubbles:true}));"
        "return document.getElementById('chosen').textContent;};"
        "document.body.dataset.told=[document.documentElement.scrollWidth<=innerWidth,"
        "document.querySelector('.scroll > div').style.width,"
        "click('circle').length>5,click('rect.fault').startsWith('kill on n0 at '),"
        "matchMedia('(prefers-color-scheme: dark)').matches,"
        f"{READ}.filter(name=>contrast(name)<{CONTRAST_MIN}).join(' '),"
        "document.querySelectorAll('.link-led').length>0].join('|')</script>"
    )
    probed = tmp_path / "probed.html"
    probed.write_text(text.replace("</body>", probe + "</body>"), "utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe src="probed.html" width="{width}" height="800" onload="'
        'document.title=this.contentDocument.body.dataset.told"></iframe>',
        "utf-8",
    )
    done = subprocess.run(
        [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'browser'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=3000",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_SECONDS_MAX,
        check=True,
    )
    said = f"true|500%|true|true|{str(dark).lower()}||true"
    assert f"<title>{said}</title>" in done.stdout
