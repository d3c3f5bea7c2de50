"""The demo in one process, on moto: everything that must be finished is, whatever fails and whoever dies."""

from __future__ import annotations

import io
import logging
import threading

import pytest
from rich.console import Console

from pynamodb_tracker import BoundStep, Status
from pynamodb_tracker.demo import session, summary
from pynamodb_tracker.demo.orders import Trouble, generate_orders
from pynamodb_tracker.demo.pipeline import MAX_ATTEMPTS, Accident, Accidents, Order, Work
from pynamodb_tracker.demo.session import Options, run
from pynamodb_tracker.demo.summary import Outcome

ORDERS = """\
order_id,order_status,order_approved_at,order_delivered_carrier_date,order_delivered_customer_date
d1,delivered,1/1/2018 1:00,1/2/2018 1:00,1/3/2018 1:00
d2,delivered,1/1/2018 1:00,,1/3/2018 1:00
d3,delivered,,,
s1,shipped,1/1/2018 1:00,1/2/2018 1:00,
i1,invoiced,1/1/2018 1:00,,
p1,processing,1/1/2018 1:00,,
a1,approved,1/1/2018 1:00,,
n1,created,,,
c1,canceled,,,
c2,canceled,1/1/2018 1:00,,
c3,canceled,1/1/2018 1:00,1/2/2018 1:00,1/3/2018 1:00
u1,unavailable,1/1/2018 1:00,,
"""

STATES = {
    "confirm_payment pending": {"n1"},
    "confirm_payment ignored": {"c1"},
    "ship pending": {"i1", "p1", "a1"},
    "ship ignored": {"c2", "u1"},
    "deliver pending": {"s1"},
    "deliver ignored": {"c3"},
    "deliver succeeded": {"d1", "d2", "d3"},
}


GENERATED = Options(count=30, seed=3)

Shown = tuple[Outcome, str]
"""What became of the orders, and what was printed."""


def shown(options: Options, *, force_terminal: bool | None = None) -> Shown:
    out = io.StringIO()
    return run(options, Console(file=out, width=80, force_terminal=force_terminal)), out.getvalue()


@pytest.fixture(scope="module")
def of_file(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("demo") / "orders.csv"
    path.write_text(ORDERS)
    return shown(Options(orders=path))


@pytest.fixture(scope="module")
def of_generated() -> Shown:
    return shown(GENERATED)


def test_every_order_of_a_file_ends_in_the_state_that_the_file_tells(of_file: Shown) -> None:
    outcome, out = of_file
    found: dict[str, set[str]] = {}
    for order_id, row in outcome.rows.items():
        found.setdefault(str(row.state), set()).add(order_id)
    assert found == STATES
    assert not outcome.differences
    assert "as the file says: yes" in out


def test_the_printed_counts_are_those_of_the_file(of_file: Shown) -> None:
    lines = [line.split() for line in of_file[1].splitlines()]
    for state, order_ids in STATES.items():
        assert [*state.split(), str(len(order_ids)), str(len(order_ids))] in lines


def test_orders_that_were_called_off_are_ignored_with_that_reason(of_file: Shown) -> None:
    outcome, out = of_file
    reasons = {order_id: row.errors[-1].message for order_id, row in outcome.rows.items() if row.errors}
    assert {order_id: reasons[order_id] for order_id in ("c1", "c2", "c3", "u1")} == {
        "c1": "canceled",
        "c2": "canceled",
        "c3": "canceled",
        "u1": "unavailable",
    }
    assert "ship: unavailable" in out


def test_an_order_whose_event_has_not_happened_waits_without_an_attempt(of_file: Shown) -> None:
    outcome, _ = of_file
    waiting = [row for row in outcome.rows.values() if row.state.status is Status.PENDING]
    assert {row.task_id for row in waiting} == {"n1", "i1", "p1", "a1", "s1"}
    assert {row.attempt for row in waiting} == {0}


def test_generated_orders_succeed_or_end_ignored_and_nothing_is_left_to_do(of_generated: Shown) -> None:
    outcome, out = of_generated
    assert {row.state for row in outcome.rows.values()} == {
        Order.deliver.succeeded,
        Order.confirm_payment.ignored,
        Order.ship.ignored,
        Order.deliver.ignored,
    }
    assert sum(outcome.counts.values()) == len(outcome.rows) == 30
    assert "as the orders say: yes" in out


def test_every_run_whose_worker_died_is_taken_over_or_was_the_last_attempt(of_generated: Shown) -> None:
    orders = generate_orders(GENERATED.count, GENERATED.seed)
    drawn = Accidents.draw(orders, GENERATED.seed).drawn.values()
    deaths = sum(accident is Accident.DEATH for accidents in drawn for accident in accidents)
    crashing = sum(order.trouble is Trouble.CRASHING for order in orders)
    outcome, out = of_generated
    assert crashing > 0 < deaths
    died = sum(map(len, outcome.taken_over.values()))
    assert died == deaths + crashing * MAX_ATTEMPTS
    words = f"({died - crashing} run again, {crashing} on the last attempt)"
    assert f"Taken over: {died} runs whose worker died {words}" in out


def test_runs_and_retries_are_counted_by_the_fences_of_the_rows(of_generated: Shown) -> None:
    orders = generate_orders(GENERATED.count, GENERATED.seed)
    drawn = sum(map(len, Accidents.draw(orders, GENERATED.seed).drawn.values()))
    hopeless = sum(order.trouble in {Trouble.SILENT, Trouble.CRASHING} for order in orders)
    outcome, _ = of_generated
    assert outcome.retries == drawn + hopeless * (MAX_ATTEMPTS - 1)
    assert outcome.runs == outcome.retries + sum(len(order.steps_started) for order in orders)


def test_the_ignored_orders_are_listed_by_reason(of_generated: Shown) -> None:
    _, out = of_generated
    for reason in ("the card was declined", "canceled", "the payment gateway did", "nobody knows", "4 of 4 attempts"):
        assert reason in out


def test_orders_come_while_others_are_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    placed_and_done, let_workers_die = [], session._let_workers_die

    def look(step: BoundStep[Order], work: Work) -> None:
        if step == Order.confirm_payment:
            counts = Order.counts()
            placed_and_done.append((sum(counts.values()), counts[Order.deliver.succeeded]))
        let_workers_die(step, work)

    monkeypatch.setattr(session, "_let_workers_die", look)
    shown(Options(count=24, seed=3))
    placed, done = zip(*placed_and_done, strict=True)
    assert list(placed[:12]) == list(range(2, 25, 2))
    assert done[0] == 0 < done[6] < done[11]


def test_no_thread_and_no_handler_of_the_log_is_left_behind() -> None:
    before, handlers = threading.active_count(), list(logging.getLogger("pynamodb_tracker").handlers)
    shown(Options(count=3, workers=3))
    assert threading.active_count() == before
    assert logging.getLogger("pynamodb_tracker").handlers == handlers


def test_an_order_that_is_not_where_it_should_be_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PIPELINE", ())
    monkeypatch.setattr(summary, "_INDEX_LAG", 0)
    outcome, out = shown(Options(count=4))
    assert outcome.differences
    assert "as the orders say: no" in out
    assert "o-0001 is confirm_payment pending, and should be " in out


def test_a_step_with_a_bug_fails_until_it_is_ignored_and_the_outcome_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(summary, "_INDEX_LAG", 0)
    monkeypatch.setattr(Work, "__call__", broken)
    outcome, out = shown(Options(count=2))
    assert outcome.differences
    assert "confirm_payment: a bug" in out


def test_the_demo_ends_soon_after_it_is_told_to_stop() -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(KeyboardInterrupt):
        run(Options(count=4), Console(file=io.StringIO()), stopped)


def test_a_terminal_shows_a_bar_for_each_step_and_a_pipe_plain_lines() -> None:
    _, live = shown(Options(count=4), force_terminal=True)
    _, piped = shown(Options(count=4), force_terminal=False)
    assert "\x1b[" in live
    for step in ("place", "confirm_payment", "ship", "deliver"):
        assert f"{step} " in live
    assert "━" in live
    assert "\x1b" not in piped
    assert "━" not in piped
    assert "\nplace 4/4\n" in piped
