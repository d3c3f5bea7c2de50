"""The tasks of an operator in the terminal, in commands; and what they are made of."""

import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import timedelta

import pytest

from pynamodb_tracker import ExecutionContext, Repeat
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import Screen, read, run, run_on
from tests.cli.shop import Invoice, Order
from tests.support.rows import change
from tests.support.workers import die

pytestmark = pytest.mark.usefixtures("store")

TABLE = "tests.cli.shop:StoreTask"


def refuse(ctx: ExecutionContext[Order]) -> None:
    raise ConnectionError("HTTP 503" if ctx.task.task_id.startswith("new") else "no such street")


def fail_at_ship(*task_ids: str) -> None:
    for task_id in task_ids:
        Order.create(task_id, state=Order.ship.pending)
        with pytest.raises(ConnectionError):
            Order.ship.run(task_id, refuse)


def test_why_ship_fails_since_nine_is_one_command(store: StoppedClock) -> None:
    fail_at_ship("old-1", "old-2")
    store.advance(timedelta(hours=6))
    since = f"{store.now():%H:%M}"
    store.advance(timedelta(minutes=20))
    fail_at_ship("new-1", "new-2", "new-3")
    ended = run("errors", "ship", "--since", since, of=TABLE)
    assert ended.lines[0].split() == ["tasks", "state", "first", "newest", "example", "error"]
    assert ["ConnectionError: HTTP 503" in line for line in ended.lines] == [False, True]
    assert "new_since" in read("errors", "ship")[0]
    limited = run("errors", "--limit", "1", of=TABLE)
    assert (len(limited.lines), "these are the first 1 of 2 groups" in limited.err) == (2, True)
    assert limited.lines[1].split()[1] == "order.ship.failed"


def test_the_first_with_an_error_are_reopened_so_many_a_minute(store: StoppedClock) -> None:
    fail_at_ship(*(f"new-{number}" for number in range(7)), "old-1")
    store.advance(timedelta(minutes=1))
    chosen = ("ship", "--error-contains", "http 503", "--limit", "5")
    dry = run("reopen", *chosen, "--dry-run")
    assert (len(dry.lines), dry.err) == (5, "dry run: 5 tasks would be changed\n")
    assert Order.ship.failed.count() == 8
    ended = run("reopen", *chosen, "--rate", "50/m")
    assert (ended.code, len(ended.lines)) == (0, 5)
    due = sorted(task.due_time - store.now() for task in Order.ship.pending.query())
    assert due == [timedelta(minutes=number / 50) for number in range(5)]
    assert {task.task_id for task in Order.ship.failed.query()} > {"old-1"}
    ignored = run("ignore", "ship.failed", "--error-contains", "street", "--reason", "lost")
    assert ignored.lines == ["old-1: ship.ignored"]
    for wrong in (("ship", "o-1", "--limit", "1"), ("ship.pending", "--limit", "1"), ("nowhere", "--limit", "1")):
        assert run("reopen", *wrong).code == 2


@pytest.mark.parametrize("command", [("reopen",), ("ignore", "--reason", "lost")])
@pytest.mark.parametrize("targets", [("ship.failed", "--since", "1h"), ("-",)])
def test_a_selection_without_tasks_is_reported(command: tuple[str, ...], targets: tuple[str, ...]) -> None:
    ended = run(*command, *targets, text="")
    assert (ended.code, ended.out, ended.err) == (0, "", "nothing to change: no tasks found\n")


@pytest.mark.parametrize("named", [("ship.ignored", "--limit", "9"), ("ship", "-"), ("ship", "3", "1", "2")])
def test_tasks_of_a_group_become_due_in_order_at_the_rate(store: StoppedClock, named: tuple[str, ...]) -> None:
    for task_id in "123":
        Order.create(task_id, state=Order.ship.pending, group="g")
    for task_id in "312":
        Order.ship.ignore(task_id, reason="lost")
    store.advance(timedelta(hours=1))
    assert run("reopen", *named, "--rate", "4/h", text="3\n1\n2\n").lines[0] == "1: ship.pending"
    group, found = Order.group("g"), [Order.get_task(task_id) for task_id in "123"]
    assert [group.turn, *group.waiting()] == [*"123"]
    times = [(task.turn_due_time or task.due_time) - store.now() for task in found]
    assert times == [timedelta(minutes=minutes) for minutes in (0, 15, 30)]


def test_the_dry_run_of_a_rate_says_how_many_are_due_at_once(store: StoppedClock) -> None:
    for number in range(4):
        Order.create(f"new-{number}", state=Order.pay.ignored)
    Order.create("daily", repeat=Repeat.every(timedelta(days=1)))
    Order.pay.ignore("daily", reason="lost")
    store.advance(timedelta(minutes=1))
    ended = run("reopen", "pay", "--rate", "50/m", "--dry-run")
    assert len(ended.lines) == Order.pay.ignored.count() == 5
    assert ended.err == "dry run: 5 tasks would be reopened, at most 2 of them due at once\n"


def test_a_rate_follows_the_order_of_the_tasks_whichever_thread_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(change: Callable[[object], None], items: Iterable[object], *_: object) -> None:
        for item in reversed(list(items)):
            change(item)

    monkeypatch.setattr("pynamodb_tracker.cli.targets.in_threads_together", backwards)
    for first, then in (("new-2", "new-1"), ("new-4", "new-3")):
        fail_at_ship(first, then)
        named = (first, then) if first == "new-2" else ("-",)
        ended = run("reopen", "ship", *named, "--rate", "30/m", text=f"{first}\n{then}\n")
        assert ended.lines == [f"{first}: ship.pending", f"{then}: ship.pending, due in 2s"]


def test_how_many_are_due_at_once_in_spite_of_a_rate_is_said(store: StoppedClock) -> None:
    fail_at_ship("new-1", "new-2")
    Order.create("waiting", state=Order.ship.pending)
    store.advance(timedelta(minutes=1))
    ended = run("reopen", "ship", "new-1", "waiting", "new-2", "--rate", "50/m")
    assert ended.lines == ["new-1: ship.pending", "waiting: ship.pending, as before", "new-2: ship.pending, due in 2s"]
    assert ended.err == "1 task is due at once: repeating, or pending already\n"
    assert run("reopen", "ship", "new-1", "--rate", "50/m").err == ""


def test_a_step_is_taken_with_its_use_case() -> None:
    fail_at_ship("new-1", "new-2")
    assert run("run", "Order.ship", "tests.cli.shop:charge", "new-1").code == 0
    assert run("retry", "order.ship", "tests.cli.shop:charge", "--dry-run", of=TABLE).lines == ["new-2"]
    assert '"new-2"' in run("export", "Order.ship.failed").out
    assert run("reopen", "order.ship", "new-2").lines == ["new-2: ship.pending"]


def test_what_a_host_does_is_one_command(store: StoppedClock) -> None:
    for number in range(3):
        die(Order.ship, Order.create(f"o-{number}", state=Order.ship.pending).task_id)
    die(Invoice.send, Invoice.create("i-1").task_id)
    for model, task_id in ((Order, "o-2"), (Invoice, "i-1")):
        change(model, task_id, worker={"S": "web-3:17"})
    store.advance(timedelta(minutes=6))
    ended = run("workers", "web-3", of=TABLE)
    assert ended.code == 1
    assert " ".join(ended.lines[1].split()) == ("web-3:17 2 6m expires in 9m, 1 expired Invoice.send 1, Order.ship 1")
    [found] = read("workers", "web-3", of=TABLE)
    assert (found["tasks"], found["expired"], found["steps"]) == (2, 1, {"invoice.send": 1, "order.ship": 1})
    assert "send: a lock expired 1m ago: stuck lists them" in run("status", of=TABLE).out
    assert "send" in run("stuck", of=TABLE).out
    assert run("workers", "web-4", of=TABLE).out == "no task is in progress at web-4\n"


def test_whether_the_nightly_run_happened_and_what_it_made_is_one_command(store: StoppedClock) -> None:
    for task_id in ("nightly", "broken"):
        Invoice.create(task_id, repeat=Repeat.every(timedelta(days=1)))
    Order.create("plain")
    with Invoice.send.start("nightly") as ctx:
        ctx.create(Order, "o-1")
    ended = run("schedules", of=TABLE)
    assert [" ".join(line.split()) for line in ended.lines[1:]] == [
        "broken invoice every 1d none yet may start now",
        (
            f"nightly invoice every 1d succeeded 0s ago, created 1 task, for {store.now().replace(microsecond=0)} "
            "may start in 23h"
        ),
    ]
    store.advance(timedelta(minutes=1))
    Invoice.send.ignore("broken", reason="lost")
    assert (ended.code, run("schedules", of=TABLE).code) == (0, 1)
    found = {each["task_id"]: each for each in read("schedules", of=TABLE)}
    assert (found["nightly"]["last_run"]["created"], found["broken"]["last_run"]["outcome"]) == (1, "ignored")
    assert (found["broken"]["due_time"], found["broken"]["repeat"]["every"]) == (None, "86400")
    assert run("schedules", "--use-case", "order", of=TABLE).out == "no task repeats\n"


def test_a_schedule_that_stands_still_is_marked_as_overdue(store: StoppedClock) -> None:
    Invoice.create("i-1", repeat=Repeat.every(timedelta(minutes=5)))
    assert "overdue" not in run("schedules", of=TABLE).out
    store.advance(timedelta(hours=19, minutes=5))
    ended = run("schedules", of=TABLE)
    assert (ended.code, ended.lines[1].endswith("overdue for 19h")) == (1, True), ended.lines


def test_how_late_the_steps_are_is_one_command(store: StoppedClock) -> None:
    fail_at_ship("new-1")
    Order.create("o-1")
    store.advance(timedelta(hours=3))
    ended = run("top", of=TABLE)
    assert (ended.code, ended.lines) == (0, run("now", of=TABLE).lines)
    assert "Nobody runs Order.pay: 1 is due" in ended.lines
    assert "Order.pay 1 (for 3h) 0 0 0" in " ".join(ended.out.split())
    assert "due for: pay pending 3h, ship failed 3h" in run("status").out
    assert read("status")["use_cases"][0]["due_for"]["pay.pending"] == 3 * 3600


def test_top_shows_the_worst_first_and_what_has_no_room_by_a_key_until_q(
    store: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("o-1")
    store.advance(timedelta(hours=3))
    keys = [b"\x1b[B", b"x", b"\x1b[6~", b"q"]
    monkeypatch.setattr("pynamodb_tracker.cli.commands.live._keys", lambda: nullcontext(lambda _: keys.pop(0)))
    run_on("top", "--every", "1h", stdout=(screen := Screen()), TERM="xterm", LINES="6", of=TABLE)
    first, second, third, last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.text).split("more line")[1:5]
    assert (keys, first[:4], "What needs you: 1" in first) == ([], "s: ↓", True)
    assert "Nobody runs Order.pay" in first
    assert "What needs you" not in second + third + last
    assert "↑" in screen.text


def test_a_list_of_a_whole_table_and_of_an_error() -> None:
    fail_at_ship("new-1", "old-1")
    found = run("list", "ship.failed", "--error-contains", "street", of=TABLE)
    assert [line.split()[0] for line in found.lines] == ["task", "old-1"]
    assert len(run("list", "order.ship.failed", of=TABLE).lines) == 3


def test_wrong_arguments_are_one_line_and_the_app_stands_last() -> None:
    ended = run("list", "ship.failed", "--limit", "none")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert ". See pynamodb-tracker list --help" in ended.err
    options = re.findall(r"│ .{0,2} +(--[a-z-]+)", run("list", "--help").out)
    assert options[-3:] == ["--app", "--use-case", "--help"]
