"""The links of a cluster as proxies of one toxiproxy server: the official one, or ours.

    n0 ─peer───► (peer-n0-n1) ─► n1       upstream: what n0 says; downstream: what n1 answers
    client ────► (client-n1)  ─► n1

Every call blocks for about a millisecond and is made in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.live.link_proxy import LinkProxy
from chaos.toxiproxy import official, own
from chaos.toxiproxy.client import NotThere, Toxiproxy
from chaos.toxiproxy.toxics import DOWNSTREAM, UPSTREAM

OFFICIAL, OURS = "the official server", "our server"
BOTH = (UPSTREAM, DOWNSTREAM)


def which_server() -> str:
    """Describes in words the server that `--network toxiproxy` would use on this machine."""
    if found := official.find():
        return f"{OFFICIAL} ({found})"
    if tool := official.go():
        return f"{OFFICIAL} (built at first use with {tool})"
    return f"{OURS}, since no Go tool chain was found"


@contextlib.contextmanager
def serving(*, own_one: bool, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(URL, which server) for as long as the context lasts.

    Without `own_one` the official server, ours where it can neither be found nor built.
    """
    program = None
    if not own_one:
        try:
            program = official.find() or official.build()
        except OSError as error:
            print(f"{OURS} instead of toxiproxy's: {error}", file=sys.stderr)
    if program is None:
        with own.running(seed) as url:
            yield url, OURS
        return
    with official.running(program) as url:
        yield url, OFFICIAL


@dataclass(frozen=True, slots=True)
class ToxicLink:
    """One directed link. `kind`: "peer", "forward" or "client"; addresses are "host:port"."""

    kind: str
    source: str
    target: str
    listen: str
    forward_to: str

    @property
    def name(self) -> str:
        """The proxy's name at the toxiproxy server: kind-source-target."""
        return f"{self.kind}-{self.source}-{self.target}"


class ToxicLinks:
    """All links of a cluster; `open` makes them and `close` deletes them.

    Methods raise ToxiproxyError, an OSError for faults: see `chaos.toxiproxy.client`.
    """

    def __init__(self, links: Mapping[str, LinkProxy]) -> None:
        self.links = [
            ToxicLink(name.split()[0], one.source, one.target, one.listen, one.forward_to)
            for name, one in links.items()
        ]
        self.server = ""
        self._api = Toxiproxy("")

    def open(self, url: str, server: str) -> None:
        """Make every proxy."""
        self.server, self._api = server, Toxiproxy(url)
        for link in self.links:
            self._api.create(link.name, link.forward_to, link.listen)

    def close(self) -> None:
        """Delete every proxy that is there."""
        for link in self.links:
            with contextlib.suppress(NotThere):
                self._api.delete(link.name)

    def of(self, nodes: Sequence[str], *kinds: str) -> list[ToxicLink]:
        """Links that end at one of the nodes; of some kinds, or of all."""
        return [
            link
            for link in self.links
            if (link.source in nodes or link.target in nodes) and (not kinds or link.kind in kinds)
        ]

    def between(self, one: str, other: str) -> list[ToxicLink]:
        """Links from one node to the other or back."""
        return [link for link in self.links if {link.source, link.target} == {one, other}]

    async def add(
        self, links: Iterable[ToxicLink], kind: str, streams: Sequence[str] = BOTH, **values: Any
    ) -> None:
        """A toxic on some streams of some links."""

        def every() -> None:
            for link in links:
                for stream in streams:
                    self._api.add_toxic(link.name, kind, stream, **values)

        await asyncio.to_thread(every)

    async def heal(self, links: Iterable[ToxicLink]) -> None:
        """No toxics, and up; all of them, also when one of them cannot be."""

        def every() -> None:
            failed: list[OSError] = []
            for link in links:
                try:
                    for toxic in self._api.toxics(link.name):
                        self._api.remove_toxic(link.name, toxic["name"])
                    self._api.enable(link.name)
                except OSError as error:
                    failed.append(error)
            if failed:
                raise failed[0]

        await asyncio.to_thread(every)

    async def down(self, links: Iterable[ToxicLink]) -> None:
        """Connections end, dials are refused."""

        def every() -> None:
            for link in links:
                self._api.enable(link.name, enabled=False)

        await asyncio.to_thread(every)

    async def swallowed(self, links: Iterable[ToxicLink]) -> Counter[str]:
        """Link's name → bytes that came and did not go on, of both streams since the beginning.

        The official server counts a connection when it has ended.
        """
        passed = await asyncio.to_thread(self._api.passed)
        total: Counter[str] = Counter()
        for link in links:
            for stream in BOTH:
                if found := passed.get((stream, link.name, link.listen, link.forward_to)):
                    total[link.name] += found.received - found.sent
        return total
