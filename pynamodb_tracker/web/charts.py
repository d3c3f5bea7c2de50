"""Draws charts as SVG, without scripts or style attributes, and with all text escaped."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from pynamodb_tracker.presentation.overview import Number

_WIDTH, _HEIGHT, _TOP = 480, 88, 6
"""The drawing's size, which browsers stretch, and the room above its highest column."""
_NARROWEST = 0.8  # in percent of the bar, so that one task among thousands stays visible

_AXIS = Markup('<line class="axis" x1="0" x2="{width}" y1="{y}" y2="{y}"/>')
_COLUMN = Markup(
    '<g class="column"><rect class="room" x="{left}" y="0" width="{room}" height="{height}"/>'
    '<rect class="value" x="{x}" y="{y}" width="{width}" height="{tall}" rx="1.5"/><title>{title}</title></g>'
)
_COLUMNS = Markup(
    '<svg class="{kind}"{times} viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
    'aria-label="{label}">{content}</svg>'
)
_TIMES = Markup(' data-from="{}" data-each="{}"')
_PATH = Markup('<path class="{kind}" d="{columns}"/>')
_PART = Markup('<rect class="fill-{name}" x="{x}%" y="0" width="{width}%" height="100%"/>')
_MORE = Markup('<rect fill="url(#more)" x="{x}%" y="0" width="{width}%" height="100%"/>')
_BAR = Markup('<svg class="bar" role="img" aria-label="{label}">{content}</svg>')


def columns(values: Sequence[int], titles: Sequence[str], label: str, begin: datetime, part: timedelta) -> Markup:
    """Return a chart with a column per `part` of the time since `begin`.

    A script adds the viewer's time zone to the titles. Screen readers read the `label`.
    """
    most, room = max(values, default=0) or 1, _WIDTH / max(len(values), 1)
    content = [_AXIS.format(width=_WIDTH, y=_HEIGHT - 0.5)]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        tall = max((_HEIGHT - _TOP) * value / most, 2) if value else 0
        content.append(
            _COLUMN.format(
                left=round(at * room, 1),
                room=round(room, 1),
                height=_HEIGHT,
                x=round(at * room + 1, 1),
                y=round(_HEIGHT - tall, 1),
                width=round(room - 2, 1),
                tall=round(tall, 1),
                title=title,
            )
        )
    return _draw("columns", content, label, _TIMES.format(begin.isoformat(), part.total_seconds()))


def spark(values: Sequence[int], label: str, most: int = 0) -> Markup:
    """Return a small chart of columns, on a scale up to `most` or more."""
    scale = _HEIGHT / max(*values, most, 1)
    content = [_AXIS.format(width=_WIDTH, y=_HEIGHT - 0.5), _draw_columns("value", values, _HEIGHT, scale, _HEIGHT / 5)]
    return _draw("spark", content, label)


def passed(succeeded: Sequence[int], failed: Sequence[int], most: int, label: str) -> Markup:
    """Return a small chart, with successes above a line and failures below it, on a scale up to `most`."""
    half = _HEIGHT / 2
    scale, least = half / (most or 1), _HEIGHT / 20
    up = _draw_columns("fill-succeeded", succeeded, half, scale, least)
    down = _draw_columns("fill-failed", [-value for value in failed], half, scale, least)
    return _draw("spark", [_AXIS.format(width=_WIDTH, y=half), up, down], label)


def _draw_columns(kind: str, values: Sequence[int], base: float, scale: float, least: float) -> Markup:
    """Draw columns as one path, in half the bytes of rectangles. Negative values go down."""
    room = _WIDTH / max(len(values), 1)
    tall = {at: math.copysign(max(abs(value) * scale, least), -value) for at, value in enumerate(values) if value}
    columns = (f"M{at * room:.4g} {base:g}v{each:.3g}h{room - 2:.4g}V{base:g}z" for at, each in tall.items())
    return _PATH.format(kind=kind, columns="".join(columns))


def _draw(kind: str, content: Sequence[Markup], label: str, times: str = "") -> Markup:
    joined = Markup("").join(content)
    return _COLUMNS.format(kind=kind, times=times, width=_WIDTH, height=_HEIGHT, label=label, content=joined)


def bar(parts: Sequence[tuple[str, Number]], label: str) -> Markup:
    """Return a bar of named parts, with their numbers as label. Parts without a complete count are hatched."""
    whole, at, content = sum(number.tasks for _, number in parts) or 1, 0.0, []
    for name, number in parts:
        if number.tasks:
            width = max(100 * number.tasks / whole, _NARROWEST)
            place = {"x": round(at, 2), "width": round(width, 2)}
            content.append(_PART.format(name=name, **place))
            if number.more:
                content.append(_MORE.format(**place))
            at += width
    numbers = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in parts if number.tasks) or "none"
    return _BAR.format(label=f"{label}: {numbers}", content=Markup("").join(content))
