"""The scene `orders` in one process, on moto: every order ends where it must, whatever fails and whoever dies."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from pynamodb_tracker import BoundStep
from pynamodb_tracker.cli.interrupts import StopRequest
from pynamodb_tracker.demo import pipeline, session
from pynamodb_tracker.demo.orders import MAX_ATTEMPTS, Accident, draw_accidents, generate_orders
from pynamodb_tracker.demo.pipeline import Order
from pynamodb_tracker.demo.session import _note, run
from tests.support.quick_moto import hurry

hurry()

ORDERS = """\
order_id,order_status,order_approved_at,order_delivered_carrier_date,order_delivered_customer_date
d1,delivered,1/1/2018 1:00,1/2/2018 1:00,1/3/2018 1:00
d2,delivered,1/1/2018 1:00,,1/3/2018 1:00
s1,shipped,1/1/2018 1:00,1/2/2018 1:00,
i1,invoiced,1/1/2018 1:00,,
n1,created,,,
c1,canceled,1/1/2018 1:00,,
u1,unavailable,1/1/2018 1:00,,
"""


def shown(*, file: Path | None = None, count: int = 100, force_terminal: bool | None = None) -> tuple[bool, str]:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=force_terminal)
    return run(console, file=file, count=count), out.getvalue()


def words_of(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


def test_orders_of_a_file_end_where_it_says_and_the_summary_shows_why(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    is_as_expected, out = shown(file=path)
    lines = words_of(out)
    assert is_as_expected
    assert lines[0] == f"7 orders of {path}, in memory, 4 threads"
    assert [line for line in lines if re.fullmatch(r"\w+ \w+ \d+ \d+", line)] == [
        "confirm_payment pending 1 1",
        "ship pending 1 1",
        "ship ignored 2 2",
        "deliver pending 1 1",
        "deliver succeeded 2 2",
    ]
    assert {"ship: canceled 1 c1", "ship: unavailable 1 u1"} <= set(lines)
    assert lines[-1] == "7 of 7 orders ended where they should."


COUNT = 12
"""Orders among which each trouble occurs."""


@pytest.fixture(scope="module")
def generated() -> tuple[list[tuple[int, int]], str]:
    """Return how many orders were placed and done in each round, and what was printed."""
    rounds, let_workers_die = [], session._let_workers_die

    def look(step: BoundStep[Order]) -> None:
        if step == Order.confirm_payment:
            counts = Order.counts()
            rounds.append((sum(counts.values()), counts[Order.deliver.succeeded]))
        let_workers_die(step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_let_workers_die", look)
        patch.setattr(session, "_LINE_EVERY", 0)
        is_as_expected, out = shown(count=COUNT, force_terminal=False)
    assert is_as_expected, out
    return rounds, out


def test_generated_orders_succeed_or_are_ignored(generated: tuple[object, str]) -> None:
    lines = words_of(generated[1])
    assert f"{COUNT} of {COUNT} orders ended where they should." in lines
    for reason in ("the card was declined", "canceled", "the payment gateway did", "nobody knows", "4 of 4 attempts"):
        assert any(reason in line for line in lines)


def test_orders_come_while_others_are_worked_on(generated: tuple[list[tuple[int, int]], str]) -> None:
    placed, done = zip(*generated[0], strict=True)
    assert placed[:COUNT] == tuple(range(1, COUNT + 1))
    assert done[0] == 0 < done[COUNT - 1]


def test_the_summary_counts_runs_retries_and_deaths(generated: tuple[object, str]) -> None:
    orders = generate_orders(COUNT)
    draw_accidents(orders)
    drawn = [accidents for order in orders for accidents in order.accidents.values()]
    again = [each for accidents in drawn for each in accidents[: MAX_ATTEMPTS - 1] if each != Accident.REFUSAL]
    runs = len(again) + sum(len(order.steps_started) for order in orders)
    died = sum(accidents.count(Accident.DEATH) for accidents in drawn)
    taken_over = again.count(Accident.DEATH)
    *_, counted, takeovers, _ = generated[1].splitlines()
    assert died > taken_over > 0
    assert counted.startswith(f"{runs} runs in ")
    assert counted.endswith(f" s: {len(again)} were retries, and in {died} the worker died.")
    assert takeovers == (
        f"Another worker took over {taken_over} times, and {died - taken_over} died in the last attempt."
    )


def test_a_pipe_gets_a_line_now_and_then(generated: tuple[object, str]) -> None:
    assert f"place {COUNT}/{COUNT}, confirm_payment " in generated[1]
    assert "\x1b" not in generated[1]
    assert "━" not in generated[1]


def test_a_terminal_shows_a_bar_for_each_step() -> None:
    _, live = shown(count=1, force_terminal=True)
    for text in ("place ", "confirm_payment ", "ship ", "deliver ", "━"):
        assert text in live


def test_a_bar_says_how_many_orders_are_retried_and_run() -> None:
    assert [_note(0, 0), _note(1, 0), _note(2, 3)] == ["", "1 to retry", "2 to retry, 3 running"]


def test_orders_that_do_not_end_where_they_should_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "accident_of", lambda *_: None)
    is_as_expected, out = shown(count=4)
    [wrong] = [order for order in generate_orders(4) if order.accidents]
    assert not is_as_expected
    assert out.splitlines()[-2:] == [
        f"{wrong.order_id} is deliver succeeded, but it should be confirm_payment ignored.",
        "3 of 4 orders ended where they should.",
    ]


def test_the_demo_ends_soon_after_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, looks = StopRequest(), list[object]()

    def stop(*_: object) -> None:
        looks.append(_)
        stopped.set()

    monkeypatch.setattr(pipeline, "accident_of", stop)
    with pytest.raises(KeyboardInterrupt):
        run(Console(file=io.StringIO()), stopped, count=4)
    assert len(looks) == 2  # before the first step and in its run: no other step is started
