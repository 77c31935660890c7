"""A real Prometheus that scrapes a cluster and judges the alert rules that we ship.

    nodes' /metrics ◄─ scrape ─ prometheus ─ rules ─► /api/v1/alerts ─► Firings

With `faster` the rules' minutes are shorter by this factor, also those of rates; thresholds stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp

from cluster.settings.conf_alerts import alerts_yml
from commitlog.advice import Advised

VARIABLE = "DLEDGER_PROMETHEUS"
SCRAPE_SECONDS = 5.0
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
POLL_SECONDS = 0.5
HOST = "127.0.0.1"
FIRING = "firing"
_FOR = re.compile(r"\bfor: (\d+)m\b")
_RANGE = re.compile(r"\[(\d+)m\]")


class NoPrometheus(Advised, OSError):
    """The server is not on this machine, or did not start; the text gives one thing to try."""

    advice = "install Prometheus, and look into the log in its folder"


def program() -> str:
    """Path of the server: $DLEDGER_PROMETHEUS, else the one on the path. Raises NoPrometheus."""
    found = os.environ.get(VARIABLE) or shutil.which("prometheus")
    if not found:
        raise NoPrometheus(
            "no program `prometheus` is on the path; install it (Debian: prometheus), or name it "
            f"in ${VARIABLE}"
        )
    return found


def shortened(rules: str, faster: float) -> str:
    """The rules with minutes that are `faster` times as short, down to one second."""

    def seconds(minutes: str) -> str:
        return f"{max(1, round(int(minutes) * 60 / faster))}s"

    held = _FOR.sub(lambda found: f"for: {seconds(found[1])}", rules)
    return _RANGE.sub(lambda found: f"[{seconds(found[1])}]", held)


@dataclass(slots=True)
class Firing:
    """One alert that fired: seconds after the watch began, first and last; its labels."""

    first: float
    last: float
    labels: dict[str, str] = field(default_factory=dict)


class Prometheus:
    """The server, while `async with` lasts, and the alerts that fired meanwhile.

    Args:
        folder: for its configuration, rules and data; is made.
        targets: "host:port" of the nodes' admin ports.
        faster: divides the rules' minutes and the time between two scrapes.

    Attributes:
        fired: rule → its first and last moment of firing, in seconds on `now`.
        pending: names of rules whose condition held, be it for less than their time.
    """

    def __init__(self, folder: Path, targets: Sequence[str], *, faster: float = 1.0) -> None:
        self.fired: dict[str, Firing] = {}
        self.pending: set[str] = set()
        self.firing: frozenset[str] = frozenset()
        self.scrape_seconds = max(1.0, SCRAPE_SECONDS / faster)
        self._folder, self._targets, self._faster = folder, list(targets), faster
        self._address = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._write()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        try:
            await asyncio.to_thread(self._start)
            await self._ready()
        except BaseException:
            await self.__aexit__()
            raise
        self._watching = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            await asyncio.to_thread(self._stop, self._process)

    def now(self) -> float:
        """Seconds of the clock that `fired` uses."""
        return time.monotonic()

    async def until(self, names: frozenset[str], *, fire: bool, seconds_max: float) -> bool:
        """Wait until all of these rules fire, or none of them; False when it is not in time."""
        end = self.now() + seconds_max
        while self.now() < end:
            if names <= self.firing if fire else not names & self.firing:
                return True
            if self._watching is not None and self._watching.done():
                self._watching.result()
            await asyncio.sleep(POLL_SECONDS)
        return False

    # -- the process

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        rules = alerts_yml()
        (self._folder / "rules.yml").write_text(
            rules if self._faster == 1 else shortened(rules, self._faster), encoding="utf-8"
        )
        every = f"{self.scrape_seconds:g}s"
        job = {"job_name": "dledger", "static_configs": [{"targets": self._targets}]}
        timing = {"scrape_interval": every, "evaluation_interval": every, "scrape_timeout": every}
        whole = {"global": timing, "rule_files": ["rules.yml"], "scrape_configs": [job]}
        # JSON is YAML, too.
        (self._folder / "prometheus.yml").write_text(json.dumps(whole), encoding="utf-8")

    def _start(self) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            self._address = f"{HOST}:{free.getsockname()[1]}"
        with (self._folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program(),
                    "--config.file=prometheus.yml",
                    "--storage.tsdb.path=tsdb",
                    f"--web.listen-address={self._address}",
                ],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C on the terminal is ours to handle
            )

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def _ready(self) -> None:
        """Wait until it serves and has scraped every node once. Raises NoPrometheus."""
        end = self.now() + START_SECONDS_MAX
        while self.now() < end:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                found = (await self._get("targets"))["activeTargets"]
                if len(found) == len(self._targets) and all(t["health"] == "up" for t in found):
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(POLL_SECONDS)
        last = (self._folder / "log.txt").read_text(errors="replace").strip().splitlines()[-1:]
        raise NoPrometheus(f"prometheus did not start: {' '.join(last)}; look into {self._folder}")

    async def _get(self, what: str) -> Any:
        assert self._session is not None
        async with self._session.get(f"http://{self._address}/api/v1/{what}") as answer:
            return (await answer.json())["data"]

    async def _watch(self) -> None:
        while True:  # until it is cancelled
            try:
                found = (await self._get("alerts"))["alerts"]
            except (aiohttp.ClientError, TimeoutError):  # a busy machine
                await asyncio.sleep(POLL_SECONDS)
                continue
            now, firing = self.now(), set()
            for one in found:
                name = one["labels"]["alertname"]
                self.pending.add(name)
                if one["state"] == FIRING:
                    firing.add(name)
                    said = self.fired.setdefault(name, Firing(now, now, one["labels"]))
                    said.last = now
            self.firing = frozenset(firing)
            await asyncio.sleep(POLL_SECONDS)
