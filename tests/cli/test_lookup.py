"""The application that a command is about: what `module:Class` finds, and what is said where it finds nothing."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pynamodb_tracker.cli.command import CannotRunError, load_class, load_function

CLASSES = Path(__file__).with_name("classes.txt").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be in a folder with a module and a package, which are forgotten afterwards."""
    (tmp_path / "shop.py").write_text(CLASSES)
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "__init__.py").touch()
    (tmp_path / "stores" / "north.py").write_text(CLASSES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def refusal(name: str) -> str:
    with pytest.raises(CannotRunError) as caught:
        load_class(name)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", ["shop:AppTask", "shop:Order", "shop:order", "stores.north:AppTask"])
def test_a_class_of_tasks_is_found_in_the_current_directory(name: str) -> None:
    module, _, known_as = name.partition(":")
    found = load_class(name)
    assert (found.__module__, found.Meta.table_name) == (module, "tasks")
    assert found is getattr(sys.modules[module], known_as)


def test_the_current_directory_comes_first_on_the_path_and_once(folder: Path) -> None:
    load_class("shop:AppTask")
    load_class("shop:Order")
    assert sys.path[0] == str(folder)
    assert sys.path.count(str(folder)) == 1


def test_a_path_that_has_the_current_directory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [*sys.path, ""]
    monkeypatch.setattr(sys, "path", list(before))
    load_class("shop:AppTask")
    assert sys.path == before


def test_what_a_module_prints_does_not_get_into_the_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "loud.py").write_text(f"{CLASSES}\nprint('ready')")
    load_class("loud:AppTask")
    assert capsys.readouterr() == ("", "ready\n")


@pytest.mark.parametrize(
    ("name", "proposal"),
    [
        ("shop", ", as in shop:AppTask"),
        ("shop:", ", as in shop:AppTask"),
        ("shop.Order", ", as in shop:Order"),
        ("stores.north", ", as in stores.north:AppTask"),
        ("shop.py:Order", ", as in shop:Order"),
        ("stores/north.py", ", as in stores.north:AppTask"),
        ("./stores/north.py:Order", ", as in stores.north:Order"),
        (r"stores\north.py", ", as in stores.north:AppTask"),
        (":Order", ""),
        ("", ""),
        ("the shop", ""),
    ],
)
def test_what_is_no_module_and_class_is_refused_with_what_to_write(name: str, proposal: str) -> None:
    assert refusal(name) == f"{name!r} does not name a task class: write module:Class{proposal}"


@pytest.mark.parametrize("module", ["shpo", "stores.south", "nowhere.at.all"])
def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for(module: str, folder: Path) -> None:
    said = refusal(f"{module}:AppTask")
    missing = "nowhere" if module.startswith("nowhere") else module
    assert said == f"No module named {missing!r}: it is neither in {folder} nor installed"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import gateway", "ModuleNotFoundError at {file}:2: No module named 'gateway'"),
        ("import broken_again", "ModuleNotFoundError at {file}:2: No module named 'broken_again'"),
        ("from shop import Ordr", "ImportError at {file}:2: cannot import name 'Ordr' from 'shop' ({shop})"),
        ("1 / 0", "ZeroDivisionError at {file}:2: division by zero"),
        ("raise SystemExit('no config')", "SystemExit at {file}:2: no config"),
        ("raise ValueError('one\\ntwo')", "ValueError at {file}:2: one two"),
        ("x = (", "SyntaxError: '(' was never closed (broken.py, line 2)"),
    ],
)
def test_a_module_that_breaks_is_reported_apart_with_the_line_that_breaks(folder: Path, line: str, said: str) -> None:
    file = folder / "broken.py"
    file.write_text(f"\n{line}\n")
    output = said.format(file=file, shop=folder / "shop.py")
    assert refusal("broken:AppTask") == f"the module 'broken' cannot be imported: {output}"


def test_a_wrong_declaration_is_reported_at_the_line_of_the_module(folder: Path) -> None:
    (folder / "wrong.py").write_text(CLASSES.replace("    ship = Step(10)", "    ship = Step(0)"))
    said = refusal("wrong:AppTask")
    assert said.startswith(f"the module 'wrong' cannot be imported: DefinitionError at {folder / 'wrong.py'}:9: ")
    assert "write a whole number from 1" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shop:AppTsk", "the module 'shop' does not define 'AppTsk'; did you mean 'AppTask'?"),
        ("shop:Warehouse", "the module 'shop' does not define 'Warehouse'"),
        ("shop:nothing", "the module 'shop' does not define 'nothing'"),
        ("shop:handler", "shop:handler is not a task class: name a class derived from Task, the table or a use case"),
        ("shop:UseCase", "shop:UseCase is not a task class: name a class derived from Task, the table or a use case"),
        ("shop:Base", "shop:Base lacks a table: name a class with class Meta: table_name = ..., or its use case"),
    ],
)
def test_a_class_that_is_none_of_tasks_is_refused_with_what_to_name(name: str, said: str) -> None:
    assert refusal(name) == said


def test_a_function_of_a_module_is_found() -> None:
    assert load_function("shop:charge") is sys.modules["shop"].charge
    assert load_function("shop:fast") is sys.modules["shop"].fast
    assert load_function("builtins:print") is print


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop", "'shop' does not name a function: write module:function"),
        ("shop.py:handler", "'shop.py:handler' does not name a function: write module:function"),
        ("shop:handle", "the module 'shop' does not define 'handle'; did you mean 'handler'?"),
        ("shop:nothing", "the module 'shop' does not define 'nothing'"),
        ("shop:Order", "shop:Order is a class: name a function of the context"),
        ("shop:handler", "shop:handler is called with the context only, but takes (event, context): missing a"),
    ],
)
def test_what_is_no_function_is_refused(name: str, words: str) -> None:
    with pytest.raises(CannotRunError, match=f"^{re.escape(words)}"):
        load_function(name)
