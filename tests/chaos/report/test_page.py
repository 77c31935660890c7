"""report.html: whole, fetched from nowhere, right about the run, and readable in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.live.command import USAGE, chaos
from chaos.report.page import write_report
from tests.chaos.report.folders import COUNT, replicas, write_folder
from tests.interop.harness import toolchains

VOID = {"meta", "br", "hr", "img", "input", "link"}
ANOMALY = {
    "name": "lost-middle",
    "detail": "q0: p0-6 acknowledged to p0 at offset 3, 1.600000 s, is not in the log",
}
NARROW_PX, WIDE_PX = 390, 1280
BROWSER_SECONDS_MAX = 60.0


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
        *("nodes.jsonl", "replicas.json", "verdict.json"),
    }
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttp", text)
    assert [path.name for path in written.parent.glob("*report*")] == ["report.html"]


def test_a_page_holds_every_part(tmp_path: Path) -> None:
    page = Page(write_report(lost_one(tmp_path / "run")).read_text("utf-8"))
    assert page.heads == [
        "Checks",
        "The run on one time axis",
        "Clients",
        "What became of every value sent",
        "Anomalies (1)",
        "Replicas",
        "Faults: kinds and targets",
        "Recovery by kind of fault",
        "Environment",
        "Files of this run",
    ]
    count = page.kinds.count
    assert count("fate-ok") + count("fate-lost") == COUNT - 4
    assert (count("fate-lost"), count("fate-failed"), count("fate-unseen")) == (1, 1, 4)
    assert (count("fault"), count("no-effect"), count("band")) == (2 + 1, 1, 2)  # one in the key
    assert count("silence") == 1 + 1
    assert count("role-leader") == 2 + 1
    said = " ".join(page.words)
    assert "INVALID" in said
    assert "dledger chaos run --seed 5" in said
    assert "needs root" in said
    assert "Not drawn by this seed: clock" in said


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
    assert "<img" not in text
    assert "<9>" not in text
    assert "died &lt;by&gt; 9" in text


def test_the_command_writes_the_page_and_refuses_what_is_no_run(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    done = CliRunner().invoke(chaos, ["report", str(root)])
    assert (done.exit_code, done.output.strip()) == (0, str(root / "report.html"))
    assert Page((root / "report.html").read_text("utf-8")).words[0].startswith("UNKNOWN")
    (root / "history.jsonl").unlink()
    refused = CliRunner().invoke(chaos, ["report", str(root)])
    assert refused.exit_code == USAGE
    assert "no folder of a finished run" in refused.output


@pytest.fixture(scope="module")
def browser() -> str:
    """A Chromium; CI installs it where Debian's packages can be reached."""
    if found := shutil.which("google-chrome"):
        return found
    try:
        toolchains.need("chromium")
    except toolchains.Missing as missing:
        pytest.skip(
            f"not here: a browser ({missing})" if toolchains.may_install() else str(missing)
        )
    return shutil.which("chromium") or ""


@pytest.mark.timeout(600)  # the first may have to install the browser
@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_a_browser_shows_it_without_errors_and_without_sideways_scrolling(
    tmp_path: Path, width: int, browser: str
) -> None:
    text = write_report(lost_one(tmp_path / "run")).read_text("utf-8")
    # A frame has the wanted width whatever window the browser opens; the page tells on its parent.
    probe = (
        "<script>document.querySelectorAll('[data-zoom]')[2].click();"
        "document.querySelector('circle').dispatchEvent(new MouseEvent('click',{bubbles:true}));"
        "document.body.dataset.told=[document.documentElement.scrollWidth<=innerWidth,"
        "document.querySelector('.scroll > div').style.width,"
        "document.getElementById('chosen').textContent.length>5].join('|')</script>"
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
            "--virtual-time-budget=3000",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_SECONDS_MAX,
        check=True,
    )
    assert "<title>true|500%|true</title>" in done.stdout
