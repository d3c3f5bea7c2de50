"""Draw the sequence diagrams of the pages: mkdocs calls `on_page_markdown`.

The repository's web view draws Mermaid itself. On the site, the theme would load a script from another host, so this
hook draws the part of Mermaid that the pages use, when the site is built: participants, `Note over`, messages and
`alt`. Anything else is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from textwrap import wrap

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_FENCED = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
_NOTE = re.compile(r"Note over (\w+)(?:, ?(\w+))?: (.+)")
_MESSAGE = re.compile(r"(\w+?)(--?)(>>|x)(\w+): (.+)")
_BRANCH = re.compile(r"(alt|else) (.+)|(end)")

_LETTER, _LINE, _GAP = 6.7, 17, 10
"""In points: the width of a letter (an upper bound), the height of a line, the gap between two rows."""

_ON_A_PHONE = 44
"""How many letters fit beside each other there, in the lines of all participants."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its hook
    """Replace each diagram by a drawing."""

    def drawn(block: re.Match[str]) -> str:
        try:
            return drawing(block[1]) + "\n" + drawing(block[1], on_a_phone=True)
        except ValueError as error:
            raise PluginError(f"{page.file.src_uri}: {error}") from error

    return _FENCED.sub(drawn, markdown)


def drawing(text: str, *, on_a_phone: bool = False) -> str:
    """Return a diagram as an HTML element; ValueError for Mermaid that this hook does not support.

    The form for phones has shorter lines, and the site shows it where the screen is narrow.
    """
    first, *rest = [line.strip() for line in text.splitlines() if line.strip()]
    if first != "sequenceDiagram":
        raise ValueError(f"only sequence diagrams of Mermaid are drawn here, not {first!r}: draw an SVG in docs/images")
    labels = {match[1]: match[2] or match[1] for line in rest if (match := _PARTICIPANT.fullmatch(line))}
    if not labels:
        raise ValueError("a diagram has no participant")
    letters = _ON_A_PHONE // len(labels) if on_a_phone else None
    return _Sequence(labels, [line for line in rest if not _PARTICIPANT.fullmatch(line)], letters).drawn()


@dataclass
class _Sequence:
    """Participants side by side, and rows of events from top to bottom."""

    labels: dict[str, str]
    rows: list[str]
    letters: int | None = None
    """The most of a line."""
    y: float = 56
    at: dict[str, float] = field(default_factory=dict)
    opened: list[float] = field(default_factory=list)
    """Where the branches start that have no end yet."""

    def drawn(self) -> str:
        """Return the drawing."""
        self._place()
        drawn = [element for row in self.rows for element in self._row(row)]
        if self.opened:
            raise ValueError("an alt has no end")
        height, last = self.y + 8, max(self.at.values())
        width = last + max(self._width(self.labels[list(self.at)[-1]]), self._notes(list(self.at)[-1])) / 2 + 2 * _GAP
        heads = [element for name in self.labels for element in self._head(name, height)]
        return "\n".join(
            [
                '<figure class="sequence phone" data-search-exclude>' if self.letters else '<figure class="sequence">',
                f'<svg role="img" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
                *heads,
                *drawn,
                "</svg>",
                "</figure>",
            ]
        )

    def _lines(self, text: str) -> list[str]:
        lines = re.split(r"<br ?/?>", text)
        return (
            [part for line in lines for part in wrap(line, self.letters, break_long_words=False)]
            if self.letters
            else lines
        )

    def _width(self, text: str) -> float:
        return max(len(line) for line in self._lines(text)) * _LETTER + 2 * _GAP

    def _place(self) -> None:
        """Place the participants, far enough apart for the text between them."""
        names = list(self.labels)
        x = max(self._width(self.labels[names[0]]), self._notes(names[0])) / 2 + 2 * _GAP
        self.at[names[0]] = x
        for left, right in pairwise(names):
            between = [
                self._width(match[5])
                for row in self.rows
                if (match := _MESSAGE.fullmatch(row)) and {match[1], match[4]} == {left, right}
            ]
            labels = (self._width(self.labels[left]) + self._width(self.labels[right])) / 2 + _GAP
            x += max([labels, max(self._notes(left), self._notes(right)) / 2 + _GAP, *between])
            self.at[right] = x

    def _notes(self, name: str) -> float:
        """Return the width of the widest note over a participant."""
        notes = (match for row in self.rows if (match := _NOTE.fullmatch(row)))
        return max((self._width(match[3]) for match in notes if match[1] == name and not match[2]), default=0)

    def _head(self, name: str, height: float) -> Iterator[str]:
        x, width = self.at[name], self._width(self.labels[name])
        yield f'<path class="life" d="M{x:.0f} 34 V{height:.0f}"/>'
        yield f'<rect class="who" x="{x - width / 2:.0f}" y="6" width="{width:.0f}" height="28" rx="4"/>'
        yield f'<text x="{x:.0f}" y="25">{escape(self.labels[name])}</text>'

    def _row(self, row: str) -> Iterator[str]:
        if match := _NOTE.fullmatch(row):
            yield from self._note(match)
        elif match := _MESSAGE.fullmatch(row):
            yield from self._message(match)
        elif match := _BRANCH.fullmatch(row):
            yield from self._branch(match)
        else:
            raise ValueError(f"this line of a diagram is not drawn here: {row!r}")

    def _x(self, name: str) -> float:
        if name not in self.at:
            raise ValueError(f"a diagram names {name!r}, which is not a participant")
        return self.at[name]

    def _note(self, match: re.Match[str]) -> Iterator[str]:
        left, right, lines = self._x(match[1]), self._x(match[2] or match[1]), self._lines(match[3])
        width = max(self._width(match[3]), abs(right - left) + 4 * _GAP)
        height, x = len(lines) * _LINE + _GAP, (left + right) / 2
        place = f'x="{x - width / 2:.0f}" y="{self.y:.0f}" width="{width:.0f}" height="{height}"'
        yield f'<rect class="note" {place} rx="4"/>'
        for number, line in enumerate(lines):
            yield f'<text x="{x:.0f}" y="{self.y + 17 + number * _LINE:.0f}">{escape(line)}</text>'
        self.y += height + _GAP

    def _message(self, match: re.Match[str]) -> Iterator[str]:
        source, target, lost = self._x(match[1]), self._x(match[4]), match[3] == "x"
        way, kind = (1 if target > source else -1), "answer" if match[2] == "--" else "request"
        end, y = target - way * (16 if lost else 2), self.y + 3
        for line in self._lines(match[5]):
            y += _LINE
            yield f'<text x="{(source + target) / 2:.0f}" y="{y - 6:.0f}">{escape(line)}</text>'
        yield f'<path class="{kind}" d="M{source:.0f} {y:.0f} H{end:.0f}"/>'
        head = "m-5 -5 l10 10 m0 -10 l-10 10" if lost else f"m{-8 * way} -4 l{8 * way} 4 l{-8 * way} 4"
        yield f'<path class="request" d="M{end:.0f} {y:.0f} {head}"/>'
        self.y = y + _GAP

    def _branch(self, match: re.Match[str]) -> Iterator[str]:
        """Draw the line above a branch; at the end, the frame around all branches."""
        left, right = 4, max(self.at.values()) + self._notes(list(self.at)[-1]) / 2 + _GAP
        if match[1] == "alt":
            self.opened.append(self.y)
        if not self.opened:
            raise ValueError(f"a diagram has {match[0]!r} without an alt")
        if match[3]:
            top = self.opened.pop()
            yield f'<rect class="alt" x="{left}" y="{top:.0f}" width="{right - left:.0f}" height="{self.y - top:.0f}"/>'
        else:
            if match[1] == "else":
                yield f'<path class="answer" d="M{left} {self.y:.0f} H{right:.0f}"/>'
            yield f'<text class="branch" x="{left + _GAP}" y="{self.y + 17:.0f}">{escape(match[2])}</text>'
            self.y += _LINE + _GAP
        self.y += _GAP if match[3] else 0
