"""JSON that leaves the library: every program can read it, and every Python can walk it."""

import pytest

from pynamodb_tracker.model.strict_json import MAX_DEPTH, dumps, is_too_deep, marked
from tests.support.rows import nested


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
