"""SVG pieces on one time axis that stretches with the page.

Horizontal places are percentages of the axis, vertical ones pixels; so nothing but the axis grows
when a reader zooms, and text keeps its size on a phone. Lines live in a nested <svg> whose own
coordinates are 0–1000 × 0–height, stretched without thickening (non-scaling-stroke).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

LINE_UNITS = 1000.0
SLIVER_SHARE = 0.0008  # of the axis: about a pixel of a wide screen
STEP_UNITS = 1.0  # points of a line that are closer than this to the last one are left out
TICKS_MAX = 12


class Axis:
    """`begin` to `seconds`, left to right."""

    def __init__(self, seconds: float, begin: float = 0.0) -> None:
        self.begin, self.seconds = begin, max(seconds, begin + 1e-3)

    @property
    def length(self) -> float:
        """Seconds from end to end."""
        return self.seconds - self.begin

    def share(self, moment: float) -> float:
        """Returns 0 for the axis's begin, 1 for its end; moments outside are moved to its edge."""
        return min(max((moment - self.begin) / self.length, 0.0), 1.0)

    def at(self, moment: float) -> str:
        """Returns the percentage of the axis; moments outside are moved to its edge."""
        return f"{100 * self.share(moment):.3f}%"

    def ticks(self) -> list[float]:
        """Round moments, at most TICKS_MAX of them."""
        step = 10 ** math.floor(math.log10(self.length / TICKS_MAX))
        for factor in (1, 2, 5, 10):
            if self.length / (step * factor) <= TICKS_MAX:
                step *= factor
                break
        first = math.ceil(self.begin / step - 1e-9)
        return [step * i for i in range(first, int(self.seconds / step + 1e-9) + 1)]


def text(x: str, y: float, said: str, kind: str = "") -> str:
    """A label; `kind` is a style class."""
    return f'<text x="{x}" y="{y:g}" class="{kind}">{escape(said)}</text>'


def bar(axis: Axis, begin: float, end: float, y: float, height: float, kind: str, tip: str) -> str:
    """Draws a span of time, at least a visible sliver, with a tooltip."""
    width = f"{100 * max(axis.share(end) - axis.share(begin), SLIVER_SHARE):.3f}%"
    drawn = (
        f'<rect x="{axis.at(begin)}" y="{y:g}" width="{width}" height="{height:g}" '
        f'class="{escape(kind)}"'
    )
    return f"{drawn}><title>{escape(tip)}</title></rect>" if tip else f"{drawn}/>"


def group(pieces: Sequence[str], tip: str) -> str:
    """Groups pieces that share one tooltip: written once per piece, tooltips would be most of the
    page's size."""
    return f"<g><title>{escape(tip)}</title>{''.join(pieces)}</g>"


def dot(axis: Axis, moment: float, y: float, kind: str, tip: str) -> str:
    """One operation."""
    drawn = f'<circle cx="{axis.at(moment)}" cy="{y:.1f}" r="2" class="{escape(kind)}"'
    return f"{drawn}><title>{escape(tip)}</title></circle>" if tip else f"{drawn}/>"


def link(
    axis: Axis, begin: tuple[float, float], end: tuple[float, float], kind: str, tip: str
) -> str:
    """A straight line from (moment, y) to (moment, y)."""
    drawn = (
        f'<line x1="{axis.at(begin[0])}" y1="{begin[1]:g}" x2="{axis.at(end[0])}" y2="{end[1]:g}" '
        f'class="link-{kind}"'
    )
    return f"{drawn}><title>{escape(tip)}</title></line>" if tip else f"{drawn}/>"


def line(
    axis: Axis, points: Iterable[tuple[float, float]], top: float, height: float, kind: str
) -> str:
    """(moment, 0…1 from the bottom) joined; a NaN lifts the pen."""
    paths: list[list[str]] = [[]]
    drawn_to = 0.0
    for moment, share in points:
        if math.isnan(share):
            paths.append([])
            continue
        x = LINE_UNITS * axis.share(moment)
        if paths[-1] and x < drawn_to + STEP_UNITS:
            continue
        drawn_to = x
        paths[-1].append(f"{x:.1f},{height * (1 - share):.1f}")
    drawn = "".join(
        f'<polyline points="{" ".join(path)}" class="{kind}"/>' for path in paths if len(path) > 1
    )
    return (
        f'<svg x="0" y="{top:g}" width="100%" height="{height:g}" preserveAspectRatio="none" '
        f'viewBox="0 0 {LINE_UNITS:g} {height:g}">{drawn}</svg>'
    )


def ruler(axis: Axis, top: float, height: float) -> str:
    """Hairlines at round seconds, and the seconds below them."""
    marks = [
        f'<line x1="{axis.at(t)}" x2="{axis.at(t)}" y1="{top:g}" y2="{top + height:g}" '
        f'class="hair"/>' + text(axis.at(t), top + height + 13, f"{t:g} s", "tick")
        for t in axis.ticks()
        if t <= axis.begin + axis.length * 0.97
    ]
    return "".join(marks)


def chart(height: float, pieces: Sequence[str], label: str) -> str:
    """Makes one drawing as wide as its box; screen readers read `label`."""
    return (
        f'<svg class="chart" width="100%" height="{height:g}" role="img" '
        f'aria-label="{escape(label)}">{"".join(pieces)}</svg>'
    )
