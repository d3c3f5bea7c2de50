"""Draw states: `python docs/images/states.py` writes states.svg and waiting.svg, and their narrow forms, next to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drawing import arrow, box, count, dot, picture, text

from pynamodb_tracker import Status

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Box:
    """The box of a status; its places are upper left corners, in the wide and in the narrow form."""

    status: Status
    wide: tuple[int, int]
    narrow: tuple[int, int]
    note: str


@dataclass(frozen=True)
class Arrow:
    """How a move is drawn, and where its label is."""

    path: str
    at: tuple[int, int]
    """The position of the label's first line. In the narrow form, the middle of a number: the labels are below."""
    anchor: str = "middle"


@dataclass(frozen=True)
class Move:
    """A way from one status to another; the source None is outside the step."""

    source: Status | None
    target: Status
    words: str
    wide: Arrow
    narrow: Arrow


@dataclass(frozen=True)
class Picture:
    """A picture of states, which tasks enter at the dots."""

    title: str
    height: int
    boxes: list[Box]
    moves: list[Move]

    def wide(self) -> str:
        """Return the file with the labels at their arrows."""
        return picture(self.title, 900, self.height, self._wide())

    def narrow(self) -> str:
        """Return the file for phones: the arrows have numbers."""
        lines = sum(len(_split(move.words)) for move in self.moves)
        return picture(self.title, 360, 352 + 18 * lines + 4 * len(self.moves), self._narrow())

    def _wide(self) -> Iterator[str]:
        yield from (dot(*_start(move.wide)) for move in self.moves if move.source is None)
        for move in self.moves:
            yield f"{arrow(move.wide.path)}\n{text(*move.wide.at, move.words, anchor=move.wide.anchor)}"
        yield from (box(each.wide, (190, 60), each.status, each.note) for each in self.boxes)

    def _narrow(self) -> Iterator[str]:
        yield from (dot(*_start(move.narrow)) for move in self.moves if move.source is None)
        y = 364
        for number, move in enumerate(self.moves, 1):
            yield arrow(move.narrow.path)
            words = _split(move.words)
            yield f"{count(22, y - 5, number)}\n{text(40, y, chr(10).join(words), anchor='start')}"
            y += 18 * len(words) + 4
        yield from (box(each.narrow, (150, 50), each.status, each.note) for each in self.boxes)
        yield from (count(*move.narrow.at, number) for number, move in enumerate(self.moves, 1))


def _start(drawn: Arrow) -> tuple[int, int]:
    x, y = drawn.path.removeprefix("M").split()[:2]
    return int(x), int(y)


def _split(words: str, most: int = 41) -> list[str]:
    """Break a label into lines for the narrow form."""
    lines = [""]
    for word in words.split():
        fits = len(lines[-1]) + len(word) < most
        lines[-1:] = [f"{lines[-1]} {word}".strip()] if fits else [lines[-1], word]
    return lines


_P, _I, _S, _F, _X = Status.PENDING, Status.IN_PROGRESS, Status.SUCCEEDED, Status.FAILED, Status.IGNORED

STATES = Picture(
    "The states of a step, and what moves a task from one to another",
    500,
    [
        Box(_P, (40, 120), (12, 156), "waits for an attempt"),
        Box(_I, (360, 120), (186, 156), "a worker holds the lock"),
        Box(_S, (680, 120), (186, 30), "next step is pending"),
        Box(_F, (360, 275), (186, 282), "tried again when due"),
        Box(_X, (360, 405), (12, 282), "waits for a person"),
    ],
    [
        Move(
            None,
            _P,
            "create, or success\nof the step before",
            Arrow("M135 56 V116", (147, 72), "start"),
            Arrow("M87 86 V152", (87, 116)),
        ),
        Move(_P, _I, "claim, when due", Arrow("M230 138 H356", (293, 130)), Arrow("M162 168 H182", (172, 152))),
        Move(_I, _P, "release", Arrow("M360 164 H234", (297, 182)), Arrow("M186 194 H166", (172, 210))),
        Move(
            _I,
            _I,
            "takeover, when the lock has expired",
            Arrow("M425 120 V80 Q425 72 433 72 H477 Q485 72 485 80 V116", (455, 62)),
            Arrow("M310 156 V140 Q310 132 318 132 H340 Q348 132 348 140 V172 Q348 180 340 180", (336, 132)),
        ),
        Move(_I, _S, "success", Arrow("M550 138 H676", (613, 130)), Arrow("M250 156 V84", (250, 118))),
        Move(_I, _F, "failure", Arrow("M415 180 V271", (407, 232), "end"), Arrow("M250 206 V278", (250, 256))),
        Move(
            _F, _I, "claim,\nwhen due", Arrow("M495 275 V184", (503, 224), "start"), Arrow("M302 282 V210", (302, 234))
        ),
        Move(
            _F,
            _P,
            "reopen",
            Arrow("M360 305 H198 Q190 305 190 297 V184", (206, 297), "start"),
            Arrow("M200 282 L140 210", (192, 272)),
        ),
        Move(
            _F,
            _X,
            "ignore,\nno attempt left",
            Arrow("M455 335 V401", (463, 374), "start"),
            Arrow("M186 312 H166", (174, 328)),
        ),
        Move(
            _I,
            _X,
            "failure of the last attempt,\nGiveUp, give_up_on,\nignore (even_running);\n"
            "when the lock has expired:\nignore, no attempt left",
            Arrow("M550 164 H612 Q620 164 620 172 V427 Q620 435 612 435 H554", (632, 272), "start"),
            Arrow("M200 206 L140 278", (192, 216)),
        ),
        Move(
            _X,
            _P,
            "reopen",
            Arrow("M360 422 H143 Q135 422 135 414 V184", (206, 414), "start"),
            Arrow("M96 282 V210", (96, 256)),
        ),
        Move(
            _P,
            _X,
            "ignore,\nno attempt left",
            Arrow("M80 180 V440 Q80 448 88 448 H356", (206, 466), "start"),
            Arrow("M44 206 V278", (44, 232)),
        ),
    ],
)
"""All moves except those by `also_from`; tests/docs/test_images.py compares them with the writes of the library."""

WAITING = Picture(
    "Where a task waits, and what makes it due again",
    440,
    [
        Box(_P, (40, 170), (12, 156), "due, now or later"),
        Box(_I, (360, 170), (186, 156), "a worker holds the lock"),
        Box(_S, (680, 170), (186, 30), "the end"),
        Box(_P, (360, 320), (186, 282), "blocked by other tasks"),
    ],
    [
        Move(
            None,
            _P,
            "create, create_or_merge",
            Arrow("M135 106 V166", (147, 128), "start"),
            Arrow("M44 86 V152", (44, 116)),
        ),
        Move(_P, _I, "claim", Arrow("M230 188 H356", (293, 180)), Arrow("M162 178 H182", (172, 163))),
        Move(
            _I,
            _P,
            "success of an\nearlier step",
            Arrow("M360 212 H234", (293, 232)),
            Arrow("M186 200 H166", (174, 215)),
        ),
        Move(
            _I,
            _P,
            "success of the last step, if it was requested again meanwhile,\nor if its rule has a next occurrence",
            Arrow("M455 170 V76 Q455 68 447 68 H88 Q80 68 80 76 V166", (92, 36), "start"),
            Arrow("M212 156 V134 Q212 126 204 126 H148 Q140 126 140 134 V152", (176, 126)),
        ),
        Move(
            _I, _S, "success of the\nlast step", Arrow("M550 200 H676", (613, 174)), Arrow("M290 156 V84", (290, 118))
        ),
        Move(
            _I,
            _P,
            "success of a step\nthat has created children",
            Arrow("M455 230 V316", (463, 270), "start"),
            Arrow("M261 206 V278", (261, 242)),
        ),
        Move(
            _P,
            _P,
            "success of the last\nchild, or wait_until;\nend of the task\nbefore, in a group",
            Arrow("M360 350 H168 Q160 350 160 342 V234", (172, 276), "start"),
            Arrow("M186 296 H128 Q120 296 120 288 V210", (120, 250)),
        ),
        Move(
            None,
            _P,
            "create in a\nbusy group",
            Arrow("M640 350 H554", (652, 346), "start"),
            Arrow("M44 318 H182", (110, 318)),
        ),
        Move(
            _S,
            _P,
            "create_or_merge",
            Arrow("M775 230 V402 Q775 410 767 410 H98 Q90 410 90 402 V234", (613, 402)),
            Arrow("M186 55 H98 Q90 55 90 63 V152", (90, 90)),
        ),
    ],
)
"""Moves that merging, repeating, joins and groups add, without failures. tests/docs/test_images.py checks them."""

PICTURES = {"states": STATES, "waiting": WAITING}


def files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, and its text."""
    for name, each in PICTURES.items():
        yield f"{name}.svg", each.wide()
        yield f"{name}-narrow.svg", each.narrow()


if __name__ == "__main__":
    for name, drawn in files():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
