"""`errors`: failed and ignored tasks by error."""

from datetime import timedelta

import pytest

from pynamodb_tracker import ExecutionContext, Repeat, RetryLater
from pynamodb_tracker.presentation.errors import error_pattern
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.cli.shop import Order, waver
from tests.support.workers import fail, succeed


@pytest.mark.parametrize(
    ("error", "output"),
    [
        ("KeyError: 'o-17'", "KeyError: '…'"),
        ("HTTPError: 503 of request 918273", "HTTPError: 503 of request #"),
        ("X: 9f0c1b7e-8a67-4c15-9d4b-0123456789ab is gone", "X: # is gone"),
        ("X: at 0x7f3a2b", "X: at #"),
        ("X: since 2026-01-31T12:00:00.123Z", "X: since #"),
        ("X: commit deadbeef01", "X: commit #"),
        ("X: the effaced deed", "X: the effaced deed"),
        ("RetryLater: retry in 8:34:23.663897", "RetryLater: retry in #"),
        ("RetryLater: retry in 1 day, 0:00:07", "RetryLater: retry in #"),
        ("Timeout: no answer in 3.5 seconds, 350 ms too late", "Timeout: no answer in #, # too late"),
        ("X: 1h30m left", "X: # left"),
        ("X: 12 of 150 items of order i-23 cost 1,234.50", "X: # of # items of order i-# cost #"),
        ("X: 10.0.3.17:8080 refused", "X: # refused"),
        ("X: since 2026-01-31", "X: since #"),
        ("StripeError: request req_8fKj2a91bQ7z failed", "StripeError: request # failed"),
        ("UnicodeDecodeError: 'utf-8' can't decode 0xff", "UnicodeDecodeError: 'utf-8' can't decode #"),
    ],
)
def test_what_differs_from_task_to_task_is_left_out(error: str, output: str) -> None:
    assert error_pattern(error, "o-17") == output


def test_errors_are_grouped_the_commonest_first_and_exit_with_1(store: StoppedClock) -> None:
    Order.create_many([f"bad-{number}" for number in range(3)] + ["lost-1"])
    Order.pay.run_all(waver)
    store.advance(timedelta(hours=2))
    ended = run("errors")
    assert (ended.code, ended.err) == (1, "")
    assert [line.split()[:3] for line in ended.lines] == [
        ["tasks", "state", "first"],
        ["3", "pay.failed", "2h"],
        ["1", "pay", "gave"],
    ]
    assert "pay gave up" in ended.out
    assert ended.lines[1].endswith("ConnectionError: the bank did not answer about …, request #")
    first, second = read("errors", "pay")
    assert (first["tasks"], first["state"]) == (3, "pay.failed")
    assert first["example"].startswith("bad-")
    assert (second["error"], second["example"]) == ("GiveUp: no such address", "lost-1")


def test_a_window_chooses(store: StoppedClock) -> None:
    Order.create("bad-1")
    Order.pay.run_all(waver)
    store.advance(timedelta(days=2))
    assert run("errors", "--since", "1d").code == 0
    assert run("errors", "--until", "1d").code == 1


@pytest.mark.usefixtures("store")
def test_no_errors_exit_with_0() -> None:
    assert run("errors", "ship").out == "no task of Order has failed or is ignored in ship\n"
    nothing = "no matching task of Order has failed or is ignored in ship\n"
    assert run("errors", "ship", "--since", "1h").out == nothing
    assert (run("errors").code, read("errors")) == (0, [])


@pytest.mark.usefixtures("store")
def test_ignored_tasks_have_the_reason() -> None:
    Order.create("o-1")
    Order.pay.ignore("o-1", reason="cancelled")
    assert read("errors")[0]["error"] == "ignored: cancelled"


@pytest.mark.parametrize(
    "error",
    [
        "HTTPError: HTTP Error 404: Not Found",
        "X: the bank did not answer (HTTP 503)",
        "OSError: [Errno 111] Connection refused",
        "X: exit status -9",
        "X: failed with code 2",
        "X: us-east-1 is down",
        "S3Upload2024Error: x",
    ],
)
def test_what_says_which_error_it_is_is_kept(error: str) -> None:
    assert error_pattern(error, "o-17") == error


def test_tasks_that_are_retried_later_are_one_group(store: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(20))

    def wait(ctx: ExecutionContext[Order]) -> None:
        raise RetryLater(timedelta(hours=8, seconds=int(ctx.task.task_id[2:]) * 61.663897))

    Order.pay.run_all(wait)
    store.advance(timedelta(hours=1))
    (group,) = read("errors")
    assert (group["tasks"], group["error"]) == (20, "RetryLater: retry in #")


@pytest.mark.parametrize(
    ("error", "task_id", "output"),
    [
        ("TypeError: no answer in a1b2", "1", "TypeError: no answer in a1b2"),
        ("TypeError: no answer about 1", "1", "TypeError: no answer about …"),
        ("Error: e is not there", "e", "Error: … is not there"),
        ("KeyError: 'a b'", "a\n b", "KeyError: '…'"),
        ("KeyError: (x)", "(x)", "KeyError: …"),
        ("X", " ", "X"),
    ],
)
def test_a_short_id_takes_no_error_apart(error: str, task_id: str, output: str) -> None:
    assert error_pattern(error, task_id) == output


@pytest.mark.usefixtures("store")
def test_an_error_is_shown_as_it_is_unless_others_of_its_group_differ() -> None:
    Order.create("o-1")
    Order.pay.ignore("o-1", reason="at most 36 of them")
    assert [group["error"] for group in read("errors")] == ["ignored: at most 36 of them"]
    Order.create("o-2")
    Order.pay.ignore("o-2", reason="at most 37 of them")
    assert [(group["tasks"], group["error"]) for group in read("errors")] == [(2, "ignored: at most # of them")]


def test_an_occurrence_that_was_given_up_is_shown_until_the_next_one_is_due(store: StoppedClock) -> None:
    Order.create("good", repeat=Repeat.every(timedelta(days=1)))
    Order.create("later", due_time=timedelta(days=1))
    Order.create("o-1", repeat=Repeat.every(timedelta(days=1)))
    store.advance(timedelta(minutes=1))
    for step in (Order.pay, Order.ship):
        succeed(step, "good")
    succeed(Order.pay, "o-1")
    for _ in range(Order.ship.max_attempts):
        fail(Order.ship, "o-1")

    (group,) = read("errors")
    assert (group["state"], group["example"], group["error"]) == ("pay.pending", "o-1", "Broken: it broke")
    assert (len(read("errors", "ship")), read("errors", "pay")) == (1, [])
    ended = run("errors")
    assert (ended.code, "pay.pending, gave up" in ended.out) == (1, True)
    store.advance(timedelta(days=1))
    assert read("errors") == []


@pytest.mark.usefixtures("store")
def test_a_repeating_task_that_was_reopened_has_given_up_nothing() -> None:
    for by in (None, "jane"):
        Order.create(f"by {by}", repeat=Repeat.every(timedelta(days=1)), due_time=timedelta(days=1))
        Order.pay.ignore(f"by {by}", reason="holidays")
        Order.pay.reopen(f"by {by}", by=by)
    assert read("errors") == []


@pytest.mark.usefixtures("store")
def test_the_search_for_given_up_occurrences_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.cli.commands.inspect._MOST_SEARCHED", 3)
    for number in range(3):
        Order.create(f"later-{number}", due_time=timedelta(hours=1))
    assert run("errors").err == ""
    Order.create("later still", due_time=timedelta(hours=2))
    assert run("errors", "ship").err == "only the first 3 tasks that are due later were read\n"
