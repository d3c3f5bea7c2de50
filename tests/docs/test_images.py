"""The pictures of the documentation are what their scripts draw, and show what the library does."""

import os
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, parse

import pytest

from pynamodb_tracker import ExecutionContext, LockLostError, Status, Step, Task, TaskLockedError, UseCase
from pynamodb_tracker.model.status import CANCELLED, Codes
from pynamodb_tracker.testing import LocalTable, stopped_clock
from tests.support.pages import ROOT, Page
from tests.support.writes import as_told, writes_of_ship
from tests.web.browser import path_of_chromium

IMAGES = ROOT / "docs" / "images"
DRAW = """
import runpy, sys
from tests.support.quick_botocore import leave_signatures_out
from tests.support.quick_moto import hurry
hurry()
leave_signatures_out()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SVG = "{http://www.w3.org/2000/svg}"
SHIP = Codes("order", "ship", 200, 300)


class ImageTask(Task):
    class Meta:
        table_name = "images"


def script(name: str) -> dict[str, Any]:
    sys.path.insert(0, str(IMAGES))
    try:
        return runpy.run_path(str(IMAGES / f"{name}.py"))
    finally:
        sys.path.remove(str(IMAGES))
        for module in ("drawing", "shop"):  # or later tests would import these
            sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def states() -> dict[str, Any]:
    return script("states")


@pytest.mark.parametrize("name", ["states", "life", "lock", "table"])
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    drawn = dict(script(name)["files"]())
    assert {file: (IMAGES / file).read_text(encoding="utf-8") for file in drawn} == drawn


def test_it_has_a_box_for_each_status() -> None:
    texts = elements(IMAGES / "states.svg", "text")
    assert sorted(text.text or "" for text in texts if text.get("class") == "status") == sorted(Status)


def test_it_has_an_arrow_for_each_change_of_status_that_the_library_sends(states: dict[str, Any]) -> None:
    sent = set()
    for name, write in writes_of_ship().items():
        told = as_told(write)
        to = re.search(r"\bstatus = (\d+)", told.get("SET", ""))
        # Those come from the states that `also_from` names, and from the end.
        if to and name not in {"claim from", "claim from a wait", "begin anew"}:
            codes = re.findall(r"\bstatus (?:= |IN \()([\d, ]+)", told["IF"])
            moves = {(int(code), int(to[1])) for each in codes for code in each.split(",")}
            sent |= {move for move in moves if CANCELLED not in move}  # the end beside the states of a step
    drawn = {(move.source, move.target) for move in states["STATES"].moves}
    assert drawn == {(SHIP.own[source], status_of(target)) for source, target in sent} | {(None, Status.PENDING)}


class Whole(ImageTask):
    use_case_id = UseCase("whole")

    split = Step(10)
    collect = Step(20)


class Part(ImageTask):
    use_case_id = UseCase("part")

    work = Step(10)


def test_the_picture_of_waiting_has_an_arrow_for_each_way(states: dict[str, Any], local_table: LocalTable) -> None:
    local_table(ImageTask)
    found: dict[type[ImageTask], list[tuple[Status | None, bool]]] = {Whole: [(None, False)], Part: [(None, False)]}

    def look(_ctx: object = None) -> None:
        for model, history in found.items():
            history += [(task.state.status, bool(task.blockers)) for task in model.get_many(["w"])]

    def split(ctx: ExecutionContext[Whole]) -> None:
        look()
        ctx.create(Part, "w", wait=True)

    def work(_ctx: object) -> None:
        look()
        Part.create_or_merge("w")

    Whole.create("w")
    look()
    Whole.split.run("w", split)
    look()
    Part.work.run("w", work)
    look()
    Part.work.run("w", look)
    look()
    Whole.collect.run("w", look)
    look()
    Whole.create_or_merge("w")
    look()
    taken = {(old[0], new[0]) for history in found.values() for old, new in pairwise(history) if old != new}
    assert taken == {(move.source, move.target) for move in states["WAITING"].moves}


def test_the_picture_of_a_life_has_the_states_of_a_real_task_in_their_order(local_table: LocalTable) -> None:
    life = script("life")
    order, found = life["Order"], []
    local_table(order)

    def look(_ctx: object = None) -> None:
        found.append(order.get_task("o-1").state.code)

    def fail(_ctx: object) -> None:
        look()
        raise RuntimeError

    order.create("o-1", number=1)
    look()
    order.confirm_payment.run("o-1", look)
    look()
    with suppress(RuntimeError):
        order.ship.run("o-1", fail)
    for step in (order.ship, order.deliver):
        look()
        step.run("o-1", look)
    look()
    drawn = {(visit, place.code) for place in life["PLACES"] for visit in place.visits}
    assert drawn == set(enumerate(found, 1))


def test_the_picture_of_the_lock_shows_which_requests_are_refused(local_table: LocalTable) -> None:
    lock = script("lock")

    class Locked(ImageTask):
        use_case_id = UseCase("locked")

        ship = Step(10, lock_for=timedelta(seconds=lock["LOCK"]))

    local_table(ImageTask)
    Locked.create("o-1")
    runs, found, said = dict[str, Any](), [], []
    with stopped_clock() as clock:
        begin = clock.now()
        for each in lock["REQUESTS"]:
            clock.advance(begin + timedelta(seconds=each.at) - clock.now())
            try:
                if each.sent == "claim":
                    runs[each.worker] = Locked.ship.start("o-1")
                    fence = runs[each.worker].__enter__().task.fence
                    said.append(f"locked by {each.worker},\nfence {fence}")
                else:
                    runs[each.worker].__exit__(None, None, None)
            except (TaskLockedError, LockLostError):
                found.append(False)
            else:
                found.append(True)
    assert found == [each.accepted for each in lock["REQUESTS"]]
    assert said == [bar.words for bar in lock["BARS"] if "locked" in bar.words]
    assert Locked.tracker.margin == timedelta(seconds=lock["MARGIN"])


def test_the_picture_of_the_table_shows_the_state_and_the_shard_of_a_real_entry() -> None:
    table = script("table")
    item, entry = table["stored"]()
    assert entry.items() <= item.items()
    use_case, code, shard = entry["status_key"]["S"].split("#")
    assert (use_case, int(code)) == ("order", table["Order"].ship.failed.code)
    assert int(shard) < table["SHARDS"]


def test_each_picture_has_a_form_for_phones_and_is_on_a_page() -> None:
    shown = [
        tuple((page.path.parent / path).resolve().name for path in found)
        for page in Page.all()
        for found in re.findall(r'srcset="([^"]+)">\n<img src="([^"]+)"', page.path.read_text(encoding="utf-8"))
    ]
    images = {image.name for image in IMAGES.iterdir() if image.suffix in {".svg", ".png"}}
    assert {name for pair in shown for name in pair} == images
    assert {(narrow, narrow.replace("-narrow", "")) for narrow, _ in shown} == set(shown)


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*-narrow.svg")), ids=lambda image: image.name)
def test_a_form_for_phones_can_be_read_there(image: Path) -> None:
    width = float(parse(image).getroot().get("viewBox", "").split()[2])  # noqa: S314 - our own picture
    size = 20 if image.stem.startswith(("kill", "terminal")) else 12
    assert size * 358 / width > 10  # points, in a column of a phone that is 390 wide


def elements(svg: Path, kind: str) -> list[Element]:
    """Return the elements of a kind, or with `*` all."""
    return list(parse(svg).getroot().iter(kind if kind == "*" else f"{SVG}{kind}"))  # noqa: S314 - our own picture


def status_of(code: int) -> Status:
    return SHIP.own.get(code, Status.SUCCEEDED)


def draw(name: str, *arguments: object) -> None:
    """Run a script, on a moto in a hurry."""
    command = [sys.executable, "-c", DRAW, str(IMAGES / name), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (IMAGES, ROOT)))}
    subprocess.run(command, env=environment, check=True, timeout=120)  # noqa: S603 - our own script


@pytest.mark.parametrize("name", ["terminal", "kill"])
def test_a_picture_of_a_terminal_shows_what_is_printed_there(tmp_path: Path, name: str) -> None:
    draw(f"{name}.py", tmp_path)
    for form in ("", "-narrow"):
        shown = lines_of(IMAGES / f"{name}{form}.svg")
        assert shown == lines_of(tmp_path / f"{name}{form}.svg")
        assert shown[0] == "pynamodb-tracker"
        assert len(shown) > 9
        assert not [line for line in shown if "\N{HORIZONTAL ELLIPSIS}" in line]


def lines_of(svg: Path) -> list[str]:
    """Return what a picture of a terminal says, by line; what a run took, and its rate, are left out."""
    lines: dict[str, str] = {}
    for text in elements(svg, "text"):
        y = text.get("y", "")
        lines[y] = lines.get(y, "") + (text.text or "").replace("\N{NO-BREAK SPACE}", " ")
    return [re.sub(r" in [\dhms ]+(, [\d,]+/s)?$", "", line.rstrip()) for line in lines.values()]


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*.svg")), ids=lambda image: image.name)
def test_no_picture_fetches_anything(image: Path) -> None:
    for element in elements(image, "*"):
        assert not [name for name in element.attrib if name.endswith("href")]
        assert not re.search(r"//|@import|@font-face", " ".join(element.attrib.values()))
    assert not [style for style in elements(image, "style") if re.search(r"//|@import|@font-face", style.text or "")]


@pytest.mark.browser
def test_the_picture_of_the_page_shows_the_page_as_it_is(tmp_path: Path) -> None:
    path_of_chromium()  # skipped without one
    draw("page.py", tmp_path, 1)
    taken = sorted(file.name for file in tmp_path.iterdir())
    assert taken == sorted(file.name for file in IMAGES.glob("*.png"))
    for name in taken:
        assert (IMAGES / name).read_bytes()[16:20] == (tmp_path / name).read_bytes()[16:20]  # the width
