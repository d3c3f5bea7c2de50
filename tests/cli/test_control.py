"""`pause`, `resume` and `steps`, and what `status` and `run` say of a pause."""

import re
from collections.abc import Iterator

import pytest

from pynamodb_tracker.control import watch
from tests.cli.command import read, run
from tests.cli.shop import Order

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture(autouse=True)
def controlled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Order.use_case_id, "pausable", True)
    yield
    watch._known.clear()


def test_a_pause_is_shown_and_holds_runs_of_what_is_due_until_it_is_resumed() -> None:
    Order.create("o-1")
    ended = run("pause", "pay", "--until", "1h", "--reason", "the bank is down", "--by", "ada")
    assert ended.code == 0
    assert re.fullmatch(r"pay is paused until \S+ \S+ UTC, by ada: the bank is down", ended.lines[0])
    assert "a worker or a schedule has to run pay as well" in ended.err
    assert run("status").lines[1] == ended.lines[0]
    assert re.search(
        r"next +may start now, but its step is paused\n +paused +pay is paused until", run("show", "o-1").out
    )
    [paused] = read("status")["use_cases"][0]["paused"]
    assert (paused["step"], paused["by"], paused["reason"]) == ("pay", "ada", "the bank is down")

    due = run("run", "pay", "tests.cli.shop:charge")
    assert (due.code, due.lines) == (0, [f"{ended.lines[0]}; tasks given by id run anyway"])
    assert read("run", "pay", "tests.cli.shop:charge")["paused"] == ended.lines[0]
    assert run("run", "pay", "tests.cli.shop:charge", "o-1").code == 0
    assert Order.get_task("o-1").state == Order.pay.succeeded
    Order.create("o-2", state=Order.pay.ignored)
    assert "paused" not in run("show", "o-2").out, "what has ended there waits for no pause"
    assert ended.lines[0] in run("top").lines
    resumed = run("resume", "Order.pay", of="tests.cli.shop:StoreTask")
    assert (resumed.code, resumed.lines) == (0, ["pay is resumed; ada had paused it: the bank is down"])
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
        (["pause", "pay", "--until", "1h", "--reason", "x" * 1001], "a pause has at most 1,000 characters, not 1,001"),
        (["pause", "pay", "--until", "1h", "--reason", "x", "--by", ""], "by is empty: leave it out"),
        (["resume", "pay", "--by", ""], "by is empty: leave it out"),
    ],
)
def test_a_wrong_reason_or_name_is_one_line(words: list[str], message: str) -> None:
    ended = run(*words)
    assert (ended.code, ended.out, message in ended.err) == (2, "", True)


def test_its_help_says_what_a_pause_does_not_stop() -> None:
    assert "Running tasks continue, and tasks given by id run anyway." in " ".join(run("pause", "--help").out.split())


def test_a_pause_without_an_end_is_written_out() -> None:
    assert run("pause", "pay", "--until", "1h", "--reason", " ").code == 2
    assert run("pause", "Order.pay", "--until", "resumed", "--reason", "x").code == 0
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
        assert (ended.code, "give back pay = Step(10), ship = Step(20)" in ended.err) == (1, True)
        assert run("steps", "--accept").code == 0
    assert before == {"pay": 10, "ship": 20}
    assert run("steps").code == 1
