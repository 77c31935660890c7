"""Bytes that came to a proxy and that went on, in Prometheus' text format, written and read.

    toxiproxy_proxy_received_bytes_total{direction="upstream",proxy="n0",…} 73
    toxiproxy_proxy_sent_bytes_total{direction="upstream",proxy="n0",…} 0

The difference of the two is what a toxic swallowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

RECEIVED = "toxiproxy_proxy_received_bytes_total"
SENT = "toxiproxy_proxy_sent_bytes_total"
_LABELS = ("direction", "proxy", "listener", "upstream")
_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Ends = tuple[str, str, str, str]  # stream, proxy, listening address, the target's


class Passed(NamedTuple):
    """Bytes of one stream of a proxy."""

    received: int = 0
    sent: int = 0


def render(passed: Mapping[Ends, Passed]) -> str:
    """The text of GET /metrics."""
    lines = []
    for number, name in enumerate((RECEIVED, SENT)):
        lines.append(f"# TYPE {name} counter")
        for ends, found in passed.items():
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(zip(_LABELS, ends, strict=True)))
            lines.append(f"{name}{{{labels}}} {found[number]}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> dict[Ends, Passed]:
    """Reads the metrics that `render` or the official server wrote; other metrics are passed
    over.
    """
    found: dict[Ends, Passed] = {}
    for name, labels, value in _LINE.findall(text):
        if name not in (RECEIVED, SENT):
            continue
        named = dict(_LABEL.findall(labels))
        ends: Ends = (named["direction"], named["proxy"], named["listener"], named["upstream"])
        before, count = found.get(ends, Passed()), int(float(value))
        found[ends] = (
            before._replace(received=count) if name == RECEIVED else before._replace(sent=count)
        )
    return found
