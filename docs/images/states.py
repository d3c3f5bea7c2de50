"""Draw states: `python docs/images/states.py` writes states.svg and waiting.svg next to this file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pynamodb_tracker import Status

FOLDER = Path(__file__).parent

WIDTH = 900
BOX_WIDTH, BOX_HEIGHT = 190, 60

STYLE = """\
    svg { --panel: #ffffff; --ink: #1f2328; --line: #59636e;
          --pending: #0e7490; --in_progress: #1d4ed8; --failed: #b91c1c; --ignored: #a21caf; --succeeded: #15803d; }
    @media (prefers-color-scheme: dark) {
      svg { --panel: #161b22; --ink: #e6edf3; --line: #9198a1;
            --pending: #22d3ee; --in_progress: #79a8ff; --failed: #ff8a80; --ignored: #e879f9; --succeeded: #4ade80; }
    }
    text { font-family: system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-size: 14px;
           fill: var(--ink); }
    .panel { fill: var(--panel); stroke: var(--line); stroke-opacity: 0.4; }
    .box { fill: var(--panel); stroke-width: 2; }
    .status { font-weight: 600; font-size: 16px; text-anchor: middle; }
    .note { text-anchor: middle; font-size: 12px; }
    .move { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#head); }
    .head { fill: var(--line); }"""


@dataclass(frozen=True)
class Box:
    """The box of a status; x and y are its upper left corner."""

    status: Status
    x: int
    y: int
    note: str = ""

    def drawn(self) -> str:
        """Return the elements of the box."""
        colour, middle = f"var(--{self.status})", self.x + BOX_WIDTH // 2
        line = self.y + (27 if self.note else 36)
        note = f'\n  <text class="note" x="{middle}" y="{self.y + 46}">{self.note}</text>' if self.note else ""
        return (
            f'  <rect class="box" style="stroke: {colour}" x="{self.x}" y="{self.y}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="8"/>\n'
            f'  <text class="status" style="fill: {colour}" x="{middle}" y="{line}">{self.status}</text>{note}'
        )


@dataclass(frozen=True)
class Move:
    """An arrow from one status to another, with its label; the source None is outside the step."""

    source: Status | None
    target: Status
    path: str
    at: tuple[int, int]
    """The position of the first line of the label."""
    words: str
    anchor: str = "start"

    def drawn(self) -> str:
        """Return the elements of the arrow."""
        x, y = self.at
        lines = "".join(
            f'\n  <text x="{x}" y="{y + 18 * number}" text-anchor="{self.anchor}">{line}</text>'
            for number, line in enumerate(self.words.splitlines())
        )
        return f'  <path class="move" d="{self.path}"/>{lines}'


@dataclass(frozen=True)
class Picture:
    """A picture of states; a task enters it at the dots, of which one is above the first box."""

    title: str
    height: int
    boxes: list[Box]
    moves: list[Move]
    entry: tuple[int, int] | None = None
    """Where else a task may enter."""

    def drawn(self) -> str:
        """Return the file."""
        places = [(135, self.boxes[0].y - 64), *([self.entry] if self.entry else [])]
        entries = "\n".join(f'  <circle class="head" cx="{x}" cy="{y}" r="6"/>' for x, y in places)
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        return f"""\
<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
  <title>{self.title}</title>
  <style>
{STYLE}
  </style>
  <marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
    <path class="head" d="M0 0 L10 5 L0 10 z"/>
  </marker>
  <rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="10"/>
{entries}
{chr(10).join([each.drawn() for each in self.moves] + [each.drawn() for each in self.boxes])}
</svg>
"""


_P, _I, _S, _F, _X = Status.PENDING, Status.IN_PROGRESS, Status.SUCCEEDED, Status.FAILED, Status.IGNORED

STATES = Picture(
    "The states of a step, and what moves a task from one to another",
    500,
    [
        Box(_P, 40, 120, "waits for an attempt"),
        Box(_I, 360, 120, "a worker holds the lock"),
        Box(_S, 680, 120, "pending of the next step"),
        Box(_F, 360, 275, "another attempt is allowed"),
        Box(_X, 360, 405, "waits for a person"),
    ],
    [
        Move(None, _P, "M135 62 V116", (147, 72), "create, or success\nof the step before"),
        Move(_P, _I, "M230 138 H356", (293, 130), "claim, when due", "middle"),
        Move(_I, _P, "M360 164 H234", (297, 182), "release", "middle"),
        Move(
            _I,
            _I,
            "M425 120 V80 Q425 72 433 72 H477 Q485 72 485 80 V116",
            (455, 62),
            "takeover, when the lock has expired",
            "middle",
        ),
        Move(_I, _S, "M550 138 H676", (613, 130), "success", "middle"),
        Move(_I, _F, "M415 180 V271", (407, 232), "failure", "end"),
        Move(_F, _I, "M495 275 V184", (503, 224), "claim,\nwhen due"),
        Move(_F, _P, "M360 305 H198 Q190 305 190 297 V184", (206, 297), "reopen"),
        Move(_F, _X, "M455 335 V401", (463, 374), "ignore,\nno attempt left"),
        Move(
            _I,
            _X,
            "M550 164 H612 Q620 164 620 172 V427 Q620 435 612 435 H554",
            (632, 272),
            "failure of the last attempt,\nGiveUp, give_up_on,\nignore (even_running);\n"
            "when the lock has expired:\nignore, no attempt left",
        ),
        Move(_X, _P, "M360 422 H143 Q135 422 135 414 V184", (206, 414), "reopen"),
        Move(_P, _X, "M80 180 V440 Q80 448 88 448 H356", (206, 466), "ignore,\nno attempt left"),
    ],
)
"""All moves except those by `also_from`; tests/test_images.py compares them with the writes of the library."""

WAITING = Picture(
    "Where a task waits, and what makes it due again",
    440,
    [
        Box(_P, 40, 170, "due, now or later"),
        Box(_I, 360, 170, "a worker holds the lock"),
        Box(_S, 680, 170, "the end"),
        Box(_P, 360, 320, "blocked: waits for others"),
    ],
    [
        Move(None, _P, "M135 112 V166", (147, 128), "create, create_or_merge"),
        Move(_P, _I, "M230 188 H356", (293, 180), "claim", "middle"),
        Move(_I, _P, "M360 212 H234", (293, 232), "success of an\nearlier step", "middle"),
        Move(
            _I,
            _P,
            "M455 170 V76 Q455 68 447 68 H88 Q80 68 80 76 V166",
            (92, 36),
            "success of the last step, if it was requested again meanwhile,\nor if its rule has a next occurrence",
        ),
        Move(_I, _S, "M550 200 H676", (613, 174), "success of the\nlast step", "middle"),
        Move(_I, _P, "M455 230 V316", (463, 270), "success of a step\nthat has created children"),
        Move(
            _P,
            _P,
            "M360 350 H168 Q160 350 160 342 V234",
            (172, 276),
            "success of the last\nchild, or wait_until;\nend of the task\nbefore, in a group",
        ),
        Move(None, _P, "M640 350 H554", (652, 346), "create in a\nbusy group"),
        Move(_S, _P, "M775 230 V402 Q775 410 767 410 H98 Q90 410 90 402 V234", (613, 402), "create_or_merge", "middle"),
    ],
    entry=(640, 350),
)
"""What merging, repeating, joins and groups add, without failures; tests/test_images.py compares it with real moves."""

PICTURES = {"states.svg": STATES, "waiting.svg": WAITING}


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        (FOLDER / name).write_text(picture.drawn(), encoding="utf-8")
