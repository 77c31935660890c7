"""From nothing to a killed leader: each step as a user does it, with the second of its end.

Only the `dledger` command, the console's API, and a headless Chromium where there is one: pages are
then read as a browser draws them. All is made in a folder of its own, and removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS_MAX = 60
LINES, PAUSE = 2_000, 0.002
TOPIC, BODY = "first", "hello from the console"
STEP_SECONDS = 180


@dataclass
class Minute:
    """The clock, the commands' environment, and what has been told."""

    folder: Path
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.env = {**os.environ, "DLEDGER_HOME": str(self.folder), "NAMESRV_ADDR": ""}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def tell(self, text: str) -> None:
        print(f"{self.seconds:5.1f} s  {text}", flush=True)

    def dledger(self, *words: str) -> str:
        """What a command prints. Raises CalledProcessError."""
        command = [sys.executable, "-m", "cluster.cli", *words]
        found = subprocess.run(
            command, env=self.env, stdout=subprocess.PIPE, text=True, check=True,
            timeout=STEP_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return found.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return list(json.loads(self.dledger(*words, "-o", "json")))

    def produce(self, kill: int) -> int:
        """Send LINES lines and kill a process amid them; how many were acknowledged."""
        command = [sys.executable, "-m", "cluster.cli", "produce", TOPIC, "-o", "jsonl"]
        with subprocess.Popen(
            command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as sender:
            assert sender.stdin is not None
            assert sender.stdout is not None
            for number in range(LINES):
                sender.stdin.write(f"line {number}\n")
                sender.stdin.flush()
                if number == LINES // 2:
                    os.kill(kill, signal.SIGKILL)
                time.sleep(PAUSE)
            sender.stdin.close()
            acknowledged = sum(1 for line in sender.stdout if line.strip().startswith("{"))
        if sender.returncode:
            raise SystemExit(f"dledger produce ended with {sender.returncode}")
        return acknowledged


def asked(address: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON of an answer of the API."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:
        return json.load(answer)


def drawn(browser: str | None, address: str, folder: Path, wanted: str) -> str:
    """How a page of the console was looked at. Raises SystemExit when it lacks the text."""
    if browser is None:
        with urllib.request.urlopen(address, timeout=STEP_SECONDS) as answer:
            if b"<title>" not in answer.read():
                raise SystemExit(f"{address} is no page")
        return "served; no Chromium here to draw it"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update"]
    flags += [f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=8000", "--dump-dom"]
    found = subprocess.run(
        [browser, *flags, address], capture_output=True, text=True, timeout=STEP_SECONDS
    )
    if wanted not in found.stdout:
        raise SystemExit(f"{address} does not show {wanted!r}")
    return "as Chromium draws it"


def run(minute: Minute) -> bool:
    """All steps; True if nothing was lost, in time."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    minute.dledger("up", "--any-port")
    nodes = {row["node"]: row for row in minute.rows("ps") if row["admin"]}
    minute.tell(f"a cluster of three is ready: {', '.join(sorted(nodes))}")

    console = nodes["n0"]["admin"]
    how = drawn(browser, f"{console}/#/", minute.folder, "broker-a")
    minute.tell(f"the console is open, {how}: {console}")

    minute.dledger("topic", "create", TOPIC)
    value = {"topic": TOPIC, "body": BODY, "key": "one"}
    sent = asked(f"{console}/api/v1/messages", value)
    found = asked(f"{console}/api/v1/messages/search?topic={TOPIC}&key=one")
    if [row["offset"] for row in found["messages"]] != [sent["offset"]]:
        raise SystemExit("the message that was sent was not found")
    drawn(browser, f"{console}/#/messages/{TOPIC}", minute.folder, BODY if browser else "")
    minute.tell(f"a message is sent and found: {sent['broker']}:{sent['queue']}:{sent['offset']}")

    leader = next(row["node"] for row in minute.rows("status") if row["role"] == "leader")
    acknowledged = minute.produce(nodes[leader]["pid"])
    minute.tell(f"the leader {leader} was killed amid {LINES} sends; {acknowledged} acknowledged")

    printed = minute.dledger("consume", TOPIC, "-n", str(LINES + 1), "-f", "%v\\n")
    read = Counter(printed.splitlines())
    wanted = {BODY, *(f"line {number}" for number in range(LINES))}
    lost = len(wanted - set(read))
    doubled = sum(read.values()) - len(read)
    now = next(
        row["node"] for row in minute.rows("status") if row["up"] and row["role"] == "leader"
    )
    minute.tell(f"{now} leads; read {sum(read.values())}, lost {lost}, doubled {doubled}")
    return lost == 0 and doubled == 0 and acknowledged == LINES and now != leader


def main() -> int:
    """Exit code 0: nothing lost, within SECONDS_MAX."""
    folder = Path(tempfile.mkdtemp(prefix="dledger-first-minute-"))
    minute = Minute(folder)
    try:
        good = run(minute)
        took = minute.seconds
    finally:
        subprocess.run(
            [sys.executable, "-m", "cluster.cli", "down", "--purge"],
            env=minute.env,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        shutil.rmtree(folder, ignore_errors=True)
    passed = good and took <= SECONDS_MAX
    print(f"{'PASS' if passed else 'FAIL'}  {took:.0f} s of {SECONDS_MAX}, downloads not counted")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
