"""What the page is made of: its own files only, small enough to be read."""

import re
from operator import attrgetter
from pathlib import Path

import jinja2
import pytest

from pynamodb_tracker import web
from pynamodb_tracker.web import charts, words

ROOT = Path(web.__file__).parent
TEMPLATES = sorted(ROOT.glob("templates/*.html"))
FILES = [*TEMPLATES, *sorted(ROOT.glob("static/*"))]


@pytest.mark.parametrize("file", FILES, ids=attrgetter("name"))
def test_no_template_and_no_asset_names_another_host(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"""https?:|@import|["'(]//""", text)
    assert file.suffix != ".css" or "url(" not in text


@pytest.mark.parametrize("file", TEMPLATES, ids=attrgetter("name"))
def test_no_template_has_a_script_a_style_or_a_text_that_is_not_escaped(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"<script(?! src)|<style|\bstyle=|\bon[a-z]+=|\|\s*safe|autoescape", text)
    jinja2.Environment(autoescape=True).parse(text)


def test_the_script_never_inserts_text_as_html() -> None:
    script = (ROOT / "static" / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)
    assert len(script.splitlines()) < 220


def test_a_chart_escapes_its_labels() -> None:
    drawn = charts.spark([0, 3], '"><script>') + charts.passed([2], [1], 2, "<b>")
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    up, *down = re.findall(' d="(.*?)"', drawn)
    assert (up, down) == ("M240 88v-88h238V88z", ["M0 44v-44h478V44z", "M0 44v22h478V44z"])
    assert "style=" not in drawn


@pytest.mark.parametrize(
    ("value", "text"), [(0, "$0"), (0.0000025, "$0.0000025"), (0.25, "$0.25"), (1234.5, "$1,234.50")]
)
def test_a_price_is_told_however_small_it_is(value: float, text: str) -> None:
    assert words.money(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (2.5, "2.5"), (99.94, "99.9"), (1234.5, "1,234")])
def test_a_number_has_a_decimal_only_if_that_matters(value: float, text: str) -> None:
    assert words.number(value) == text
