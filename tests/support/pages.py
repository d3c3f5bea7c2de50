"""A page of the documentation: its fenced blocks, its links, and the module that its examples make."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pynamodb_tracker import Task
from pynamodb_tracker.testing import local_table

__all__ = ["ROOT", "Block", "Page", "Tables"]

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^\s*(```|~~~)\s*(.*?)\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its first line, from 1."""

    language: str
    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        """The block as one text."""
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Page:
    """A Markdown file of the repository."""

    path: Path

    @classmethod
    def all(cls) -> list["Page"]:
        """Return every page that speaks to users."""
        return [cls(ROOT / "README.md"), cls(ROOT / "CHANGELOG.md"), *map(cls, sorted((ROOT / "docs").rglob("*.md")))]

    @property
    def name(self) -> str:
        """The path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> list[str]:
        """The lines of the file."""
        return self.path.read_text(encoding="utf-8").splitlines()

    def blocks(self) -> Iterator[Block]:
        """Yield the fenced blocks; one that is never closed is an error."""
        opened: Block | None = None
        for number, line in enumerate(self.lines, start=1):
            fence = _FENCE.match(line)
            if opened is None:
                opened = Block(fence[2], number + 1, []) if fence else None
            elif fence and not fence[2]:
                yield opened
                opened = None
            else:
                opened.lines.append(line)
        assert opened is None, f"{self.name} has a block that is never closed"

    def prose(self) -> list[str]:
        """Return the lines, those of blocks and their fences left empty."""
        lines = self.lines
        for block in self.blocks():
            first = block.line - 2
            lines[first : first + len(block.lines) + 2] = [""] * (len(block.lines) + 2)
        return lines

    def links(self) -> list[str]:
        """Return the targets of all links."""
        return [target for line in self.prose() for target in _LINK.findall(_SPAN.sub("", line))]

    def code(self) -> list[str]:
        """Return what the prose quotes as code."""
        return [span for line in self.prose() for span in _SPAN.findall(line)]

    def anchors(self) -> set[str]:
        """Return the anchors of the headings, as GitHub makes them."""
        titles = [line.lstrip("#").strip() for line in self.prose() if re.match(r"#{1,6} ", line)]
        slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
        seen: Counter[str] = Counter()
        anchors = set()
        for slug in slugs:
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return anchors

    def module(self) -> str:
        """Return the examples as a module, each at the lines where the page has it.

        After a block, the tables that it declared are in memory until the end of the page.
        """
        lines = [""] * len(self.lines)
        lines[0] = "from tests.support.pages import Tables; _tables = Tables()"
        for block in self.blocks():
            if block.language == "python":
                after = block.line - 1 + len(block.lines)
                lines[block.line - 1 : after] = block.lines
                lines[after] = "_tables.open(globals())"
        lines += ["_tables.close()", "def test_the_page_was_run(): pass"]
        return "\n".join(lines) + "\n"


class Tables:
    """The tables that a page has declared so far, each in memory."""

    _of_page: ClassVar["Tables | None"] = None

    def __init__(self) -> None:
        if Tables._of_page is not None:  # its page broke
            Tables._of_page.close()
        Tables._of_page = self
        self._stack = ExitStack()
        self._open: set[str] = set()
        # For libraries that expect a current event loop, such as Mangum, and never close the one that they make.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._stack.callback(loop.close)

    def open(self, namespace: dict[str, Any]) -> None:
        """Open the tables among these names that are not open yet."""
        for name, value in list(namespace.items()):
            if isinstance(value, type) and issubclass(value, Task) and "Meta" in vars(value) and name not in self._open:
                self._open.add(name)
                self._stack.enter_context(local_table(value))

    def close(self) -> None:
        """Drop them all."""
        Tables._of_page = None
        self._stack.close()
