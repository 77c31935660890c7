"""Metrics with more labels than their node's, and the labels that all metrics have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Family = GaugeMetricFamily | CounterMetricFamily
GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily
RAFT_LABELS = ("group", "self_id")
BROKER_LABELS = ("cluster", "node_id")


class Shape(NamedTuple):
    """A metric with more labels than its node's, or that not every node has."""

    name: str
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily]
    help: str
    labels: tuple[str, ...]

    def family(self) -> GaugeMetricFamily | CounterMetricFamily:
        """Without samples yet."""
        return self.kind(self.name, self.help, labels=self.labels)


def filled(
    shape: Shape, rows: Iterable[tuple[tuple[str, ...], float]], labels: tuple[str, ...]
) -> Family:
    """The family with one series per row: its own labels behind the node's, and its value."""
    family = shape.family()
    for own, value in rows:
        family.add_metric((*labels, *own), float(value))
    return family
