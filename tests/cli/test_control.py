"""`pause`, `resume` and `steps`, and what `status` and `run` say of a pause."""

import re
from datetime import timedelta

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.cli.shop import Order

pytestmark = pytest.mark.usefixtures("store")


def test_a_pause_is_shown_and_holds_runs_of_what_is_due_until_it_is_resumed() -> None:
    Order.create("o-1")
    ended = run("pause", "pay", "--until", "1h", "--reason", "the bank is down", "--by", "ada")
    assert ended.code == 0
    assert re.fullmatch(r"pay is paused until \S+ \S+ UTC, by ada: the bank is down", ended.lines[0])
    assert "handlers still start pay, because Order lacks pausable=True: disable their event source" in ended.err
    assert run("status").lines[1] == ended.lines[0]
    until = ended.lines[0].removeprefix("pay ")
    options = "--app tests.cli.shop:Order"
    assert [" ".join(line.split()) for line in run("show", "o-1").lines[2:5]] == [
        f"next its step {until}",
        f"to resume it pynamodb-tracker resume {options} pay",
        f"to run it pynamodb-tracker run {options} pay o-1",
    ]
    [paused] = read("status")["use_cases"][0]["paused"]
    assert (paused["step"], paused["by"], paused["reason"]) == ("pay", "ada", "the bank is down")

    due = run("run", "pay", "tests.cli.shop:charge")
    assert (due.code, due.lines) == (0, [f"{ended.lines[0]} (tasks given by id run anyway)"])
    assert read("run", "pay", "tests.cli.shop:charge")["paused"] == ended.lines[0]
    by_id = run("run", "pay", "tests.cli.shop:charge", "o-1")
    assert (by_id.code, by_id.err.splitlines()[0]) == (0, due.lines[0])
    assert Order.get_task("o-1").state == Order.pay.succeeded
    Order.create("o-2", state=Order.pay.ignored)
    assert "paused" not in run("show", "o-2").out, "what has ended there waits for no pause"
    assert "Order.pay is paused until " in run("top").out
    resumed = run("resume", "Order.pay", of="tests.cli.shop:StoreTask")
    assert (resumed.code, resumed.lines) == (0, ["pay is resumed (ada paused it: the bank is down)"])
    assert (run("resume", "pay").code, run("resume", "pay").out) == (0, "pay was not paused\n")
    assert "paused" not in run("status").out + run("show", "o-1").out


def test_a_pause_that_would_have_ended_is_refused_without_a_traceback() -> None:
    ended = run("pause", "pay", "--until", "2020-01-01", "--reason", "the bank is down")
    assert ended.code == 2
    assert "'2020-01-01' is in the past" in ended.err
    wrong = run("pause", "pay", "--until", "soon", "--reason", "the bank is down")
    assert "'soon' is not a time: write how long from now, as in 30d" in wrong.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pause", "pay", "--until", "1h", "--reason", "x" * 1001], "1,001 characters: write at most 1,000"),
        (["pause", "pay", "--until", "1h", "--reason", "x", "--by", ""], "by is empty: leave it out"),
        (["resume", "pay", "--by", ""], "by is empty: leave it out"),
    ],
)
def test_a_wrong_reason_or_name_is_one_line(words: list[str], message: str) -> None:
    ended = run(*words)
    assert (ended.code, ended.out, message in ended.err) == (2, "", True)


def test_its_help_says_what_a_pause_does_not_stop() -> None:
    assert "Running tasks continue, and tasks given by id run anyway." in " ".join(run("pause", "--help").out.split())
    assert "Tasks given by id run even if their step is paused." in " ".join(run("run", "--help").out.split())


def test_a_pause_without_an_end_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("pause", "pay", "--until", "1h", "--reason", " ").code == 2
    monkeypatch.setattr(Order.use_case_id, "pausable", True)
    ended = run("pause", "Order.pay", "--until", "resumed", "--reason", "x")
    assert (ended.code, "make sure that a worker or a schedule runs pay" in ended.err) == (0, True)
    assert Order.pauses()[0].until is None


def test_the_numbers_are_shown_and_accepted_by_a_person() -> None:
    Order.pay.run_all(print)
    assert run("steps").lines[1].split() == ["10", "pay", "pay"]
    numbers = {"pay": 30, "ship": 10}
    before = {codes.step: codes.pending for codes in Order.tracker.steps}
    with pytest.MonkeyPatch.context() as patch:
        for codes in Order.tracker.steps:
            patch.setattr(codes, "pending", numbers[codes.step])
        ended = run("steps")
        assert (ended.code, "restore pay = Step(10), ship = Step(20)" in ended.err) == (1, True)
        assert run("steps", "--accept").code == 0
    assert before == {"pay": 10, "ship": 20}
    assert run("steps").code == 1


def test_a_step_is_required_and_what_had_passed_it_is_listed(stopped_clock: StoppedClock) -> None:
    Order.create_many({"task_id": f"o-{each}", "state": getattr(Order.ship, each)} for each in ("failed", "ignored"))
    Order.create("o-ended", state=Order.ship.succeeded)
    Order.create_many(["o-waits", "o-passes", "o-paid"])
    Order.pay.run("o-waits", lambda ctx: ctx.wait_for(Order.paid))

    ended = run("steps", "require", "order", "15", "--by", "ada")
    assert (ended.code, "list the tasks that passed it with steps passed order 15" in ended.out) == (0, True)
    assert "single runs still pass over it, because Order lacks pausable=True" in ended.err
    Order.pay.run("o-passes", print)
    assert "programs may pass over it until " in run("steps", "passed", "Order", "15").err
    stopped_clock.advance(timedelta(seconds=8))
    Order.create("o-new")
    assert sorted(Order.pay.run_all(print).succeeded) == ["o-new", "o-paid"]

    passed = ["o-failed", "o-ignored", "o-passes", "o-waits"]
    listed = run("steps", "passed", "order", "15", of="tests.cli.shop:StoreTask")
    assert (listed.code, listed.err, sorted(line.split()[0] for line in listed.lines[1:])) == (0, "", passed)
    assert [line.split()[-1] for line in listed.lines if "o-waits" in line] == ["paid"]
    assert sorted(each["task_id"] for each in read("steps", "passed", "order", "15")) == passed
    Order.ship.reopen("o-failed")
    assert "1 task changed after that and may have run Step(15)" in run("steps", "passed", "order", "15").err

    line = "Step(15) is required by ada, but no program that declares it has run yet: tasks wait there"
    numbers = run("steps")
    assert (numbers.lines[2].split(), numbers.err) == (["15", "by", "ada"], f"{line}\n")
    assert line in run("status").lines
    assert line in run("top").lines
    assert read("status")["use_cases"][0]["required"] == [line]
    assert run("steps", "require", "order", "15", "--remove").out == "Step(15) of Order is not required any more\n"
    assert "is not required: write steps require order 15" in run("steps", "passed", "order", "15").err
    assert "required" not in run("steps").out + run("status").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["require", "order"], "write steps require USE_CASE NUMBER, or steps passed USE_CASE NUMBER"),
        (["require", "order", "fraud"], "write steps require USE_CASE NUMBER"),
        (["need", "order", "15"], "write steps require USE_CASE NUMBER"),
        (["require", "parcel", "15"], "does not have a use case 'parcel'"),
        (["require", "order", "22"], "22 is not a step: Order.ship = Step(20) uses that number"),
        (["passed", "order", "15", "--remove"], "--remove belongs to steps require"),
        (["require", "order", "15", "--json"], "--json belongs to steps passed"),
        (["require", "order", "15", "--accept"], "--accept belongs to steps alone"),
        (["passed", "order", "15"], "Step(15) of Order is not required: write steps require order 15"),
    ],
)
def test_a_wrong_requirement_is_one_line(words: list[str], message: str) -> None:
    ended = run("steps", *words, of="tests.cli.shop:StoreTask")
    assert (ended.code, ended.out, ended.err.count("\n"), message in ended.err) == (2, "", 1, True)
