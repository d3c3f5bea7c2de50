"""Parses a documentation page: its fenced blocks, its links, and its examples as a module."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^\s*(```|~~~)\s*(.*?)\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is its first line's number, from 1."""

    language: str
    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Page:
    path: Path

    @classmethod
    def all(cls) -> list["Page"]:
        return [cls(ROOT / "README.md"), cls(ROOT / "CHANGELOG.md"), *map(cls, sorted((ROOT / "docs").rglob("*.md")))]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    def blocks(self) -> Iterator[Block]:
        """Yield the fenced blocks. A block without an end is an error."""
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
        """Return the lines, with blocks and fences left empty."""
        lines = self.lines
        for block in self.blocks():
            first = block.line - 2
            lines[first : first + len(block.lines) + 2] = [""] * (len(block.lines) + 2)
        return lines

    def count_words(self) -> int:
        """Return how many words a reader reads or hears, without code, but with the texts of pictures."""
        text = re.sub(r'<img [^>]*alt="([^"]*)"[^>]*>', r" \1 ", " ".join(self.prose()))
        return len(re.sub(r"</?(?:picture|source)[^>]*>", " ", text).split())

    def links(self) -> list[str]:
        return _LINK.findall(_SPAN.sub("", "\n".join(self.prose())))

    def code(self) -> list[str]:
        return [span for line in self.prose() for span in _SPAN.findall(line)]

    def anchors(self) -> set[str]:
        titles = [line.lstrip("#").strip() for line in self.prose() if re.match(r"#{1,6} ", line)]
        slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
        seen: Counter[str] = Counter()
        anchors = set()
        for slug in slugs:
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return anchors

    def module(self) -> str:
        """Return the examples as a module in which they have the same line numbers as on the page."""
        lines = [""] * len(self.lines)
        for block in self.blocks():
            if block.language == "python":
                lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
        return "\n".join(lines) + "\n"
