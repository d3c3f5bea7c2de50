"""What needs people now: a shop in trouble against a scan of its table, and what is said of what could not be read."""

import re
from collections import Counter
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pynamodb_tracker import ExecutionContext, GiveUp, Repeat, Status
from pynamodb_tracker.control import flow, records
from pynamodb_tracker.presentation import glance
from pynamodb_tracker.presentation import needs as needs_of
from pynamodb_tracker.presentation.needs import KINDS, Need
from pynamodb_tracker.presentation.now import find_now
from pynamodb_tracker.presentation.task_facts import unfinished_states
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.support.rows import client as dynamodb
from tests.web.conftest import Open
from tests.web.shop import Nightly, Order, Parcel, Refund, ShopTask, failed
from tests.web.test_views import text_of
from tests.web.trouble import CARRIER

MODELS = (Nightly, Order, Parcel, Refund)


def needs() -> list[Need]:
    return list(find_now(MODELS).needs)


def test_each_planted_trouble_is_shown_the_worst_first_with_the_number_of_a_scan(trouble: StoppedClock) -> None:
    now = trouble.now()
    rows = list(ShopTask.scan())

    def at(model: Any, step: str, *statuses: Status) -> list[Any]:
        return [
            row for row in rows if isinstance(row, model) and row.state.step == step and row.state.status in statuses
        ]

    carrier = [row for row in at(Order, "ship", Status.FAILED) if CARRIER in (row.last_error or "")]
    due = [row for row in rows if row.state.status in (Status.PENDING, Status.FAILED) and row.due_time <= now]
    late = Counter((type(row), row.state.step) for row in due)
    left = [row for row in rows if row.state.status is Status.IN_PROGRESS and row.lock_expire_time < now]
    asked = [row for row in rows if row.awaited_signals]
    poor = [row for row in rows if row.state.status is Status.IGNORED and "card declined" in (row.last_error or "")]
    queued = [row for row in rows if row.group == "customer-0" and row.turn_due_time]
    assert [(need.kind, need.model, need.step, need.tasks.tasks) for need in needs()] == [
        ("failures", Order, "ship", len(carrier)),
        ("nobody_runs", Order, "ship", late[Order, "ship"]),
        ("nobody_runs", Order, "reserve_stock", late[Order, "reserve_stock"] + len(left)),
        ("nobody_runs", Refund, "pay_back", late[Refund, "pay_back"]),
        ("signals", Order, "confirm_payment", len(asked)),
        ("gave_up", Order, "ship", len([row for row in poor if isinstance(row, Order)])),
        ("gave_up", Refund, "pay_back", len([row for row in poor if isinstance(row, Refund)])),
        ("blocked", Order, "reserve_stock", 1),
        ("schedule", Nightly, "collect", 1),
        ("schedule", Nightly, "collect", 1),
        ("groups", Order, None, len(queued)),
        ("paused", Order, "confirm_payment", late[Order, "confirm_payment"] - 1),
    ]
    assert all(KINDS.index(one.kind) <= KINDS.index(other.kind) for one, other in pairwise(needs()))
    assert needs()[0].since == min(row.update_time for row in carrier)


def test_a_need_says_since_when_why_and_what_to_do(trouble: StoppedClock) -> None:  # noqa: ARG001 - the table has it
    found = {(need.kind, need.step): (str(need.title), str(need.detail), need.actions[0].command) for need in needs()}
    title, detail, command = found["failures", "ship"]
    assert title == f"12 failed at Order.ship: CarrierError: {CARRIER}"
    assert detail.endswith("the last one 1h ago · 100% of the attempts at ship failed in 24 hours")
    assert command == ("reopen", "ship.failed", "--error-contains", f"CarrierError: {CARRIER}")
    title, detail, command = found["signals", "confirm_payment"]
    assert title == "3 tasks of Order.confirm_payment wait for the signal approved"
    assert detail == "the oldest for 2h · the first stops waiting in 2d 22h, and continues without it"
    assert command == ()
    assert found["gave_up", "ship"][1] == "reopen or cancel them · 1 task that people have set aside is not counted"
    title, detail, command = found["blocked", "reserve_stock"]
    assert (title, command[-1]) == ("Order split is blocked by refund split/1, which gave up", "split/1")
    assert "5 behind line-0" in found["groups", None][1]
    assert "“the bank is down”" in found["paused", "confirm_payment"][0]


@pytest.mark.usefixtures("shop")
def test_each_error_of_tasks_that_gave_up_is_a_need_with_its_own_command() -> None:
    for number, why in enumerate(("no such street", "card declined", "card declined", "lost 1", "too big", "too big")):
        Order.create(f"o-{number}", state=Order.ship.pending)
        with pytest.raises(GiveUp):
            Order.ship.run(f"o-{number}", partial(give_up, why))
    found = [(str(need.title), str(need.detail), need.actions[2].command[-1]) for need in needs()]
    assert found == [
        ("2 gave up at Order.ship: GiveUp: card declined", "reopen or cancel them", "GiveUp: card declined"),
        ("2 gave up at Order.ship: GiveUp: too big", "reopen or cancel them", "GiveUp: too big"),
        ("1 gave up at Order.ship: GiveUp: lost 1", "reopen or cancel it · 1 more cause", "GiveUp: lost 1"),
    ]
    assert needs()[0].actions[0].command[:2] == ("reopen", "ship.ignored")
    assert find_now(MODELS).summary.endswith("first · nothing else needs you, as far as the table shows")


def give_up(why: str, _: ExecutionContext[Any]) -> None:
    raise GiveUp(why)


def test_the_page_its_json_and_the_terminal_show_the_same(trouble: StoppedClock, open_page: Open) -> None:
    del trouble
    page = open_page()
    said = text_of(page.get("/"))
    found = page.get("/.json").json()["now"]
    assert [need["title"] for need in found["needs"]] == [str(need.title) for need in needs()]
    for need in needs():
        for part in need.title:
            assert part.time is not None or " ".join(part.text.split()) in said
    assert "overdue 8h 50m" in said


@pytest.mark.usefixtures("trouble")
def test_the_terminal_prints_each_need_with_the_command_to_run_and_exits_with_1(open_page: Open) -> None:
    ended = run("now", of="tests.web.shop:ShopTask")
    lines = ended.out.splitlines()
    assert ended.code == 1
    first = str(needs()[0].title)
    assert [line for line in lines if line.startswith(first)]
    pause = "pynamodb-tracker pause --app tests.web.shop:ShopTask --use-case order ship --until 1h"
    assert [line.strip() for line in lines if pause in line]
    found = read("now", of="tests.web.shop:ShopTask")
    assert found["needs"] == open_page().get("/.json").json()["now"]["needs"]
    assert 'class="ask" open' in open_page().get("/Order/?pause=ship").text


@pytest.mark.usefixtures("shop")
def test_the_terminal_exits_with_0_if_nothing_needs_anyone() -> None:
    ended = run("now", of="tests.web.shop:ShopTask")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "What needs you: nothing")


def test_a_command_in_the_terminal_is_one_of_what_people_did(shop: StoppedClock) -> None:
    failed("o-1", "o-2")
    shop.advance(timedelta(seconds=1))
    ended = run(
        "reopen", "ship.failed", "--limit", "2", "--by", "bob", "--use-case", "order", of="tests.web.shop:ShopTask"
    )
    assert ended.code == 0, ended.err
    [(_, kept)] = find_now(MODELS).commands
    assert (kept.by, kept.did, kept.about, kept.tasks) == ("bob", "reopened", "ship.failed", 2)
    line = re.escape("bob reopened 2 at Order ship.failed")
    assert re.search(rf"^\d\d:\d\d [A-Z+-][A-Z\d]+  {line}", run("now", of="tests.web.shop:ShopTask").out, re.MULTILINE)


@pytest.mark.usefixtures("shop")
def test_a_quiet_shop_needs_nobody_and_few_failures_are_left_to_their_retries(open_page: Open) -> None:
    assert "Nothing needs you." in text_of(open_page().get("/"))
    failed(*(f"o-{number}" for number in range(needs_of.MANY - 1)))
    assert find_now(MODELS).summary == "nothing · 9 failed tasks will be tried again"


def operations(monkeypatch: pytest.MonkeyPatch, refused: str = "", code: str = "") -> list[str]:
    """Return what is sent from now on. The table refuses some of it."""
    sdk, sent = dynamodb(Order), list[str]()
    send = sdk._make_api_call

    def note(operation: str, request: dict[str, Any]) -> Any:
        sent.append(operation)
        if operation in refused.split():
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
        return send(operation, request)

    monkeypatch.setattr(sdk, "_make_api_call", note)
    return sent


@pytest.mark.usefixtures("shop")
def test_a_denied_read_is_said_and_no_conclusion_drawn(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    operations(monkeypatch, "BatchGetItem", "AccessDeniedException")
    said = text_of(open_page().get("/"))
    assert "Could not read pauses, counts, schedules and commands: AccessDeniedException: no" in said
    assert "Cannot tell whether something needs you." in said
    assert find_now(MODELS).summary == "nothing · the table cannot tell whether more is wrong"


@pytest.mark.usefixtures("shop")
def test_without_the_table_the_last_picture_has_the_error(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page(refresh=timedelta(seconds=1))
    assert page.get("/").status_code == 200
    operations(monkeypatch, "BatchGetItem Query", "ResourceNotFoundException")
    monkeypatch.setattr("pynamodb_tracker.web.cache.Answer.is_kept", lambda *_, **__: False)
    assert "Cannot reach the table: the table does not exist" in text_of(page.get("/"))
    assert open_page().get("/").status_code == 502


@pytest.mark.usefixtures("shop")
def test_a_step_takes_four_requests_a_shard_and_small_items_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = operations(monkeypatch)
    find_now(MODELS)
    codes = [
        (model, state.code)
        for model in MODELS
        for step in model._bound_steps.values()
        for state in unfinished_states(step)
    ]
    shards = sum(len(model.tracker.status_keys(code)) for model, code in codes)
    assert Counter(sent) == {"Query": shards, "BatchGetItem": 1}


def test_numbers_of_a_large_state_are_at_least_those_read(shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "MOST", 11)
    monkeypatch.setattr(glance, "_MOST_READ", 2)
    failed(*(f"o-{number:02}" for number in range(12)))
    shop.advance(timedelta(hours=1))
    Order.create_many(f"p-{number}" for number in range(12))
    Order.create("later", due_time=timedelta(hours=1))
    [ship] = [row for of in find_now(MODELS).use_cases for row in of.steps if row.step is Order.ship]
    [first] = [row for of in find_now(MODELS).use_cases for row in of.steps if row.step is Order.confirm_payment]
    assert (ship.failed.at_least, first.due.at_least, dict(first.waits)["later"].at_least) == ("≥ 11", "≥ 11", "1")
    assert "≥ 11 failed at Order.ship" in str(needs()[0].title)
    assert "or earlier" in str(needs()[0].detail)


# The list of schedules, and what people did.


@pytest.mark.usefixtures("shop")
def test_a_rule_lists_its_task_and_a_deletion_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    daily = Repeat.every(timedelta(days=1))
    sent = operations(monkeypatch)
    Nightly.create("a", repeat=daily)
    assert sent == ["UpdateItem", "PutItem"]
    Nightly.create_or_merge("b", repeat=daily)
    Nightly.create_or_merge("b", repeat=daily)
    Order.create("o-1")
    Order.confirm_payment.run("o-1", lambda ctx: ctx.create(Nightly, "c", repeat=daily))
    assert [each.task.task_id for each in find_now(MODELS).schedules] == ["a", "b", "c"]
    Nightly.delete_task("b")
    monkeypatch.setattr(records, "MOST_SCHEDULES", 2)
    Nightly.create("d", repeat=daily)
    assert [each.task.task_id for each in find_now([Nightly]).schedules] == ["a", "c"]


def test_the_last_twenty_commands_are_kept_one_entry_each(shop: StoppedClock, open_page: Open) -> None:
    failed("o-1", "o-2")
    for number in range(20):
        records.record(Order, "bob", "paused", f"step-{number}")
        shop.advance(timedelta(seconds=1))
    page = open_page()
    page.post("/Order/tasks", data={"verb": "reopen", "step": "ship", "state": "failed", "task": ["o-1", "o-2"]})
    kept = find_now(MODELS).commands
    assert (len(kept), kept[-1][1].about) == (20, "step-1")
    assert [(each.by, each.did, each.about, each.tasks) for _, each in kept[:2]] == [
        ("ada", "reopened", "ship", 2),
        ("bob", "paused", "step-19", 0),
    ]
    assert "ada reopened 2 at Order ship" in text_of(page.get("/"))


def pass_time(clock: StoppedClock, seconds: float, _: ExecutionContext[Any]) -> None:
    clock.advance(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "median"), [([1.7] * 9, 1.7), ([0.05] * 5 + [20.0] * 4, 0.08), ([5000.0], 6000.0), ([], None)]
)
def test_half_of_the_successes_took_about_as_long(
    shop: StoppedClock, monkeypatch: pytest.MonkeyPatch, seconds: list[float], median: float | None
) -> None:
    monkeypatch.setattr(Refund.use_case_id, "count_transitions", True)
    monkeypatch.setattr(flow, "_MOST", 1)
    for number, each in enumerate(seconds):
        Refund.create(f"r-{number}")
        Refund.pay_back.run(f"r-{number}", partial(pass_time, shop, each))
    [passing] = [row.passing for of in find_now([Refund]).use_cases for row in of.steps]
    assert passing is not None
    flow._counts.forget()
    found = passing.median
    assert (found is None) == (median is None)
    assert found is None or median is None or abs(found.total_seconds() / median - 1) < 0.3
