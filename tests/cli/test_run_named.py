"""`run` with the tasks that it is about, and with the function that is bound to the step."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run, run_untimed
from tests.cli.shop import Bound, Order, bind

pytestmark = pytest.mark.usefixtures("store")

CHARGE = "tests.cli.shop:charge"
BOUND = "tests.cli.shop:Bound"
BIND = "tests.cli.shop:bind"


@pytest.fixture
def bound(store: StoppedClock) -> Iterator[StoppedClock]:
    """Have a use case whose step has a function; a worker wraps that, so it is put back."""
    yield store
    Bound.pay.function = bind


def test_the_tasks_that_are_named_are_run_and_no_others() -> None:
    Order.create_many(["o-1", "o-2", "o 3", "o-4"])
    ended = run_untimed("run", "pay", CHARGE, "o-1", "o-1", "o-2")
    assert (ended.code, ended.lines) == (0, ["pay: 2 succeeded"])
    ended = run("run", "pay", CHARGE, "-", text="o 3\n\n")
    assert (ended.code, ended.lines[0].partition(" in ")[0]) == (0, "pay: 1 succeeded")
    assert [task.task_id for task in Order.pay.pending.query()] == ["o-4"]


def test_why_a_named_task_cannot_be_run_is_reported(store: StoppedClock) -> None:
    Order.create("later", due_time=store.now() + timedelta(hours=1))
    Order.create("out", state=Order.pay.ignored)
    Order.create("done", state=Order.ship.succeeded)
    Order.create("held")
    Order.pay.start("held").__enter__()
    Order.create("free")
    ended = run_untimed("run", "pay", CHARGE, "later", "out", "done", "held", "free", "none", "--threads", "1")
    assert (ended.code, ended.lines[0]) == (1, "pay: 1 succeeded, 5 refused")
    reasons = {line.split(":")[0].strip(): line for line in ended.lines[1:] if line.startswith("  ")}
    assert sorted(reasons) == ["done", "held", "later", "none", "out"]
    assert "held by" in reasons["held"]
    assert "also_from" not in ended.out
    assert read("run", "pay", CHARGE, "held")["refused"].keys() == {"held"}


def test_what_cannot_be_an_id_is_refused_and_the_others_are_run() -> None:
    Order.create_many(["o-1", "o-2"])
    ended = run_untimed("run", "pay", CHARGE, "o-1", "", "o" * 1025, "o-2", "--threads", "1")
    assert (ended.code, ended.lines[:2]) == (1, ["pay: 2 succeeded, 2 refused", "2 refused: ValueError"])
    assert "a task id has 1 to 1024 bytes, not 0" in ended.out


def test_no_named_task_is_nothing_to_run() -> None:
    Order.create("o-1")
    ended = run("run", "pay", CHARGE, "-", text="\n")
    assert (ended.code, ended.out) == (0, "nothing to run at pay: stdin contains no task ids\n")
    assert Order.pay.pending.count() == 1


@pytest.mark.parametrize(
    "options",
    [("--since", "1d"), ("--until", "1d"), ("--error-contains", "x"), ("--limit", "1"), ("--dry-run",)],
    ids=str,
)
def test_options_that_select_due_tasks_are_refused_with_named_ones(options: tuple[str, ...]) -> None:
    Order.create("o-1")
    ended = run("run", "pay", CHARGE, "o-1", *options)
    assert (ended.code, ended.out, options[0] in ended.err) == (2, "", True)
    assert Order.pay.pending.count() == 1


@pytest.mark.usefixtures("bound")
def test_the_function_that_is_bound_to_the_step_needs_no_name() -> None:
    Bound.create_many(["o-1", "o-2", "o-3", "bad-1"])
    assert run_untimed("run", "pay", "o-1", of=BOUND).lines == ["pay: 1 succeeded"]
    assert run_untimed("run", "pay", BIND, "o-2", of=BOUND).lines == ["pay: 1 succeeded"]
    assert run_untimed("run", "pay", of=BOUND).lines[0] == "pay: 1 succeeded, 1 failed"
    assert run_untimed("retry", "pay", of=BOUND).lines[0] == "pay: 1 failed"
    assert Bound.get_task("o-1").data == {"receipt": "bound"}


@pytest.mark.usefixtures("bound")
def test_a_worker_runs_the_steps_that_have_functions() -> None:
    Bound.create("o-1")
    for arguments in ((), ("pay",), (f"pay={BIND}",)):
        ended = run_untimed("worker", *arguments, "--until-idle", of=BOUND)
        assert (ended.code, len(ended.lines)) == (0, 1), ended.err
        _load, (step, name, *_) = cast("Any", Bound.pay.function).__reduce__()  # as other processes load it
        assert (step, name) == (Bound.pay, BIND if "=" in "".join(arguments) else None)
        Bound.pay.function = bind
    assert Bound.get_task("o-1").state == Bound.ship.pending


ANOTHER = rf"Bound\.pay does tests\.cli\.shop\.bind, not {CHARGE}: leave the function out$"
ELSEWHERE = rf"{BIND} is bound to Bound\.pay\. "
NONE = (
    r"no function is bound to Bound\.ship: name one, .*bind one with @Bound\.ship\.does in a module that --app imports"
)


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((words, ANOTHER) for words in (f"run pay {CHARGE}", f"retry pay {CHARGE}", f"worker pay={CHARGE}")),
        *((words, ELSEWHERE) for words in (f"run ship {BIND}", f"retry ship {BIND}", f"worker ship={BIND}")),
        *((words, NONE) for words in ("run ship", "run ship o-1", "retry ship", "worker ship")),
    ],
)
def test_a_function_that_is_not_that_of_the_step_is_refused(words: str, said: str) -> None:
    Bound.create("o-1")
    Bound.create("o-2", state=Bound.ship.pending)
    ended = run(*words.split(), of=BOUND)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert re.match(said, ended.err)
    assert (Bound.pay.pending.count(), Bound.ship.pending.count()) == (1, 1)


@pytest.mark.usefixtures("bound")
def test_an_id_that_looks_like_a_function_comes_from_stdin() -> None:
    Bound.create("order:x17")
    ended = run("run", "pay", "order:x17", of=BOUND)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("Bound.pay has a function: pass ids like this on stdin\n")
    assert run("run", "pay", "-", text="order:x17\n", of=BOUND).code == 0
