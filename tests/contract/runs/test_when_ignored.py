"""What is created together with a task that is ignored: by its last failure, by a claimer, or by a person."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import ListAttribute, UnicodeAttribute
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import GiveUp, Step, TaskIgnoredError, TaskNotFoundError, UseCase
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.testing import StoppedClock
from tests.support.declaring import refusal
from tests.support.network import Answer, Network, Request, Rule, cancelled, error, passing, silent, unheard
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import AppTask
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table")


class Alert(AppTask):
    use_case_id = UseCase("alert")

    send = Step(10)

    reason = UnicodeAttribute()
    state_of = UnicodeAttribute()
    kinds = ListAttribute[str]()


def alert(task: Any, create: Callable[..., None]) -> None:
    if INTERRUPTS:
        raise INTERRUPTS.pop()
    create(
        Alert,
        f"{task.task_id}/alert",
        reason=task.last_error,
        state_of=str(task.state),
        kinds=kinds(task),
        data=task.data,
    )


def kinds(task: "Flight") -> list[str]:
    return [f"{each.type} {len(each.message)}" for each in task.errors]


INTERRUPTS: list[BaseException] = []
"""What a signal handler raises while the next alert is made."""


KEPT: list[Callable[..., None]] = []


def careless(_task: Any, create: Callable[..., None]) -> None:
    KEPT.append(create)
    create(Alert, "alert", reason="", state_of="", kinds=[])
    raise Broken


class Cruise(AppTask):
    """Tells more than one transaction can create."""

    use_case_id = UseCase("cruise")

    sail = Step(10, when_ignored=lambda _task, create: tell(99, create))


def tell(many: int, create: Callable[..., None]) -> None:
    for number in range(many):
        create(Alert, str(number), reason="", state_of="", kinds=[])


class Flight(AppTask):
    use_case_id = UseCase("flight")

    board = Step(10, max_attempts=1, when_ignored=alert)
    land = Step(20, when_ignored=careless)


def by_the_last_failure(_clock: StoppedClock) -> str:
    fail(Flight.board, "f-1")
    return "Broken: it broke"


def by_giving_up(_clock: StoppedClock) -> str:
    fail(Flight.board, "f-1", GiveUp("no seat"))
    return "GiveUp: no seat"


def by_a_claimer(clock: StoppedClock) -> str:
    die(Flight.board, "f-1")
    clock.advance(timedelta(hours=1))
    with pytest.raises(TaskIgnoredError):
        Flight.board.start("f-1").__enter__()
    return "ignored: 1 of 1 attempts are used, the last one by a worker that died or lost its lock"


def by_a_person(_clock: StoppedClock) -> str:
    assert Flight.board.ignore("f-1", reason="full").state == Flight.board.ignored
    return "ignored: full"


def by_a_person_while_it_runs(_clock: StoppedClock) -> str:
    die(Flight.board, "f-1")
    Flight.board.ignore("f-1", reason="full", even_running=True)
    return "ignored: full"


WAYS = [by_the_last_failure, by_giving_up, by_a_claimer, by_a_person, by_a_person_while_it_runs]


@pytest.mark.parametrize("data", [{"a": 1}, {"a": "x" * 5_000}], ids=["small", "large"])
@pytest.mark.parametrize("ignored", WAYS)
def test_it_is_created_with_the_task_as_it_is_recorded(
    clock: StoppedClock, ignored: Callable[[StoppedClock], str], data: dict[str, Any]
) -> None:
    Flight.create("f-1", data=data)
    with recorded() as requests:
        reason = ignored(clock)
    assert requests.operations.count("TransactWriteItems") == 1
    made, task = Alert.get_task("f-1/alert"), Flight.get_task("f-1")
    assert (task.state, task.last_error, task.errors[-1].one_line) == (Flight.board.ignored, reason, reason)
    assert (made.reason, made.state_of, made.kinds, made.data) == (reason, "board ignored", kinds(task), data)
    assert made.creator == f"flight#{task.creation}#f-1"


def test_what_the_block_assigned_is_not_in_the_task_that_is_ignored() -> None:
    Flight.create("f-1", data={"a": 1})
    with pytest.raises(Broken), Flight.board.start("f-1") as ctx:
        ctx.task.data["a"] = 2
        raise Broken
    assert Alert.get_task("f-1/alert").data == Flight.get_task("f-1").data == {"a": 1}


@pytest.mark.parametrize("name", ["create_time", "trace"])
def test_a_damaged_row_is_ignored_all_the_same(name: str) -> None:
    Flight.create("f-1")
    change(Flight, "f-1", **{name: {"BOOL": True}})
    with pytest.raises(TaskError), Flight.board.start("f-1"):
        pass
    assert stored(Flight, "f-1")["status"] == {"N": str(Flight.board.ignored.code)}
    assert Alert.get_task("f-1/alert").state == Alert.send.pending


def test_damaged_data_of_a_damaged_row_is_not_taken_for_no_data() -> None:
    Flight.create("f-1", data={"a": 1})
    change(Flight, "f-1", trace={"BOOL": True}, data={"N": "5"})
    with pytest.raises(TaskError), Flight.board.start("f-1"):
        pass
    assert stored(Flight, "f-1")["status"] == {"N": str(Flight.board.ignored.code)}
    with pytest.raises(TaskNotFoundError):
        Alert.get_task("f-1/alert")


@pytest.mark.parametrize("by_person", [False, True])
def test_its_errors_are_whole(by_person: Any) -> None:
    Flight.create("f-1")
    if by_person:
        Flight.board.ignore("f-1", reason="full " * 300)
    else:
        fail(Flight.board, "f-1", Broken("full " * 300))
    assert Alert.get_task("f-1/alert").kinds == kinds(Flight.get_task("f-1"))
    assert Alert.get_task("f-1/alert").kinds[0].endswith(" 1500")


def test_a_task_that_is_ignored_once_more_has_created_it_before() -> None:
    Flight.create("f-1")
    for reason in ("one", "two"):
        Flight.board.ignore("f-1", reason=reason)
        Flight.board.reopen("f-1")
    assert Alert.get_task("f-1/alert").reason == "ignored: one"


def test_a_failure_after_which_another_attempt_is_allowed_creates_nothing() -> None:
    Flight.create("f-1", state=Flight.land.pending)
    with recorded() as requests:
        fail(Flight.land, "f-1")
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def the_id_is_taken(_network: Network) -> str:
    Alert.create("f-1/alert", reason="mine", state_of="", kinds=[])
    return "it already exists, not as a follow-up"


def the_worker_may_not_create(network: Network) -> str:
    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "TransactWriteItems":
            raise error(operation, "AccessDeniedException")
        return send()

    network.rule = rule
    return "the follow-up tasks were not created"


@pytest.mark.parametrize("ignored", [by_the_last_failure, by_a_claimer, by_a_person])
@pytest.mark.parametrize("trouble", [the_id_is_taken, the_worker_may_not_create])
def test_whatever_keeps_it_from_being_created_the_task_is_ignored(
    clock: StoppedClock,
    network: Network,
    caplog: pytest.LogCaptureFixture,
    trouble: Callable[[Network], str],
    ignored: Callable[[StoppedClock], str],
) -> None:
    Flight.create("f-1")
    says = trouble(network)
    with caplog.at_level(logging.ERROR, "pynamodb_tracker"):
        ignored(clock)
    assert says in caplog.text
    assert Flight.get_task("f-1").state == Flight.board.ignored
    if trouble is the_worker_may_not_create:
        with pytest.raises(TaskNotFoundError):
            Alert.get_task("f-1/alert")


def test_a_function_that_raises_creates_nothing_and_is_noted_on_the_error(caplog: pytest.LogCaptureFixture) -> None:
    Flight.create("f-1", state=Flight.land.pending)
    with caplog.at_level(logging.ERROR, "pynamodb_tracker"), pytest.raises(GiveUp) as given_up:
        Flight.land.run("f-1", give_up)
    assert (Flight.get_task("f-1").state, list(Alert.send.pending.query())) == (Flight.land.ignored, [])
    assert "when_ignored of land of Flight 'f-1' raised Broken, so it creates nothing" in caplog.text
    assert any("raised Broken" in note for note in given_up.value.__notes__)
    with pytest.raises(RuntimeError, match="after when_ignored of land of Flight 'f-1' returned"):
        KEPT.pop()(Alert, "late", reason="", state_of="", kinds=[])


@pytest.mark.parametrize("ignored", [by_the_last_failure, by_a_claimer, by_a_person])
def test_an_exception_of_a_signal_handler_is_raised_once_all_of_it_is_recorded(
    clock: StoppedClock, ignored: Callable[[StoppedClock], str]
) -> None:
    Flight.create("f-1")
    INTERRUPTS.append(SystemExit())
    with pytest.raises(SystemExit):
        ignored(clock)
    assert (Flight.get_task("f-1").state, Alert.get_task("f-1/alert").state) == (
        Flight.board.ignored,
        Alert.send.pending,
    )


def give_up(_ctx: object) -> None:
    raise GiveUp


@pytest.mark.parametrize("ignored", [by_the_last_failure, by_a_person])
def test_an_answer_that_got_lost_changes_nothing(
    clock: StoppedClock, network: Network, ignored: Callable[[StoppedClock], str]
) -> None:
    Flight.create("f-1")
    lost = unheard("TransactWriteItems")

    def rule(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        network.rule = send_all if operation == "TransactWriteItems" else rule
        return lost(operation, request, send)

    def send_all(_operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        return send()

    network.rule = rule
    ignored(clock)
    assert Flight.get_task("f-1").state == Flight.board.ignored
    assert len(Flight.get_task("f-1").errors) == len(list(Alert.send.pending.query())) == 1


@pytest.mark.parametrize("ignored", [by_the_last_failure, by_a_person])
@pytest.mark.parametrize(
    "rule",
    [silent("TransactWriteItems"), cancelled("None", "ThrottlingError"), cancelled("TransactionConflict", "None")],
    ids=["silent", "throttled", "conflict"],
)
def test_what_cannot_be_written_for_now_is_left_to_the_next_one(
    clock: StoppedClock, network: Network, rule: Rule, ignored: Callable[[StoppedClock], str]
) -> None:
    Flight.create("f-1")
    network.rule = rule
    if ignored is by_a_person:
        with pytest.raises(UpdateError):
            ignored(clock)
    else:
        with pytest.raises(Broken) as broken, Flight.board.start("f-1"):
            raise Broken
        assert any("could not record this" in note for note in broken.value.__notes__)
    network.rule = passing
    assert Flight.get_task("f-1").state != Flight.board.ignored
    clock.advance(timedelta(hours=1))
    Flight.board.ignore("f-1", reason="at last")
    assert Alert.get_task("f-1/alert").reason == "ignored: at last"


def test_what_is_no_function_of_a_task_and_create_is_refused_by_the_declaration() -> None:
    assert "when_ignored=" in refusal(pack=Step(10, when_ignored="alert"))  # type: ignore[arg-type]
    assert "a function of (task, create)" in refusal(pack=Step(10, when_ignored=lambda _task: None))  # type: ignore[misc,arg-type]


def test_a_task_is_ignored_although_its_function_creates_too_many(caplog: pytest.LogCaptureFixture) -> None:
    Cruise.create("c-1")
    assert Cruise.sail.ignore("c-1", reason="fog").state == Cruise.sail.ignored
    assert list(Alert.send.pending.query()) == []
    assert "cannot create Alert '98' as well. One transaction has room for at most 98 follow-ups" in caplog.text


def test_a_busy_group_does_not_keep_a_task_from_being_created(network: Network) -> None:
    Flight.create("f-1", group="g")
    busy, sent = cancelled("None", "ConditionalCheckFailed", "None"), list[str]()

    def rule(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        sent.extend([operation] if operation == "TransactWriteItems" else [])
        return busy(operation, request, send) if len(sent) <= 6 else send()

    network.rule = rule
    Flight.board.ignore("f-1", reason="full")
    assert Alert.get_task("f-1/alert").reason == "ignored: full"
