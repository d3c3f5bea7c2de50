"""The same id with another payload: told apart by a fingerprint that the first claim stores."""

from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import PayloadMismatchError, TaskAlreadySucceededError, TaskLockedError, TaskNotStartableError
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import Order, created
from tests.support.workers import Broken, die, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

FIRST, OTHER = {"amount": 100, "currency": "EUR"}, {"amount": 1000, "currency": "EUR"}
step = Order.confirm_payment


def run(must_match: object, **options: Any) -> None:
    step.run("o-1", lambda _: None, must_match=must_match, **options)


def break_down(_: object) -> None:
    raise Broken


def started() -> None:
    die(step, "o-1", must_match=FIRST)


def failed(**options: Any) -> None:
    with pytest.raises(Broken):
        step.run("o-1", break_down, must_match=FIRST, **options)


def ignored() -> None:
    failed()
    step.ignore("o-1", reason="cancelled")


def succeeded() -> None:
    run(FIRST)


def ended() -> None:
    run(FIRST)
    succeed(Order.ship, "o-1")
    succeed(Order.deliver, "o-1")


def failed_after_a_start_without_one() -> None:
    with pytest.raises(Broken):
        step.run("o-1", break_down)
    failed()


def released() -> None:
    with pytest.raises(KeyboardInterrupt), step.start("o-1", must_match=FIRST):
        raise KeyboardInterrupt


def failed_from_another_state() -> None:
    step.ignore("o-1", reason="cancelled")
    failed(also_from=(step.ignored,))


def failed_on_a_machine_whose_clock_is_behind() -> None:
    change(Order, "o-1", lock={"S": "7" * 24})  # a token of the far future, so the claim is sent once more
    failed()


@pytest.mark.parametrize(
    "prepare",
    [
        *(started, failed, ignored, succeeded, ended, released, failed_after_a_start_without_one),
        *(failed_from_another_state, failed_on_a_machine_whose_clock_is_behind),
    ],
)
def test_another_payload_is_refused_in_whatever_state_the_task_is(prepare: Callable[[], None]) -> None:
    prepare()
    before = stored(Order, "o-1")
    with pytest.raises(PayloadMismatchError, match="it was started with another payload before") as refused:
        run(OTHER)
    assert stored(Order, "o-1") == before  # no attempt is used up
    assert refused.value.task is not None


def test_the_same_payload_starts_the_next_attempt_and_is_told_what_it_would_be_told_without() -> None:
    failed()
    with step.start("o-1", must_match=FIRST), pytest.raises(TaskLockedError):
        run(FIRST)
    with pytest.raises(TaskAlreadySucceededError):
        run(FIRST)


def test_a_payload_costs_no_request() -> None:
    with recorded() as requests:
        run(FIRST)
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_each_step_has_a_payload_of_its_own() -> None:
    run(FIRST)
    Order.ship.run("o-1", lambda _: None, must_match=OTHER)
    with pytest.raises(PayloadMismatchError):
        Order.ship.run("o-1", lambda _: None, must_match=FIRST)
    with pytest.raises(TaskAlreadySucceededError):
        run(FIRST)


def test_a_start_without_a_payload_compares_none() -> None:
    failed()
    succeed(step, "o-1")


def test_reopening_lets_the_task_start_with_a_corrected_payload() -> None:
    ignored()
    step.reopen("o-1")
    run(OTHER)
    with pytest.raises(PayloadMismatchError):
        run(FIRST)


def test_an_abandoned_task_is_taken_over_with_the_same_payload_only(clock: StoppedClock) -> None:
    started()
    clock.advance(step._definition.declared.lock_for * 2)
    with pytest.raises(PayloadMismatchError):
        run(OTHER)
    run(FIRST)


def test_a_finished_step_runs_again_with_the_same_payload_only() -> None:
    run(FIRST)
    with pytest.raises(PayloadMismatchError):
        run(OTHER, also_from=(step.succeeded,))
    run(FIRST, also_from=(step.succeeded,))


@created(state=Order.deliver.pending)
def test_a_step_that_starts_from_another_state_keeps_the_payload() -> None:
    failed(also_from=(Order.deliver.pending,))
    with pytest.raises(PayloadMismatchError):
        run(OTHER)
    run(FIRST)


def test_a_task_without_attempts_is_set_aside_by_the_same_payload(clock: StoppedClock) -> None:
    for _ in range(step.max_attempts):
        die(step, "o-1")
        clock.advance(step._definition.declared.lock_for * 2)
    with pytest.raises(TaskNotStartableError, match="attempts are used"):
        run(FIRST)


def test_without_a_detailed_error_another_payload_is_refused_as_any_task(clock: StoppedClock) -> None:
    failed()
    clock.advance(step._definition.declared.lock_for)
    with pytest.raises(TaskNotStartableError), recorded() as requests:
        run(OTHER, detailed_error=False)
    assert requests.operations == ["UpdateItem"]


@pytest.mark.parametrize(
    "payload", [object(), {1: 2}, {"a": {1, 2}}, [b"x"]], ids=["object", "number as key", "set", "bytes"]
)
def test_a_payload_that_json_does_not_have_is_refused_before_any_request(payload: object) -> None:
    with unreached(), pytest.raises(TypeError, match="must_match"):
        run(payload)
