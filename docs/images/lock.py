"""Draw the lock over time: `python docs/images/lock.py` writes lock.svg and lock-narrow.svg next to this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drawing import arrow, block, picture, rule, text

FOLDER = Path(__file__).parent

LOCK, MARGIN = 10, 2
"""Seconds: `lock_for`, and the margin for clocks."""
FROZEN = 4
"""When worker A stops to run, in seconds after its claim."""


@dataclass(frozen=True)
class Request:
    """A write that a worker sends, so many seconds after the first one."""

    at: int
    worker: str
    sent: str
    accepted: bool


REQUESTS = [
    Request(0, "A", "claim", accepted=True),
    Request(8, "B", "claim", accepted=False),
    Request(11, "B", "claim", accepted=False),
    Request(13, "B", "claim", accepted=True),
    Request(16, "B", "success", accepted=True),
    Request(17, "A", "success", accepted=False),
]
"""tests/docs/test_images.py sends them, too."""

END = 18
TAKEOVER, SUCCESS = 13, 16
TITLE = "The lock over time: a frozen worker, a takeover, and a late write that is refused"


@dataclass(frozen=True)
class Bar:
    """What a lane shows between two times."""

    lane: str
    begin: int
    end: int
    colour: str
    words: str


BARS = [
    Bar("A", 0, FROZEN, "in_progress", "runs"),
    Bar("A", FROZEN, END, "", "frozen,\nresumed\nat 17 s"),
    Bar("row", 0, LOCK, "in_progress", "locked by A,\nfence 1"),
    Bar("row", LOCK, LOCK + MARGIN, "failed", "margin"),
    Bar("row", TAKEOVER, SUCCESS, "pending", "locked by B,\nfence 2"),
    Bar("row", SUCCESS, END, "succeeded", "succeeded"),
    Bar("B", TAKEOVER, SUCCESS, "pending", "runs"),
]


def wide() -> Iterator[str]:
    """Yield the elements of the picture with the time from left to right."""
    lanes, height = {"A": 22, "row": 122, "B": 222}, 44

    def x(at: float) -> float:
        return 108 + 42 * at

    for lane, y in lanes.items():
        yield text(14, y + 27, "row of o-1" if lane == "row" else f"worker {lane}", "strong", anchor="start")
    for at in (LOCK, LOCK + MARGIN, TAKEOVER):
        yield text(x(at), 117, f"{at} s", "note")
    for bar in BARS:
        yield block(x(bar.begin), lanes[bar.lane], x(bar.end) - x(bar.begin), height, colour=bar.colour)
        words = bar.words if bar.lane == "row" else " ".join(bar.words.splitlines())
        y = lanes[bar.lane] + (18 if "\n" in words else 27)
        yield text((x(bar.begin) + x(bar.end)) / 2, y, words, step=17)
    for each in REQUESTS:
        top, end = (lanes["A"] + height, lanes["row"] - 4) if each.worker == "A" else (lanes["B"], 170)
        if each.worker == "B" and not each.accepted:
            top += height - 20
            yield text(x(each.at), top + 16, "B", "strong")
        yield _request(f"M{x(each.at):g} {top} V{end}", each)
        side = each.at == REQUESTS[-1].at
        words = each.sent if each.accepted else f"{each.sent}:\nrefused"
        place = x(each.at) + (-8 if side else 8)
        colour = "" if each.accepted else "failed"
        yield text(
            place,
            (top + end) / 2 + (0 if "\n" in words else 6),
            words,
            anchor="end" if side else "start",
            colour=colour,
        )


def narrow() -> Iterator[str]:
    """Yield the elements of the picture with the time from top to bottom."""
    lanes, widths = {"A": 10, "row": 130, "B": 280}, {"A": 66, "row": 100, "B": 70}

    def y(at: float) -> float:
        return 44 + 32 * at

    for lane, x in lanes.items():
        head = "row of o-1" if lane == "row" else f"worker {lane}"
        yield text(x + widths[lane] / 2, 28, head, "strong")
    for at in (LOCK, LOCK + MARGIN):
        yield f"{rule(f'M130 {y(at):g} H350')}\n{text(350, y(at) - 4, f'{at} s', 'note', anchor='end')}"
    for bar in BARS:
        yield block(lanes[bar.lane], y(bar.begin), widths[bar.lane], y(bar.end) - y(bar.begin), colour=bar.colour)
        middle = (y(bar.begin) + y(bar.end)) / 2 + 5 - 8 * bar.words.count("\n")
        yield text(lanes[bar.lane] + widths[bar.lane] / 2, middle, bar.words, step=17)
    for each in REQUESTS:
        start, end = (76, 126) if each.worker == "A" else (280, 234)
        line = y(each.at) + (14 if each.at == 0 else 0)
        yield _request(f"M{start} {line:g} H{end}", each)
        colour = "" if each.accepted else "failed"
        yield text((start + end) / 2, line - 5, each.sent, "note", colour=colour)
        if not each.accepted:
            yield text((start + end) / 2, line + 15, "refused", "note", colour=colour)
        if each.worker == "B" and not each.accepted:
            yield text(286, line + 5, "B", "strong", anchor="start")


def _request(path: str, request: Request) -> str:
    drawn = arrow(path)
    return drawn if request.accepted else drawn.replace('class="move"', 'class="move" stroke-dasharray="4 3"')


def files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, and its text."""
    yield "lock.svg", picture(TITLE, 900, 284, wide())
    yield "lock-narrow.svg", picture(TITLE, 360, 632, narrow())


if __name__ == "__main__":
    for name, drawn in files():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
