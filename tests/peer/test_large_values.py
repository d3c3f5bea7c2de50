"""A value that is too large for a row fails the attempt with an error; recorded failures never fill the row."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pynamodb_tracker import ValueNotStorableError
from tests.support.operations import row

pytestmark = pytest.mark.usefixtures("stopped_clock")

ROOM = 400 * 1024


@pytest.mark.parametrize("size", [500_000, ROOM + 1, ROOM, ROOM - 100, ROOM - 1_000, ROOM - 2_000])
def test_text_near_and_over_the_limit_is_stored_or_given_up_and_never_strands_it(rival: Any, size: int) -> None:
    rival.create("o")

    with contextlib.suppress(ValueNotStorableError), rival.confirm.start("o") as ctx:
        ctx.task.note = "x" * size

    task = rival.get_task("o")
    assert task.state in {rival.confirm.succeeded, rival.confirm.ignored}
    assert bool(task.note) is (task.state == rival.confirm.succeeded)


def test_500_kb_of_text_fail_the_attempt_with_their_name_and_size(rival: Any) -> None:
    rival.create("o")

    with pytest.raises(ValueNotStorableError, match=r"400|409,600") as error, rival.confirm.start("o") as ctx:
        ctx.task.note = "x" * 500_000

    assert (error.value.attribute, error.value.task_id) == ("note", "o")
    assert error.value.size is not None
    assert error.value.size >= 500_000
    assert rival.get_task("o").errors[-1].type == "ValueNotStorableError"


def test_500_kb_of_text_are_refused_by_save_while_the_run_goes_on(rival: Any) -> None:
    rival.create("o")

    with rival.confirm.start("o") as ctx:
        ctx.task.note = "x" * 500_000
        with pytest.raises(ValueNotStorableError):
            ctx.save()
        ctx.task.note = "in the object store"

    assert rival.get_task("o").note == "in the object store"


def test_500_kb_of_text_are_refused_by_create(rival: Any) -> None:
    with pytest.raises(ValueNotStorableError):
        rival.create("o", note="x" * 500_000)

    assert row(rival, "o") is None


def test_a_task_whose_text_almost_fills_the_row_can_fail_be_ignored_and_reopened(rival: Any) -> None:
    size = largest(rival)
    rival.create("o", note="x" * size)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            rival.confirm.run("o", lambda _: 1 / 0)
    assert rival.confirm.reopen("o").attempt == 0
    rival.confirm.ignore("o", reason="r" * 100_000)
    rival.confirm.reopen("o")

    assert rival.confirm.run("o", lambda ctx: len(ctx.task.note)) == size


def largest(order: Any) -> int:
    """Return how much text a new task takes, to within 100 bytes."""
    for size in range(ROOM, 0, -100):
        with contextlib.suppress(ValueNotStorableError):
            order.create(f"size-{size}", note="x" * size)
            return size
    raise AssertionError("none")


def test_short_failures_with_reopens_between_never_fill_the_row(rival: Any) -> None:
    rival.create("o")
    sizes = []

    for number in range(1, 121):
        with contextlib.suppress(ZeroDivisionError):
            rival.confirm.run("o", lambda _: 1 / 0)
        if number % 3 == 0:
            rival.confirm.reopen("o")
        if number % 20 == 0:
            sizes.append(len(str(row(rival, "o"))))

    assert rival.get_task("o").fence == 120
    assert max(sizes) - min(sizes) < 30


def test_a_message_is_stored_once(rival: Any) -> None:
    said = f"no such address: {'street ' * 20}{6 * 7}"
    rival.create("o")
    with pytest.raises(ValueError, match="no such"), rival.confirm.start("o"):
        raise ValueError(said)

    stored = row(rival, "o")
    assert stored is not None
    assert str(stored["errors"]).count(said) == 1
