"""Draws small charts as SVG, without scripts or style attributes, and with all text escaped."""

import math
from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 480, 88  # which browsers stretch

_AXIS = Markup('<line class="axis" x1="0" x2="{width}" y1="{y}" y2="{y}"/>')
_CHART = Markup(
    '<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{label}">'
    "{content}</svg>"
)
_PATH = Markup('<path class="{kind}" d="{columns}"/>')


def spark(values: Sequence[int], label: str) -> Markup:
    """Return a small chart of columns."""
    scale = _HEIGHT / max(*values, 1)
    content = [_AXIS.format(width=_WIDTH, y=_HEIGHT - 0.5), _draw_columns("value", values, _HEIGHT, scale, _HEIGHT / 5)]
    return _draw(content, label)


def passed(succeeded: Sequence[int], failed: Sequence[int], most: int, label: str) -> Markup:
    """Return a small chart, with successes above a line and failures below it, on a scale up to `most`."""
    half = _HEIGHT / 2
    scale, least = half / (most or 1), _HEIGHT / 20
    up = _draw_columns("fill-succeeded", succeeded, half, scale, least)
    down = _draw_columns("fill-failed", [-value for value in failed], half, scale, least)
    return _draw([_AXIS.format(width=_WIDTH, y=half), up, down], label)


def _draw_columns(kind: str, values: Sequence[int], base: float, scale: float, least: float) -> Markup:
    """Draw columns as one path, in half the bytes of rectangles. Negative values go down."""
    room = _WIDTH / max(len(values), 1)
    tall = {at: math.copysign(max(abs(value) * scale, least), -value) for at, value in enumerate(values) if value}
    columns = (f"M{at * room:.4g} {base:g}v{each:.3g}h{room - 2:.4g}V{base:g}z" for at, each in tall.items())
    return _PATH.format(kind=kind, columns="".join(columns))


def _draw(content: Sequence[Markup], label: str) -> Markup:
    return _CHART.format(width=_WIDTH, height=_HEIGHT, label=label, content=Markup("").join(content))
