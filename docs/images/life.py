"""Draw the life of a task: `python docs/images/life.py` writes life.svg and life-narrow.svg next to this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drawing import arrow, block, box, count, dot, picture, text
from shop import Order

from pynamodb_tracker import Status

FOLDER = Path(__file__).parent

_P, _I, _S, _F = Status.PENDING, Status.IN_PROGRESS, Status.SUCCEEDED, Status.FAILED


@dataclass(frozen=True)
class Place:
    """A state of a step, with the upper left corners of its box in the wide and in the narrow form."""

    step: str
    status: Status
    visits: tuple[int, ...]
    """When the task comes here, counted from its creation."""
    wide: tuple[int, int]
    narrow: tuple[int, int]

    @property
    def code(self) -> int:
        """The number that is stored."""
        return int(getattr(getattr(Order, self.step), self.status).code)


PLACES = [
    Place("confirm_payment", _P, (1,), (16, 78), (20, 56)),
    Place("confirm_payment", _I, (2,), (97, 186), (206, 114)),
    Place("confirm_payment", _S, (3,), (188, 78), (20, 170)),
    Place("ship", _P, (3,), (300, 78), (20, 214)),
    Place("ship", _I, (4, 6), (391, 186), (206, 276)),
    Place("ship", _F, (5,), (391, 286), (20, 276)),
    Place("ship", _S, (7,), (488, 78), (20, 342)),
    Place("deliver", _P, (7,), (600, 78), (20, 386)),
    Place("deliver", _I, (8,), (685, 186), (206, 444)),
    Place("deliver", _S, (9,), (772, 78), (20, 500)),
]
"""Where the task comes; tests/docs/test_images.py compares them with a real one."""

_WIDE, _NARROW = (112, 48), (134, 44)
"""The size of a box. That of an attempt is 6 points wider in the wide form."""
TITLE = "A task moves through three steps: succeeded of one step is pending of the next"
SAID = """\
The numbers follow one order. Its
first attempt to ship fails.
succeeded of one step is pending
of the next: one state, two names."""


def wide() -> Iterator[str]:
    """Yield the elements of the picture with the steps in a row."""
    for x, width, step in ((8, 292, "confirm_payment"), (300, 300, "ship"), (600, 292, "deliver")):
        yield block(x + 2, 8, width - 4, 344)
        yield text(x + width / 2, 30, _declared(step), "code")
    places = {(place.step, place.status): place.wide for place in PLACES}
    yield f"{dot(72, 52)}\n{arrow('M72 52 V74')}\n{text(82, 62, 'create', anchor='start')}"
    for step in ("confirm_payment", "ship", "deliver"):
        pending, running, done = ((*places[step, each],) for each in (_P, _I, _S))
        start, end, y = pending[0] + 44, done[0] + 68, running[1] + 24
        yield arrow(f"M{start} 126 V{y - 8} Q{start} {y} {start + 8} {y} H{running[0] - 4}")
        yield text(start + 8, 160, "claim", anchor="start")
        yield arrow(f"M{running[0] + 118} {y} H{end - 8} Q{end} {y} {end} {y - 8} V130")
        yield text(end - 8, 160, "success", anchor="end")
    x = places["ship", _F][0]
    yield f"{arrow(f'M{x + 36} 234 V282')}\n{text(x + 28, 264, 'failure', anchor='end')}"
    yield f"{arrow(f'M{x + 82} 286 V238')}\n{text(x + 90, 264, 'claim, when due', anchor='start')}"
    yield text(22, 272, SAID, anchor="start")
    for place in PLACES:
        yield _box(place, place.wide, (_WIDE[0] + 6 * (place.status in {_I, _F}), _WIDE[1]))
    for place in PLACES:
        if place.status is not _S or place.step == "deliver":
            corner = place.wide if place.status is _P else (place.wide[0] + 118, place.wide[1])
            yield from (count(corner[0] - 20 * number, corner[1], at) for number, at in enumerate(place.visits[::-1]))


def narrow() -> Iterator[str]:
    """Yield the elements of the picture with the steps below each other."""
    for y, height, step in ((8, 206, "confirm_payment"), (214, 172, "ship"), (386, 164, "deliver")):
        yield block(8, y + 2, 344, height - 4)
        yield text(344, y + 18, _declared(step), "code", anchor="end")
    places = {(place.step, place.status): place.narrow for place in PLACES}
    yield f"{dot(87, 24)}\n{arrow('M87 24 V52')}\n{text(97, 44, 'create', anchor='start')}"
    for step in ("confirm_payment", "ship", "deliver"):
        pending, running, done = (places[step, each] for each in (_P, _I, _S))
        y, end = pending[1] + 32, done[1] + 22
        yield arrow(f"M154 {y} H265 Q273 {y} 273 {y + 8} V{running[1] - 4}")
        yield text(160, y - 5, "claim", anchor="start")
        yield arrow(f"M273 {running[1] + 44} V{end - 8} Q273 {end} 265 {end} H158")
        yield text(160, end - 5, "success", anchor="start")
    y = places["ship", _F][1]
    yield f"{arrow(f'M206 {y + 16} H158')}\n{text(181, y + 10, 'failure', 'note')}"
    yield f"{arrow(f'M154 {y + 34} H202')}\n{text(180, y + 49, 'claim', 'note')}"
    yield text(16, 574, SAID, anchor="start")
    yield from (_box(place, place.narrow, _NARROW) for place in PLACES)
    for place in PLACES:
        if place.status is not _S or place.step == "deliver":
            x, y = place.narrow
            x += 134 * (place.status is _I)
            yield from (count(x - 20 * number, y, at) for number, at in enumerate(place.visits[::-1]))


def _declared(step: str) -> str:
    return f"{step} = Step({getattr(Order, step).number})"


def _box(place: Place, at: tuple[int, int], size: tuple[int, int]) -> str:
    return box(at, size, place.status, str(place.code))


def files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, and its text."""
    yield "life.svg", picture(TITLE, 900, 360, wide())
    yield "life-narrow.svg", picture(TITLE, 360, 642, narrow())


if __name__ == "__main__":
    for name, drawn in files():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
