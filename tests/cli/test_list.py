"""`list` and `stuck`: which tasks they show, and what of them."""

from datetime import timedelta

import pytest

from pynamodb_tracker.clock import in_words
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import APP, read, run
from tests.cli.shop import Invoice, Order, refuse
from tests.support.rows import park
from tests.support.workers import raising

pytestmark = pytest.mark.usefixtures("store")


def fail(task_id: str) -> None:
    with pytest.raises(ConnectionError):
        Order.pay.run(task_id, refuse)


def test_failed_tasks_are_listed_with_attempt_age_and_error(store: StoppedClock) -> None:
    Order.create("o-1")
    fail("o-1")
    store.advance(timedelta(hours=3, minutes=5))
    ended = run("list", "pay.failed")
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0].split() == ["task", "attempt", "age", "due", "error"]
    assert ended.lines[1].split()[:4] == ["o-1", "1", "3h5m", "now"]
    assert "ConnectionError: the bank did not answer about o-1" in ended.lines[1]


def test_tasks_in_progress_are_listed_with_lock_and_worker(store: StoppedClock) -> None:
    Order.create("o-1")
    Order.pay.start("o-1").__enter__()
    held = run("list", "pay.in_progress").lines
    assert held[0].split() == ["task", "attempt", "age", "lock", "worker"]
    assert "expires in 5m" in held[1]
    store.advance(timedelta(hours=1))
    assert "expired 55m ago" in run("list", "pay.in_progress").lines[1]


def test_the_state_of_a_finished_step_is_pending_of_the_next(store: StoppedClock) -> None:
    Order.create("o-1", state=Order.ship.pending)
    Order.create("o-2", due_time=store.now() + timedelta(days=2), state=Order.ship.pending)
    for name in ("pay.succeeded", "ship.pending"):
        assert [line.split()[:4] for line in run("list", name).lines[1:]] == [
            ["o-1", "0s", "now"],
            ["o-2", "0s", "in", "2d"],
        ]


def test_since_until_newest_and_limit_choose(store: StoppedClock) -> None:
    for number in range(4):
        Order.create(f"o-{number}")
        store.advance(timedelta(days=1))

    def ids(*options: str) -> list[str]:
        return [task["task_id"] for task in read("list", "pay.pending", *options)]

    assert ids() == ["o-0", "o-1", "o-2", "o-3"]
    assert ids("--since", "50h") == ["o-2", "o-3"]
    assert ids("--since", "1w", "--until", "3d12h") == ["o-0"]
    assert ids("--latest-due", "--limit", "2") == ["o-3", "o-2"]
    assert ids("--since", (store.now() - timedelta(hours=30)).isoformat()) == ["o-3"]


def test_tasks_that_wait_for_others_are_listed_with_what_they_wait_for(store: StoppedClock) -> None:
    later = store.now() + timedelta(hours=1)
    Order.create_many(["o-1", "o-2", {"task_id": "o-3", "state": Order.ship.pending}, "o-4"])
    Order.create("o-5", due_time=later)
    park(Order, "o-1", 2, until=later)
    park(Order, "o-2", 1)
    park(Order, "o-3", 7)
    lines = run("list", "--waiting").lines
    assert [line.split(maxsplit=3) for line in lines] == [
        ["task", "state", "age", "waits for"],
        ["o-2", "pay.pending", "0s", "1 task"],
        ["o-1", "pay.pending", "0s", f"2 tasks, or until {in_words(later)}"],
        ["o-3", "ship.pending", "0s", "7 tasks"],
    ]
    assert [task["waits_for"] for task in read("list", "ship.pending", "--waiting")] == ["7 tasks"]
    assert [line.split(maxsplit=2)[2] for line in run("list", "pay.pending").lines[1:]] == [
        *("now", "in 1h", "in 1h", "after 1 task")
    ]
    assert (
        run("list", "--waiting", "--limit", "2").err
        == "these are the first 2 tasks: use --limit N or --all to see more\n"
    )
    Order.delete_use_case()
    assert run("list", "--waiting").out == "no task of Order waits for others\n"


@pytest.mark.parametrize("words", [[], ["pay.failed", "--waiting"], ["--waiting", "--latest-due"]])
def test_what_list_cannot_combine_is_refused(words: list[str]) -> None:
    assert run("list", *words).code == 2


def test_it_says_when_there_are_more_than_it_shows() -> None:
    Order.create_many(f"o-{number:02}" for number in range(51))
    first = run("list", "pay.pending")
    assert (len(first.lines), first.err) == (51, "these are the first 50 tasks: use --limit N or --all to see more\n")
    everything = run("list", "pay.pending", "--all")
    assert (len(everything.lines), everything.err) == (52, "")


def test_a_state_without_tasks_is_reported_in_words_and_an_empty_array() -> None:
    assert run("list", "ship.ignored").out == "no task of Order is ship.ignored\n"
    assert run("list", "ship.ignored", "--until", "2d").out == "no matching task of Order is ship.ignored\n"
    assert read("list", "ship.ignored") == []


def test_json_has_attributes_and_leaves_data_out() -> None:
    Order.create("o-1", amount=42, data={"large": True})
    (task,) = read("list", "pay.pending")
    assert (task["task_id"], task["state"], task["attempt"], task["last_error"]) == ("o-1", "pay.pending", 0, None)
    assert task["attributes"] == {"amount": 42}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ship", "'ship' is not a state: write STEP.STATUS, as in pay.failed"),
        ("shpi.failed", "Order has no step 'shpi'; did you mean 'ship'?"),
        ("x.failed", "Order has no step 'x'. Its steps are pay, ship"),
        ("ship.fialed", "ship does not have a status 'fialed'; did you mean 'failed'?"),
        (
            "ship.x",
            (
                "ship does not have a status 'x'. The statuses of a step are pending, in_progress, failed, succeeded, "
                "ignored"
            ),
        ),
    ],
)
def test_a_wrong_state_is_reported_on_one_line_with_what_to_write(name: str, words: str) -> None:
    ended = run("list", name)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


def test_stuck_shows_those_whose_lock_is_over_and_exits_with_1(store: StoppedClock) -> None:
    for task_id in ("dead", "spent", "held", "extended"):
        Order.create(task_id, state=Order.ship.pending)
    Order.create("elsewhere")
    Order.pay.start("elsewhere").__enter__()
    Order.ship.start("spent").__enter__()
    store.advance(timedelta(minutes=20))
    for task_id in ("dead", "spent"):
        Order.ship.start(task_id).__enter__()
    Order.ship.start("extended").__enter__().extend_lock(timedelta(days=1))
    store.advance(timedelta(minutes=20))
    Order.ship.start("held").__enter__()

    ended = run("stuck", "ship")
    assert (ended.code, ended.err) == (1, "")
    output = [" ".join(line.split()) for line in ended.lines]
    assert output[0] == "task step attempt lock expired next run worker"
    assert output[1].startswith("dead ship 1 of 2 5m ago takes it over ")
    assert output[2].startswith("spent ship 2 of 2 5m ago ignores it ")
    assert len(output) == 3
    assert [task["task_id"] for task in read("stuck")] == ["elsewhere", "dead", "spent"]


def test_with_all_stuck_shows_live_locks_and_their_workers_too(store: StoppedClock) -> None:
    Order.create_many(["dead", "held"])
    Order.pay.start("dead").__enter__()
    store.advance(timedelta(minutes=10))
    Order.pay.start("held").__enter__()
    ended = run("stuck", "--all")
    assert ended.code == 1
    output = [" ".join(line.split()) for line in ended.lines]
    worker = Order.get_task("held").worker
    assert output == [
        "task step attempt lock next run worker",
        f"dead pay 1 of 3 expired 5m ago takes it over {worker}",
        f"held pay 1 of 3 expires in 5m leaves it {worker}",
    ]
    assert [(task["task_id"], task["stuck"]) for task in read("stuck", "--all")] == [("dead", True), ("held", False)]
    run("reopen", "dead")
    Order.pay.ignore("dead", reason="x")
    assert run("stuck", "--all").code == 0


def test_nothing_stuck_exits_with_0() -> None:
    Order.create("o-1")
    Order.pay.start("o-1").__enter__()
    assert run("stuck").out == "no task of Order is stuck\n"
    assert run("stuck", "pay").out == "no task of Order is stuck in pay\n"
    assert (run("stuck").code, read("stuck")) == (0, [])


def test_ids_and_errors_cannot_steer_the_terminal(store: StoppedClock) -> None:
    evil = "o\x1b[2J\n\u202e\x9b31m"
    Order.create(evil)
    with pytest.raises(ValueError, match="title"):
        Order.pay.run(evil, raising(ValueError("\x1b]0;title\x07 [bold]text[/bold]")))
    line = run("list", "pay.failed").lines[1]
    assert line.startswith(r"o\x1b[2J\n\u202e\x9b31m ")
    assert line.endswith(r"ValueError: \x1b]0;title\x07 [bold]text[/bold]")
    store.advance(timedelta(minutes=1))
    for arguments in (
        ("show", evil),
        ("errors",),
        ("reopen", "pay", evil),
        ("ignore", "pay", "no" + evil, "--reason", "x"),
    ):
        ended = run(*arguments)
        assert not {each for each in ended.out + ended.err if not each.isprintable()} - {"\n"}, arguments


def test_a_whole_table_is_searched_for_a_task_and_for_those_that_wait() -> None:
    table = "tests.cli.shop:StoreTask"
    Order.create("o-1", wait_for=Order.paid)
    assert run("show", "o-1", of=table).lines[0] == "Order o-1: pay.pending"
    assert run("list", "--waiting", of=table).lines[1].split()[:3] == ["o-1", "order", "pay.pending"]
    assert run("list", "--waiting", "--use-case", "invoice", of=table).out == "no task of Invoice waits for others\n"
    missing = run("show", "o-2", of=table)
    assert (missing.code, missing.err) == (1, "Invoice or Order 'o-2' does not exist\n")
    Invoice.create("o-1")
    twice = run("show", "o-1", of=table)
    assert (twice.code, twice.err) == (2, "2 use cases have a task 'o-1': add --use-case invoice or --use-case order\n")


def test_a_table_class_needs_the_name_of_one_of_its_use_cases() -> None:
    Order.create("o-1")
    table = "tests.cli.shop:StoreTask"
    ended = run("delete", "o-1", "--yes", of=table)
    assert ended.code == 2
    options = "add --use-case invoice or --use-case order"
    assert ended.err == f"{table} has 2 use cases, and this command takes one: {options}\n"
    for name in ("order", "Order"):
        assert "o-1" in run("list", "pay.pending", "--use-case", name, of=table).out
    wrong = run("list", "pay.pending", "--use-case", "oder", of=table)
    assert wrong.err.startswith(f"{table} does not have a use case 'oder'; did you mean 'order'?")
    assert run("list", "test.pending", of="tests.cli.shop:OtherTask").code == 0
    assert run("status", of="tests.cli.shop:EmptyTask").err.startswith("no use case of the table")
    assert run("list", "send.pending", "--use-case", "invoice", of=APP).code == 0
