"""The elements of the drawn pictures: boxes, arrows and text, in the colours of the statuses, for light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

STYLE = """\
    svg { --panel: #ffffff; --ink: #1f2328; --line: #59636e; --shade: #f0f3f6;
          --pending: #0e7490; --in_progress: #1d4ed8; --failed: #b91c1c; --ignored: #a21caf; --succeeded: #15803d; }
    @media (prefers-color-scheme: dark) {
      svg { --panel: #161b22; --ink: #e6edf3; --line: #9198a1; --shade: #21262d;
            --pending: #22d3ee; --in_progress: #79a8ff; --failed: #ff8a80; --ignored: #e879f9; --succeeded: #4ade80; }
    }
    text { font-family: system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-size: 14px;
           fill: var(--ink); }
    .panel { fill: var(--panel); stroke: var(--line); stroke-opacity: 0.4; }
    .shade { fill: var(--shade); }
    .box { fill: var(--panel); stroke-width: 2; }
    .status { font-weight: 600; font-size: 16px; }
    .strong { font-weight: 600; }
    .note { font-size: 12px; }
    .code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
            font-size: 12px; }
    .move { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#head); }
    .rule { fill: none; stroke: var(--line); stroke-opacity: 0.6; }
    .head { fill: var(--line); }
    .count { fill: var(--panel); font-size: 11px; font-weight: 600; }"""


def text(
    x: float, y: float, words: str, kind: str = "", *, anchor: str = "middle", colour: str = "", step: int = 18
) -> str:
    """Return lines of text, the first one at y."""
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' style="fill: var(--{colour})"' if colour else ""
    return "\n".join(
        f'  <text{attributes} x="{x:g}" y="{y + step * number:g}" text-anchor="{anchor}">{escape(line, quote=False)}'
        "</text>"
        for number, line in enumerate(words.splitlines())
    )


def box(at: tuple[int, int], size: tuple[int, int], status: str, note: str) -> str:
    """Return the box of a status, in its colour and with a note; `at` is its upper left corner."""
    (x, y), (width, height) = at, size
    middle, line = x + width / 2, y + height / 2 - 3
    return f"""\
  <rect class="box" style="stroke: var(--{status})" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>
{text(middle, line, status, "status", colour=status)}
{text(middle, line + 19, note, "note")}"""


def block(x: float, y: float, width: float, height: float, *, colour: str = "") -> str:
    """Return a rectangle in a pale form of a colour, or shaded."""
    style = f' style="fill: var(--{colour}); fill-opacity: 0.22"' if colour else ""
    return f'  <rect class="shade"{style} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def dot(x: float, y: float) -> str:
    """Return a place from where tasks come."""
    return f'  <circle class="head" cx="{x:g}" cy="{y:g}" r="6"/>'


def count(x: float, y: float, number: int) -> str:
    """Return a number in a circle."""
    return f'  <circle class="head" cx="{x:g}" cy="{y:g}" r="9"/>\n{text(x, y + 4, str(number), "count")}'


def arrow(path: str) -> str:
    """Return a line with a head at its end."""
    return f'  <path class="move" d="{path}"/>'


def rule(path: str) -> str:
    """Return a thin line."""
    return f'  <path class="rule" d="{path}"/>'


def picture(title: str, width: int, height: int, elements: Iterable[str]) -> str:
    """Return the file."""
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
  <title>{title}</title>
  <style>
{STYLE}
  </style>
  <marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
    <path class="head" d="M0 0 L10 5 L0 10 z"/>
  </marker>
  <rect class="panel" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>
{chr(10).join(elements)}
</svg>
"""
