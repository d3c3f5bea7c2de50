"""JSON that leaves the library: every program can read it, and every Python can walk it."""

import ast
from pathlib import Path

import pytest

import pynamodb_tracker
from pynamodb_tracker.model.strict_json import MAX_DEPTH, dumps, is_too_deep, marked
from tests.support.rows import nested

PACKAGE = Path(pynamodb_tracker.__file__).parent
OTHER_WAYS = {"JSONEncoder", "dump", "dumps"}


def ways_of_writing_json(path: Path) -> list[str]:
    """Return how a module uses Python's `json` to write."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            is_writing = ast.unparse(node.value) == "json" and node.attr in OTHER_WAYS
        else:
            is_writing = isinstance(node, ast.ImportFrom) and node.module == "json"
        if is_writing:
            found.append(ast.unparse(node))
    return found


def test_the_package_writes_json_in_one_place() -> None:
    found = {path: ways_of_writing_json(path) for path in PACKAGE.rglob("*.py")}
    assert [path.name for path, lines in found.items() if lines] == ["strict_json.py"]


def test_a_number_that_json_does_not_have_is_refused() -> None:
    for number in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dumps({"rate": [number]})


def test_a_number_that_json_does_not_have_is_shown_as_text() -> None:
    given = {"a": [float("nan"), (float("inf"), -float("inf"))], "b": 1.5}
    assert marked(given) == {"a": ["<NaN>", ["<Infinity>", "<-Infinity>"]], "b": 1.5}


@pytest.mark.parametrize(
    ("value", "is_deep"),
    [
        (nested(MAX_DEPTH - 1), False),
        (nested(MAX_DEPTH), True),
        ({"a": nested(MAX_DEPTH - 1)}, True),
        ([(nested(MAX_DEPTH - 2),)], True),
        ([[]] * 1_000, False),
        ("[" * 1_000, False),
    ],
    ids=["at the limit", "beyond it", "in a dictionary", "in a tuple", "many beside each other", "text"],
)
def test_the_depth_is_how_many_containers_are_nested_in_each_other(value: object, is_deep: bool) -> None:  # noqa: FBT001
    assert is_too_deep(value, dumps(value)) is is_deep
