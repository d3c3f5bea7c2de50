"""`run` and `retry`: which tasks they run, what they report, and what they exit with."""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import PutError, QueryError

from pynamodb_tracker import RetryLater, State
from pynamodb_tracker.cli.commands.run import Selection, WatchedBatch
from pynamodb_tracker.cli.interrupts import StopRequest
from pynamodb_tracker.model.row import LATEST_FORMAT
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock, stopped_clock
from pynamodb_tracker.work.candidates import Candidates
from tests.cli.command import read
from tests.cli.command import run_untimed as run
from tests.cli.shop import Order, refuse, waver
from tests.support.processes import until
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.workers import raising

pytestmark = pytest.mark.usefixtures("store")

CHARGE, WAVER, REFUSE = (f"tests.cli.shop:{name}" for name in ("charge", "waver", "refuse"))


def states() -> dict[str, str]:
    counts: dict[State[Order], int] = Order.counts()
    return {task.task_id: str(state) for state, number in counts.items() if number for task in state.query()}


def test_run_runs_what_there_is_to_do_and_reports_it() -> None:
    Order.create_many(["good", "bad", "lost", "worse-bad"])
    ended = run("run", "pay", WAVER, "--threads", "1")
    assert ended.code == 1
    assert [" ".join(line.split()) for line in ended.lines] == [
        "pay: 1 succeeded, 2 failed, 1 ignored",
        "tasks example error",
        "2 worse-bad ConnectionError: the bank did not answer about …, request #",
        "1 lost GiveUp: no such address",
    ]
    assert states() == {"good": "ship pending", "bad": "pay failed", "lost": "pay ignored", "worse-bad": "pay failed"}


def test_a_batch_with_a_limit_does_not_count_all_tasks_for_its_progress_bar() -> None:
    Order.create_many(f"o-{number}" for number in range(12))
    with recorded(Order) as requests:
        assert run("run", "pay", CHARGE, "--limit", "2").lines == ["pay: 2 succeeded"]
    counts = [request.body for request in requests if request.body.get("Select") == "COUNT"]
    assert [body["Limit"] for body in counts] == [10, 10]


def test_what_the_function_prints_goes_to_stderr() -> None:
    Order.create("o-1")
    ended = run("run", "pay", CHARGE)
    assert (ended.code, ended.out, ended.err) == (0, "pay: 1 succeeded\n", "charging o-1\n")
    assert Order.get_task("o-1").data == {"receipt": "r-o-1"}


def test_retry_takes_failed_tasks_alone(store: StoppedClock) -> None:
    for state in (Order.pay.pending, Order.pay.failed, Order.pay.ignored, Order.ship.failed):
        Order.create(str(state), state=state)
    Order.create("abandoned")
    Order.pay.start("abandoned").__enter__()
    store.advance(timedelta(hours=1))
    assert run("retry", "pay", CHARGE).out == "pay: 1 succeeded\n"
    assert states() == {
        "pay pending": "pay pending",
        "pay failed": "ship pending",
        "pay ignored": "pay ignored",
        "ship failed": "ship failed",
        "abandoned": "pay in_progress",
    }


def test_ignored_ones_are_taken_with_a_fresh_set_of_attempts_when_asked_for(store: StoppedClock) -> None:
    Order.create("spent", state=Order.ship.pending)
    for _ in range(2):
        Order.ship.run_all(refuse)
    Order.create("lost", state=Order.ship.ignored)
    Order.create("pending", state=Order.ship.pending)
    store.advance(timedelta(seconds=1))
    ended = run("retry", "ship", REFUSE, "--reopen-ignored")
    assert (ended.code, ended.lines[0]) == (1, "ship: 2 failed")
    assert states() == {"spent": "ship failed", "lost": "ship failed", "pending": "ship pending"}
    assert Order.get_task("spent").attempt == 1
    [[_, command]] = read("now")["commands"]
    assert [command[name] for name in ("did", "about", "tasks")] == ["reopened", "ship.ignored", 2]


@pytest.mark.parametrize(
    ("step", "words", "lines", "left"),
    [
        ("ship", (), ["ship: 7 succeeded"], []),
        ("ship", ("--limit", "5"), ["ship: 5 succeeded"], ["3-a", "3-b"]),
        ("pay", (), ["4 tasks reopened, waiting for their turns", "pay: 3 succeeded"], []),
        ("pay", ("--limit", "1"), ["pay: 1 succeeded"], ["1-a", "1-b", "2-a", "2-b", "3-a", "3-b"]),
    ],
)
def test_ignored_tasks_of_groups_enter_them_again_and_run_in_their_order(
    store: StoppedClock, step: str, words: tuple[str, ...], lines: list[str], left: list[str]
) -> None:
    """After the last step, the next one of the group has its turn. After an earlier one, it waits for the last step."""
    of = getattr(Order, step)
    for number in "123":
        for name in "ab":
            Order.create(f"{number}-{name}", state=of.pending, group=name)
    Order.create("alone", state=of.ignored)
    for number in "312":
        for name in "ab":
            of.ignore(f"{number}-{name}", reason="lost")
    store.advance(timedelta(seconds=1))
    expected = sum(int(line.split()[0]) if line[0].isdigit() else int(line.split()[1]) for line in lines)
    assert len(read("retry", step, CHARGE, "--reopen-ignored", "--dry-run", *words)["due"]) == expected
    ended = run("retry", step, CHARGE, "--reopen-ignored", *words)
    assert (ended.code, ended.lines) == (0, lines)
    assert sorted(task.task_id for task in of.ignored.query()) == left


def test_what_this_retry_itself_ignores_is_not_run_again() -> None:
    Order.create("spent", state=Order.ship.pending)
    Order.ship.run_all(refuse)
    assert run("retry", "ship", REFUSE, "--reopen-ignored").lines[0] == "ship: 1 ignored"
    assert Order.get_task("spent").fence == 2


def test_window_error_and_limit_choose_for_both(store: StoppedClock) -> None:
    Order.create_many(["bad-old", "lost-old"])
    Order.pay.run_all(waver)
    store.advance(timedelta(days=2))
    Order.create_many(["bad-1", "bad-2", "lost-1", "lost-2"])
    Order.pay.run_all(waver, only=(Order.pay.pending,))
    store.advance(timedelta(seconds=1))

    def due(*options: str) -> list[str]:
        found: list[str] = read("retry", "pay", CHARGE, "--dry-run", *options)["due"]
        return found

    assert sorted(due("--reopen-ignored")) == ["bad-1", "bad-2", "bad-old", "lost-1", "lost-2", "lost-old"]
    assert sorted(due("--since", "1d")) == ["bad-1", "bad-2"]
    assert sorted(due("--since", "1d", "--reopen-ignored")) == ["bad-1", "bad-2", "lost-1", "lost-2"]
    assert due("--until", "1d", "--reopen-ignored") == ["bad-old", "lost-old"]
    assert due("--error-contains", "BANK", "--limit", "1") == ["bad-old"]
    assert sorted(due("--error-contains", "address", "--reopen-ignored")) == ["lost-1", "lost-2", "lost-old"]
    assert len(due("--reopen-ignored", "--limit", "5")) == 5
    assert run("retry", "pay", CHARGE, "--reopen-ignored", "--limit", "4").lines == ["pay: 4 succeeded"]
    assert (
        run("retry", "pay", CHARGE, "--reopen-ignored", "--error-contains", "no such")
        .lines[0]
        .startswith("pay: 2 succ")
    )


def test_a_dry_run_prints_ids_and_runs_nothing() -> None:
    Order.create_many(["o-1", "o-2"])
    ended = run("run", "pay", REFUSE, "--dry-run")
    assert (ended.code, sorted(ended.lines), ended.err) == (0, ["o-1", "o-2"], "dry run: 2 tasks would be run\n")
    assert set(states().values()) == {"pay pending"}


def test_nothing_to_run_is_reported_with_the_reason(store: StoppedClock) -> None:
    assert run("retry", "pay", CHARGE).out == "nothing to run at pay: no matching task is due\n"
    Order.create("o-1", state=Order.pay.failed, due_time=store.now() + timedelta(hours=2))
    ended = run("retry", "pay", CHARGE)
    assert (ended.code, ended.out) == (
        0,
        "nothing to run at pay: 1 task not due yet (the first one in 2h): reopen makes failed tasks due at once\n",
    )


@pytest.mark.parametrize(("options", "such"), [((), ""), (("--error-contains", "BANK"), " with 'BANK' in the error")])
def test_a_retry_reports_tasks_that_are_not_due_yet(store: StoppedClock, options: tuple[str, ...], such: str) -> None:
    Order.create_many(["bad-1", "bad-2", "bad-3"])
    Order.pay.run_all(waver)
    store.advance(timedelta(seconds=1))
    for task_id in ("bad-1", "bad-2"):
        with pytest.raises(RetryLater), Order.pay.start(task_id):
            raise RetryLater(timedelta(hours=2, seconds=1), "the bank is closed")
    store.advance(timedelta(seconds=1))
    ended = run("retry", "pay", WAVER, *options)  # this one fails again, and so is not due yet, either
    skipped = f"2 tasks{such} not due yet (the first one in 2h): reopen makes failed tasks due at once"
    assert (ended.lines[0], ended.lines[-1]) == ("pay: 1 failed", skipped)


def test_json_has_the_report() -> None:
    Order.create_many(["good", "bad"])
    output = read("run", "pay", WAVER, "--threads", "1")
    assert (output["succeeded"], output["failed"], output["ignored"], output["refused"]) == (1, 1, 0, {})
    assert output["stopped"] is False


def before_each_start(monkeypatch: pytest.MonkeyPatch, act: Callable[[str, Any], object]) -> None:
    """Do this with the id of each task that pay is about to start, and what would start it."""
    start: Any = Order.pay.start

    def acted(task_id: str, **options: bool) -> object:
        act(task_id, start)
        return start(task_id, **options)

    monkeypatch.setattr(Order.pay, "start", acted)


def fail_starts(monkeypatch: pytest.MonkeyPatch, code: str, fails: Callable[[int], bool]) -> list[str]:
    """Let DynamoDB refuse the starts with these numbers; return the ids of all."""
    begun: list[str] = []

    def fail(task_id: str, _start: Any) -> None:
        begun.append(task_id)
        if fails(len(begun)):
            raise PutError("Failed to put", ClientError({"Error": {"Code": code, "Message": "no"}}, "UpdateItem"))

    before_each_start(monkeypatch, fail)
    return begun


def test_tasks_that_others_had_first_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(task_id: str, start: Any) -> None:
        Order.pay.ignore(task_id, reason="first")
        Order.pay.reopen(task_id)
        start(task_id).__enter__()

    Order.create("taken")
    before_each_start(monkeypatch, take)
    ended = run("run", "pay", CHARGE)
    assert (ended.code, ended.lines) == (0, ["pay: 1 taken by others"])


def test_a_member_that_another_worker_has_before_it_enters_its_group_again_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, store: StoppedClock
) -> None:
    Order.create("m-1", state=Order.pay.pending, group="a")
    Order.pay.ignore("m-1", reason="later")
    store.advance(timedelta(seconds=1))
    reopen_many = Order.pay.reopen_many

    def late(task_ids: list[str]) -> object:
        Order.pay.reopen("m-1")
        Order.pay.start("m-1").__enter__()
        return reopen_many(task_ids)

    monkeypatch.setattr(Order.pay, "reopen_many", late)
    ended = run("retry", "pay", CHARGE, "--reopen-ignored")
    assert (ended.code, ended.lines[:2]) == (1, ["pay: 1 refused", "1 refused: TaskLockedError"])
    assert ended.lines[2].startswith("  m-1: ")


def test_refused_tasks_are_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    before_each_start(monkeypatch, lambda task_id, _: Order.delete_task(task_id))
    Order.create("gone")
    ended = run("run", "pay", CHARGE)
    assert (ended.code, ended.lines[:2]) == (1, ["pay: 1 refused", "1 refused: TaskNotFoundError"])
    assert ended.lines[2].startswith("  gone: ")
    Order.create("gone")
    output = read("run", "pay", CHARGE)
    assert (list(output["refused"]), output["taken"], output["released"]) == (["gone"], 0, 0)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_credentials_that_end_in_the_middle_end_the_run(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    Order.create_many(f"o-{number:02}" for number in range(40))
    begun = fail_starts(monkeypatch, "ExpiredTokenException", lambda number: number > 4)
    ended = run("run", "pay", CHARGE, "--threads", threads)
    assert (ended.code, ended.lines[0].partition(",")[0]) == (2, "stopped: pay: 4 succeeded")
    assert ended.err.endswith(": ExpiredTokenException: no\n")
    assert len(begun) < 12


def test_a_passing_trouble_of_one_request_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create_many(f"o-{number:02}" for number in range(4))
    fail_starts(monkeypatch, "ThrottlingException", lambda number: number == 1)
    assert run("run", "pay", CHARGE).lines[0] == "pay: 3 succeeded, 1 refused"


def test_abandoned_tasks_are_taken_over_though_nothing_else_is_there(store: StoppedClock) -> None:
    Order.create("abandoned")
    Order.pay.start("abandoned").__enter__()
    assert run("run", "pay", CHARGE).out == "nothing to run at pay: no matching task is due\n"
    store.advance(timedelta(hours=1))
    assert run("run", "pay", CHARGE).out == "pay: 1 succeeded\n"


def test_a_rate_is_kept_to(store: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(7))
    began = store.now()
    assert run("run", "pay", CHARGE, "--rate", "30/m", "--threads", "1").code == 0
    assert store.now() - began >= timedelta(seconds=12)


def test_a_rate_holds_for_ignored_ones_too(store: StoppedClock) -> None:
    for number in range(4):
        Order.create(f"o-{number}", state=Order.pay.ignored)
    store.advance(timedelta(seconds=1))
    began = store.now()
    assert run("retry", "pay", CHARGE, "--reopen-ignored", "--rate", "1/s", "--threads", "1").code == 0
    assert store.now() - began >= timedelta(seconds=3)


def test_a_task_can_be_kept_by_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    start = Order.pay.start

    def noted(task_id: str, *, heartbeat: bool) -> object:
        seen.append(heartbeat)
        return start(task_id, heartbeat=heartbeat)

    monkeypatch.setattr(Order.pay, "start", noted)
    Order.create("o-1")
    assert run("run", "pay", CHARGE, "--heartbeat").code == 0
    assert seen == [True]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tests.cli.shop:chrage", "the module 'tests.cli.shop' does not define 'chrage'; did you mean 'charge'?"),
        ("tests.cli.shop", "'tests.cli.shop' does not name a function: write module:function"),
        ("tests.cli.shop:NUMBER", "tests.cli.shop:NUMBER: this takes a function of the context, not 5"),
    ],
)
def test_a_function_that_is_none_is_reported_on_one_line(function: str, words: str) -> None:
    ended = run("run", "pay", function)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


def test_a_task_of_a_later_version_is_reported_and_not_taken_for_one_that_another_worker_has() -> None:
    Order.create("o-1")
    change(Order, "o-1", v={"N": str(LATEST_FORMAT + 1)})
    ended = run("run", "pay", CHARGE)
    assert ended.code == 1
    assert "a later version of pynamodb_tracker wrote it" in ended.out + ended.err


def test_a_function_whose_work_is_not_done_when_it_returns_fails_its_task() -> None:
    Order.create("o-1")
    ended = run("run", "pay", "tests.cli.shop:postpone")
    assert (ended.code, states()) == (1, {"o-1": "pay failed"})
    assert "TypeError: the function returned an awaitable" in ended.out


@pytest.mark.parametrize("words", [["run", "pay"], ["worker", "--until-idle"]], ids=["run", "worker"])
def test_an_async_function_is_awaited(words: list[str]) -> None:
    Order.create_many(["o-1", "o-2"])
    command, *options = words
    if command == "worker":
        ended = run(command, "pay=tests.cli.shop:later", *options)
    else:
        ended = run(command, *options, "tests.cli.shop:later")
    assert (ended.code, set(states().values())) == (0, {"ship pending"})
    assert Order.get_task("o-1").data == {"paid": "later"}


def test_an_ignored_task_that_somebody_else_took_is_counted_apart(
    store: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(task_id: str, start: Any) -> None:
        Order.pay.reopen(task_id)
        start(task_id).__enter__()

    Order.create("taken", state=Order.pay.ignored)
    store.advance(timedelta(seconds=1))
    before_each_start(monkeypatch, take)
    ended = run("retry", "pay", CHARGE, "--reopen-ignored")
    assert (ended.code, ended.lines) == (0, ["pay: 1 taken by others"])


def test_a_refused_request_of_the_run_itself_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", state=Order.pay.ignored)
    monkeypatch.setattr(Order.pay, "start", raising(LookupError("a mistake of the library")))
    with stopped_clock() as clock:
        clock.advance(timedelta(seconds=1))
        with pytest.raises(LookupError):
            run("retry", "pay", CHARGE, "--reopen-ignored")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("state", [Order.pay.failed, Order.pay.ignored])
def test_after_the_request_to_stop_no_task_leaves_its_state(threads: int, state: State[Order]) -> None:
    Order.create("o-1", state=state)
    stop = StopRequest()
    stop.set()
    batch = WatchedBatch(Selection(Order.pay, ignored=True), refuse, stop, threads)
    batch.run()
    task = Order.get_task("o-1")
    assert (task.state, task.fence, len(batch.report.released)) == (state, 0, 0)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_task_claimed_at_the_request_to_stop_is_released(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    Order.create("o-1", state=Order.pay.failed)
    orders: list[StopRequest] = []

    class Kept(StopRequest):
        def __init__(self) -> None:
            super().__init__()
            orders.append(self)

    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until(orders[-1].is_set)

    before_each_start(monkeypatch, interrupt)
    monkeypatch.setattr("pynamodb_tracker.cli.commands.run.StopRequest", Kept)
    ended = run("retry", "pay", CHARGE, "--threads", threads)
    assert (ended.code, ended.lines) == (130, ["stopped: pay: nothing yet", "1 task released, pending again"])
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.fence) == (Order.pay.pending, 0, 1)


def test_nothing_is_started_after_the_request_to_stop() -> None:
    Order.create_many(["o-1", "o-2"])
    stop = StopRequest()
    batch = WatchedBatch(Selection(Order.pay), lambda _ctx: stop.set(), stop, threads=1)
    batch.run()
    assert sorted(Order.get_task(f"o-{number}").fence for number in (1, 2)) == [0, 1]
    assert len(batch.report.succeeded) == 1


def test_a_function_that_ends_the_program_fails_its_task_alone() -> None:
    Order.create_many(["o-1", "o-2"])
    ended = run("run", "pay", "tests.cli.shop:leave")
    assert (ended.code, ended.lines[0]) == (1, "pay: 2 failed")
    assert Order.get_task("o-1").last_error == "RuntimeError: the function called sys.exit(no such file)"


def test_a_batch_that_breaks_off_tells_what_was_done_before(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create_many(["o-1", "o-2"])

    def broken(_shard: int, _limit: int | None) -> Iterator[str]:
        yield "o-1"
        raise QueryError("throttled", None)

    monkeypatch.setattr(StepDefinition, "candidates", lambda _definition, **_: Candidates(broken))
    ended = run("run", "pay", CHARGE, "--threads", "1")
    assert (ended.code, ended.lines) == (2, ["stopped: pay: 1 succeeded", "1 task not started"])
    assert ended.err.endswith(": throttled\n")


def test_a_function_that_interrupts_the_program_has_told_what_was_done_before(store: StoppedClock) -> None:
    Order.create_many(["o-1", "o-2"])
    Order.create("z-3", due_time=Order.get_task("o-1").due_time + timedelta(seconds=1), note="stop")
    store.advance(timedelta(seconds=1))
    ended = run("run", "pay", "tests.cli.shop:interrupt", "--threads", "1")
    released = "1 task released, pending again"
    assert (ended.code, ended.lines) == (130, ["stopped: pay: 2 succeeded", released])


def test_a_dry_run_and_an_error_say_what_is_not_due_yet(store: StoppedClock) -> None:
    for number in range(2):
        Order.create(f"bad-{number}")
        Order.create(f"lost-{number}")
    Order.pay.run_all(waver)
    for task_id in ("bad-0", "bad-1"):
        Order.pay.reopen(task_id)
        with pytest.raises(RetryLater), Order.pay.start(task_id):
            raise RetryLater(timedelta(minutes=4), "the bank is closed")
    said = "nothing to run at pay: 2 tasks with 'BANK' in the error not due yet (the first one in 4m)"
    for dry in ((), ("--dry-run",)):
        ended = run("retry", "pay", CHARGE, "--error-contains", "BANK", *dry)
        assert (ended.out or ended.err).partition(": reopen")[0] == said
    ended = run("retry", "pay", CHARGE, "--error-contains", "address", "--dry-run")
    assert ended.err == "nothing to run at pay: no matching task is due\n"
    store.advance(timedelta(minutes=5))
    assert run("retry", "pay", CHARGE, "--error-contains", "BANK", "--dry-run").err == "dry run: 2 tasks would be run\n"


@pytest.mark.parametrize("name", ["Order", "ship_it"])
def test_what_cannot_be_called_with_the_context_alone_is_refused(name: str) -> None:
    Order.create("o-1")
    ended = run("run", "pay", f"tests.cli.shop:{name}")
    assert (ended.code, ended.out) == (2, "")
    assert states() == {"o-1": "pay pending"}
