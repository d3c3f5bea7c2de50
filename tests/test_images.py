"""The pictures of the documentation are what their scripts draw, and show what the library does."""

import os
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, parse

import pytest

from pynamodb_tracker import ExecutionContext, Status, Step, Task, UseCase
from pynamodb_tracker.status import Codes
from pynamodb_tracker.testing import LocalTable
from tests.support.pages import ROOT
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


@pytest.fixture(scope="module")
def states() -> dict[str, Any]:
    """Load the script of the states, as it is."""
    return runpy.run_path(str(IMAGES / "states.py"))


def test_the_pictures_of_states_are_what_their_script_draws(states: dict[str, Any]) -> None:
    for name, picture in states["PICTURES"].items():
        assert (IMAGES / name).read_text(encoding="utf-8") == picture.drawn()


def test_it_has_a_box_for_each_status() -> None:
    texts = elements(IMAGES / "states.svg", "text")
    assert sorted(text.text or "" for text in texts if text.get("class") == "status") == sorted(Status)


def test_it_has_an_arrow_for_each_change_of_status_that_the_library_sends(states: dict[str, Any]) -> None:
    sent = set()
    for name, write in writes_of_ship().items():
        told = as_told(write)
        to = re.search(r"\bstatus = (\d+)", told.get("SET", ""))
        if to and name not in {"claim from", "begin anew"}:  # from the states that `also_from` names, and from the end
            codes = re.findall(r"\bstatus (?:= |IN \()([\d, ]+)", told["IF"])
            sent |= {(int(code), int(to[1])) for each in codes for code in each.split(",")}
    drawn = {(move.source, move.target) for move in states["STATES"].moves}
    assert drawn == {(SHIP.own[source], status_of(target)) for source, target in sent} | {(None, Status.PENDING)}


class Whole(ImageTask):
    use_case_id = UseCase("whole")

    split = Step(10)
    collect = Step(20)


class Part(ImageTask):
    use_case_id = UseCase("part")

    work = Step(10)


def test_the_picture_of_waiting_has_an_arrow_for_each_way_that_tasks_take(
    states: dict[str, Any], local_table: LocalTable
) -> None:
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


def elements(svg: Path, kind: str) -> list[Element]:
    """Return the elements of a kind, or with `*` all."""
    return list(parse(svg).getroot().iter(kind if kind == "*" else f"{SVG}{kind}"))  # noqa: S314 - our own picture


def status_of(code: int) -> Status:
    return SHIP.own.get(code, Status.SUCCEEDED)


def draw(script: str, file: Path, *arguments: str) -> None:
    """Run a script, on a moto in a hurry."""
    command = [sys.executable, "-c", DRAW, str(IMAGES / script), str(file), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (IMAGES, ROOT)))}
    subprocess.run(command, env=environment, check=True, timeout=120)  # noqa: S603 - our own script


def test_the_picture_of_the_terminal_shows_what_the_commands_print(tmp_path: Path) -> None:
    draw("terminal.py", tmp_path / "terminal.svg")
    shown = lines_of(IMAGES / "terminal.svg")
    assert shown == lines_of(tmp_path / "terminal.svg")
    assert shown[:2] == ["pynamodb-tracker", "$ pynamodb-tracker status"]


def test_the_picture_of_the_kill_shows_what_happens_to_real_processes(tmp_path: Path) -> None:
    draw("kill.py", tmp_path / "kill.svg")
    assert lines_of(IMAGES / "kill.svg") == lines_of(tmp_path / "kill.svg")


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
    draw("page.py", tmp_path / "page.png", "1")
    widths = [path.read_bytes()[16:20] for path in (IMAGES / "page.png", tmp_path / "page.png")]
    assert widths[0] == widths[1]
