"""What the page shows: every address, on an empty table, on tasks in all states, and on tasks that are damaged."""

import html
import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from starlette.testclient import TestClient

from pynamodb_tracker import ConcurrencyLimit, ExecutionContext, GiveUp, Repeat, Step, Task, UseCase
from pynamodb_tracker.control import flow, item, records
from pynamodb_tracker.control.slots import slots_of
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import run
from tests.support.rows import change
from tests.support.rows import client as dynamodb
from tests.support.workers import raising
from tests.web.conftest import Open
from tests.web.shop import CarrierError, Nightly, Order, Refund, leave

pytestmark = pytest.mark.usefixtures("shop")

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</title></script>",
    "\x1b[31m",
    "\u202egnp.exe",
    "a/b?c=d&e#f%2F+ é",
    "two\nlines",
]

VIEWS = [
    "/",
    "/Order/",
    "/Order/tasks",
    "/Order/tasks?step=ship&state=pending",
    "/Order/tasks?step=ship&state=in_progress",
    "/Order/tasks?step=ship&state=failed&newest=1",
    "/Order/tasks?step=ship&state=ignored",
    "/Order/tasks?step=ship&state=succeeded",
    "/Order/tasks?step=confirm_payment&state=succeeded&since=1d&until=1h",
    "/Order/tasks?step=ship&state=failed&error=503",
    "/Order/errors",
    "/Order/errors?step=ship&since=24h&sample=10",
    "/Order/schedules",
    "/Nightly/schedules",
    "/Order/bulk?verb=reopen&step=ship&state=failed",
    "/Order/bulk?verb=ignore&step=ship&state=pending&error=x&since=1d",
    "/find",
    "/find?id=o-1",
    "/table",
]


def text_of(answer: Any) -> str:
    main = re.search(r"<main.*</main>", answer.text, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main[0] if main else answer.text)).split())


def fail(ctx: ExecutionContext[Any]) -> None:
    raise CarrierError(f"label service: HTTP 503 for {ctx.task.task_id}")


def give_up(_: ExecutionContext[Any]) -> None:
    raise GiveUp("no such street")


def every_state(shop: StoppedClock) -> None:
    """Create a task in each state of ship, and one that is done."""
    for name in ("pending", "in_progress", "failed", "ignored"):
        Order.create(f"o-{name}", state=Order.ship.pending, customer="Ada", data={"lines": [{"customer": "Ada"}]})
    shop.advance(timedelta(minutes=1))
    leave(Order.ship, "o-in_progress")
    with pytest.raises(CarrierError):
        Order.ship.run("o-failed", fail)
    with pytest.raises(GiveUp):
        Order.ship.run("o-ignored", give_up)
    Order.create("o-done", state=Order.ship.succeeded)


def test_every_view_shows_an_empty_table(open_page: Open) -> None:
    client = open_page()
    assert {client.get(path).status_code for path in VIEWS} == {200}
    assert "No task is ship failed." in text_of(client.get("/Order/tasks?step=ship&state=failed"))
    assert "No task has failed at ship." in text_of(client.get("/Order/errors?step=ship"))
    overview = text_of(client.get("/Order/"))
    assert "Nothing needs you." in overview
    assert "ship 0 0 0 0 0" in overview


def test_every_view_shows_tasks_in_every_state(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    client = open_page()
    tasks = [f"/Order/task?id=o-{name}" for name in ("pending", "in_progress", "failed", "ignored", "done")]
    assert {client.get(path).status_code for path in [*VIEWS, *tasks]} == {200}
    assert "1 gave up at Order.ship : GiveUp: no such street" in text_of(client.get("/Order/"))
    assert "1 CarrierError: label service: HTTP 503 for o-failed" in text_of(client.get("/Order/errors"))
    assert "ship gave up" in text_of(client.get("/Order/task?id=o-ignored"))


def test_what_a_person_did_is_no_attempt(open_page: Open) -> None:
    Order.create("o-1", state=Order.ship.pending)
    with pytest.raises(ZeroDivisionError):
        Order.ship.run("o-1", lambda _: 1 // 0)
    Order.cancel("o-1", reason="by phone", by="ada")
    Order.create("o-2")
    history = text_of(open_page().get("/Order/task?id=o-1"))
    assert ("cancelled: by phone by ada" in history, history.count("ship attempt 1")) == (True, 1)
    assert run("show", "o-1", of="tests.web.shop:Order").out.count("ship, attempt 1") == 1


def test_a_use_case_says_what_is_paused_and_required(open_page: Open, shop: StoppedClock) -> None:
    Order.ship.pause(until=None, reason="<b>bank</b>", by="ada")
    answer = open_page().get("/Order/")
    assert "Order.ship is paused until it is resumed: “<b>bank</b>” by ada" in text_of(answer)
    item.require(Order, Order.ship.number + 5, "<b>ada")
    answer = open_page().get("/Order/")
    assert f"Step({Order.ship.number + 5}) is required by <b>ada, but no program" in text_of(answer)
    Order.create("o-1", state=Order.ship.pending)
    assert "Its step is paused until it is resumed, by ada: <b>bank</b>" in text_of(
        open_page(Order).get("/Order/task?id=o-1")
    )
    leave(Order.ship, "o-1")
    shop.advance(timedelta(hours=1))
    assert "the next run takes it over, but its step is paused until it is resumed" in text_of(
        open_page(Order).get("/Order/task?id=o-1")
    )


@pytest.mark.usefixtures("counted")
def test_what_passed_through_each_step_is_shown_if_somebody_counts_it(open_page: Open, shop: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(8))
    Order.confirm_payment.run_all(lambda _: None, limit=5)
    shop.advance(timedelta(hours=2))
    Order.create("o-late")
    page = open_page()
    assert "confirm_payment: successes and failures by hour" in page.get("/Order/").text
    found = page.get("/Order.json").json()
    first, second, _ = (row["passing"] for row in found["now"]["use_cases"][0]["steps"])
    assert [(sum(each["came"]), sum(each["succeeded"]), each["came"][-1]) for each in (first, second)] == [
        (9, 5, 1),
        (5, 0, 0),
    ]
    assert found["cost"]["reads"] == found["cost_of_all_views"]["reads"]


@pytest.mark.parametrize(("came", "done", "growing"), [(30, 20, True), (30, 28, False), (3, 2, False), (5, 30, False)])
def test_a_step_grows_by_a_tenth_of_what_it_finishes(
    open_page: Open,
    shop: StoppedClock,
    counted: None,  # noqa: ARG001 - it counts
    monkeypatch: pytest.MonkeyPatch,
    *,
    came: int,
    done: int,
    growing: bool,
) -> None:
    monkeypatch.setattr(flow, "_MOST", 1)
    Order.create_many(f"o-old-{number}" for number in range(30))
    shop.advance(timedelta(hours=2) - timedelta(minutes=shop.now().minute, seconds=shop.now().second))
    Order.create_many(f"o-{number}" for number in range(came))
    Order.confirm_payment.run_all(lambda _: None, limit=done)
    shop.advance(timedelta(minutes=59))
    [of] = open_page().get("/Order.json").json()["now"]["use_cases"]
    assert of["steps"][0]["is_growing"] is growing


def test_a_use_case_says_how_much_of_a_limit_is_in_use(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship._definition.declared, "concurrency_limit", bank := ConcurrencyLimit("bank", 3))
    slots_of(Order, bank).table.take(1)
    assert "limit bank: 1 of 3 slots are taken" in text_of(open_page().get("/Order/"))


def test_what_is_late_and_what_a_worker_left_behind_is_marked(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-1")
    leave(Order.ship, Order.create("o-2", state=Order.ship.pending).task_id)
    assert 'class="late"' not in open_page(Order).get("/Order/").text
    shop.advance(timedelta(minutes=14))
    assert 'class="late"' not in open_page(Order).get("/Order/").text
    shop.advance(timedelta(minutes=3))
    page = open_page(Order).get("/Order/")
    assert "oldest 17m" in text_of(page)
    assert "1 expired" in text_of(page)


def test_a_lock_that_a_heartbeat_has_extended_has_not_expired(open_page: Open, shop: StoppedClock) -> None:
    with Order.ship.start(Order.create("o-1", state=Order.ship.pending).task_id) as ctx:
        shop.advance(timedelta(minutes=14))
        ctx.extend_lock(timedelta(hours=1))
        shop.advance(timedelta(minutes=10))
        assert "expired" not in text_of(open_page(Order).get("/Order/"))
        listed = text_of(open_page(Order).get("/Order/tasks?step=ship&state=in_progress"))
        assert "expires in 50m" in listed
        assert str(ctx.task.worker) in listed


def test_what_waits_for_other_tasks_is_counted_and_said(open_page: Open) -> None:
    Order.confirm_payment.run(Order.create("o-1").task_id, lambda ctx: ctx.create(Refund, "r-1", wait=True))
    client = open_page()
    assert "reserve_stock 0 1 children 0 0 0" in text_of(client.get("/Order/"))
    assert "after 1 task" in text_of(client.get("/Order/tasks?step=reserve_stock&state=pending"))
    assert "Waits for 1 task" in text_of(client.get("/Order/task?id=o-1"))
    assert "Child of Order o-1" in text_of(client.get("/Refund/task?id=r-1"))


def test_a_task_is_told_with_its_failures_and_what_comes_next(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    page = text_of(open_page().get("/Order/task?id=o-failed"))
    assert "May start" in page
    assert "CarrierError: label service: HTTP 503 for o-failed" in page
    assert "raise CarrierError" in page
    assert "failed, attempt 1 of 5" in page
    assert "customer Ada" in page


def test_a_task_of_a_branch_says_what_was_passed_over(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship._definition.codes, "branch", True)
    Order.create("o-1")
    page = open_page(Order)
    assert "reserve_stock to come ship branch" in text_of(page.get("/Order/task?id=o-1"))
    Order.create("o-2", state=Order.ship.succeeded)
    assert "reserve_stock done ship branch" in text_of(page.get("/Order/task?id=o-2"))
    change(Order, "o-1", skipped_steps={"L": [{"N": "20"}]}, status={"N": "30"})
    text = text_of(page.get("/Order/task?id=o-1"))
    assert "confirm_payment done reserve_stock passed over ship pending" in text
    assert "ship (branch)" in text_of(page.get("/Order/"))


def test_attributes_that_are_hidden_are_shown_nowhere(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    page = open_page(hide={"customer"}).get("/Order/task?id=o-failed")
    assert "Ada" not in page.text
    assert text_of(page).count("hidden") == 2


def test_what_is_hidden_is_not_told_by_an_error_nor_by_a_group(open_page: Open, shop: StoppedClock) -> None:
    def share(ctx: ExecutionContext[Any]) -> None:
        assert ctx.group is not None
        ctx.group.data["iban"] = "Ada"

    Refund.create("r-1", group="g", valid_until=shop.now())
    Refund.pay_back.run("r-1", share)
    change(Refund, "r-1", valid_until={"S": "4711"})
    paths = ["/Refund/task?id=r-1", "/Refund/group?name=g"]
    seen, client = open_page(), open_page(hide={"valid_until", "data"})
    assert [("4711" in page or "Ada" in page) for page in (seen.get(path).text for path in paths)] == [True, True]
    for path in paths:
        page = client.get(path)
        assert page.status_code == 200
        assert "4711" not in page.text
        assert "Ada" not in page.text


def test_data_that_is_deeper_than_python_walks_is_shown_to_a_depth(open_page: Open) -> None:
    Order.create("o-1")
    change(Order, "o-1", data={"S": '{"a":' * 700 + "1" + "}" * 700})
    page = open_page().get("/Order/task?id=o-1")
    assert (page.status_code, page.text.count("&#34;a&#34;"), "…" in page.text) == (200, 99, True)


def test_no_more_of_a_group_is_read_than_is_shown(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.web.views._MOST_SHOWN", 2)
    for number in range(5):
        Order.create(f"o-{number}", group="g")
    page = text_of(open_page().get("/Order/group?name=g"))
    assert "Waiting, in order 2 or more, the first created 0s ago . pynamodb-tracker group lists all o-1 o-2" in page


def test_a_repeating_task_says_its_rule(open_page: Open) -> None:
    Nightly.create("nightly", repeat=Repeat.cron("0 2 * * *"))
    assert "Repeats 0 2 * * * in UTC" in text_of(open_page().get("/Nightly/task?id=nightly"))


def test_schedules_say_if_more_tasks_may_repeat_than_read(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_SCHEDULES", 2)
    Nightly.create("n-1", repeat=Repeat.every(timedelta(days=1)))
    assert "schedules are listed" not in text_of(open_page().get("/Nightly/schedules"))
    Nightly.create("n-2", repeat=Repeat.every(timedelta(days=1)))
    assert "schedules are listed: there may be more" in text_of(open_page().get("/Nightly/schedules"))


def test_a_task_that_a_run_has_created_links_to_it(open_page: Open) -> None:
    Order.ship.run(Order.create("o/1", state=Order.ship.pending).task_id, lambda ctx: ctx.create(Refund, "r-1"))
    assert 'href="/Order/task?id=o%2F1"' in open_page().get("/Refund/task?id=r-1").text
    assert 'href="/Order/task' not in open_page(Refund).get("/Refund/task?id=r-1").text


def test_a_task_of_a_group_leads_to_the_tasks_that_wait_for_their_turn(open_page: Open) -> None:
    for number in range(3):
        Order.create(f"o-{number}", group="Ada & Co")
    client = open_page(hide={"customer"})
    page = client.get("/Order/task?id=o-1")
    assert "Ada & Co, waits for its turn" in text_of(page)
    link = re.search(r'href="(/Order/group[^"]*)"', page.text)
    assert link
    group = text_of(client.get(html.unescape(link[1])))
    assert "Has the turn o-0 confirm_payment pending Shared data none Waiting, in order 2, the first created" in group
    assert "the group is idle" in text_of(client.get("/Order/group?name=nobody"))
    assert client.get("/Order/group").status_code == 400


def test_a_damaged_task_is_shown_with_what_can_be_read(open_page: Open) -> None:
    Order.create("o-1", amount=5, customer="c-1", state=Order.ship.failed)
    five = {"S": "<b>five"}
    change(Order, "o-1", amount=five, create_time=five, update_time=five)
    client = open_page()
    page = client.get("/Order/task?id=o-1")
    assert page.status_code == 200
    assert "amount unreadable" in text_of(page)
    assert "create_time unreadable" in text_of(page)
    found = ("/find?id=o-1%0Ax", "/find?id=customer%3Dc-1%0Ax")
    for path in ("/Order/", "/Order/errors", "/Order/tasks?step=ship&state=failed", *found):
        assert client.get(path).status_code == 200, path


def test_a_task_with_an_unreadable_due_time_is_shown(open_page: Open) -> None:
    Order.create("o-1", due_time=timedelta(hours=1))
    Nightly.create("nightly", repeat=Repeat.every(timedelta(hours=24)), due_time=timedelta(0))
    with pytest.raises(GiveUp):
        Nightly.collect.run("nightly", raising(GiveUp("no disk")))
    for model, task_id in ((Order, "o-1"), (Nightly, "nightly")):
        change(model, task_id, due_time={"S": "garbage"})
    client = open_page()
    for path in ("/", "/Nightly/", "/Nightly/task?id=nightly", "/Order/task?id=o-1", "/Order/task.json?id=o-1"):
        page = client.get(path)
        assert (page.status_code, ">Run now<" in page.text) == (200, False), path


def test_a_state_that_no_step_declares_is_shown_as_unknown(open_page: Open) -> None:
    Order.create("o-1")
    change(Order, "o-1", status={"N": "77"}, status_key={"S": "order#77#0"})
    client = open_page()
    assert "unknown 77" in text_of(client.get("/Order/task?id=o-1"))
    assert "Nothing: no step declares its state" in text_of(client.get("/Order/task?id=o-1"))
    assert "unknown 77 1" in text_of(client.post("/Order/count"))


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_is_stored_is_shown_as_text_wherever_it_stands(open_page: Open, text: str) -> None:
    def fail_with_text(ctx: ExecutionContext[Any]) -> None:
        ctx.task.data[text] = {"note": text}
        raise CarrierError(text)

    Order.create(text, state=Order.ship.pending, customer=text)
    with pytest.raises(CarrierError):
        Order.ship.run(text, fail_with_text)
    Order.create(f"{text} 2", state=Order.ship.pending)
    Order.ship.ignore(f"{text} 2", reason=text, by=text)
    Order.create(f"{text} 3", state=Order.ship.pending)
    leave(Order.ship, f"{text} 3")
    change(Order, f"{text} 3", worker={"S": text})
    client = open_page(user=lambda _: text)
    query = quote(text, safe="")
    paths = ["/Order/", "/Order/errors", "/Order/tasks?step=ship&state=ignored", f"/Order/task?id={query}"]
    paths += [f"/Order/tasks?step=ship&state=failed&error={query}", f"/Order/task?id={query}%202"]
    paths += ["/Order/tasks?step=ship&state=in_progress", f"/Order/task?id={query}%203"]
    paths += [f"/Order/bulk?verb=ignore&step=ship&state=failed&error={query}"]
    shown = [client.get(path) for path in paths]
    assert {answer.status_code for answer in shown} == {200}
    failed = [f"/Order/tasks?step={query}", f"/Order/tasks?since={query}", f"/Order/task?id=x{query}", f"/{query}/"]
    shown += [client.get(path) for path in failed]
    shown += [client.get(f"/find?id={query}%0A{query}x")]
    for answer in shown:
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "49" not in re.findall(r">[^<]*49[^<]*<", answer.text)
        text_only = re.sub(r'(data-text|value)="[^"]*"|<textarea.*?</textarea>', "", answer.text, flags=re.DOTALL)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text_only)
        assert not re.search(r"""(href|action|src)="(?!/|#)""", answer.text)
        assert not re.search(r"\s(on\w+|style)=", re.sub(r"&[^;]+;", "", answer.text.replace("onerror=alert", "")))


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/nowhere/", 404, "Use case not found on this page."),
        ("/nowhere/else/", 404, "GET /nowhere/else/ does not exist."),
        ("/Order/nothing", 404, "GET /Order/nothing does not exist."),
        ("/Order/task?id=o-1", 404, "Order 'o-1' does not exist"),
        ("/Order/task", 400, "a task id has 1 to 1024 bytes, not 0"),
        (f"/Order/task?id={'x' * 1025}", 400, "a task id has 1 to 1024 bytes, not 1025"),
        ("/Order/tasks?step=ship&state=lost", 400, "'lost' is not a status of a step."),
        ("/Order/tasks?step=fly&state=failed", 400, "Order has no step 'fly'."),
        ("/Order/tasks?step=ship&state=failed&since=soon", 400, "'soon' is not a time: write how long ago"),
        ("/Order/tasks?step=ship&state=failed&since=9999999d", 400, "is too far in the past"),
        ("/Order/tasks?step=ship&state=failed&until=0001-01-01T00:00%2B14:00", 400, "is not a time"),
        ("/Order/tasks?step=ship&state=failed&since=1h&until=2h", 400, "this must be after the other time"),
        ("/Order/tasks?step=ship&state=failed&cursor=x", 400, "this is not a page cursor"),
        ("/Order/errors?step=fly", 400, "Order has no step 'fly'."),
        ("/Order/errors?sample=-1", 400, "sample must be a number up to 25,600."),
        ("/Order/errors?sample=1e3", 400, "sample must be a number up to 25,600."),
        ("/Order/bulk?verb=delete&step=ship&state=failed", 400, "'delete' is not an action on tasks."),
        ("/Order/bulk?verb=reopen&step=ship", 400, "'' is not a status of a step."),
    ],
)
def test_a_wrong_address_is_refused_in_a_sentence(open_page: Open, path: str, code: int, said: str) -> None:
    answer = open_page().get(path)
    assert answer.status_code == code
    assert said in text_of(answer)
    assert "Traceback" not in answer.text


def test_a_cursor_of_another_list_is_refused(open_page: Open) -> None:
    for number in range(3):
        Order.create(f"o-{number}", state=Order.ship.failed)
    cursor = Order.ship.failed.index_page(limit=2).cursor
    client = open_page()
    assert "o-2" in text_of(client.get("/Order/tasks", params={"step": "ship", "state": "failed", "cursor": cursor}))
    answer = client.get("/Order/tasks", params={"step": "ship", "state": "ignored", "cursor": cursor})
    assert answer.status_code == 400
    assert "the cursor belongs to another query" in text_of(answer)


def test_what_dynamodb_refuses_is_told_without_a_traceback(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}, "Query")

    monkeypatch.setattr(dynamodb(Order), "_make_api_call", refuse)
    for path in ("/", "/Order/", "/Order/task?id=o-1", "/Order/tasks"):
        answer = open_page().get(path)
        assert (answer.status_code, "AccessDeniedException: not authorized" in text_of(answer)) == (502, True), path


def test_a_missing_region_is_told(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    class FarTask(Task):
        class Meta:
            table_name = "far"

    class Far(FarTask):
        use_case_id = UseCase("far")

        go = Step(10)

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    answer = open_page(Far).get("/Far/")
    assert (answer.status_code, "no region: set it in the Meta" in text_of(answer)) == (502, True)


def test_pages_of_a_list_follow_each_other(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.presentation.listing.PAGE", 2)
    for number in range(5):
        Order.create(f"o-{number}", state=Order.ship.failed)
    client, path, seen = open_page(), "/Order/tasks?step=ship&state=failed", []
    while path:
        page = client.get(path)
        seen.append(re.findall(r'class="id" href="[^"]*">([^<]*)<', page.text))
        following = re.search(r'rel="next" href="([^"]*)"', page.text)
        path = html.unescape(following[1]) if following else ""
    assert seen == [["o-0", "o-1"], ["o-2", "o-3"], ["o-4"]]


def test_tasks_are_found_by_a_part_of_their_error_and_by_the_pattern_of_their_group(open_page: Open) -> None:
    for number in range(3):
        Order.create(f"o-{number}", state=Order.ship.pending)
        with pytest.raises(CarrierError):
            Order.ship.run(f"o-{number}", fail)
    Order.create("o-other", state=Order.ship.failed)
    client = open_page()
    [link, *_] = re.findall(r'data-row="([^"]*HTTP[^"]*)"', client.get("/Order/errors").text)
    page = text_of(client.get(html.unescape(link)))
    assert "4 tasks in this state were searched, 3 found." in page
    assert "o-other" not in page
    assert "3 found" in text_of(client.get("/Order/tasks?step=ship&state=failed&error=http 503"))
    assert "1 found" in text_of(client.get("/Order/tasks?step=ship&state=failed&error=no error is recorded"))


def test_ids_are_found_in_all_use_cases(open_page: Open) -> None:
    Order.create("o-1")
    Refund.create("o-1")
    Refund.create("r-1")
    client = open_page()
    assert client.get("/find?id=+r-1+").headers["location"] == "/Refund/task?id=r-1"
    page = text_of(client.get("/find?id=o-1"))
    assert "o-1 Order" in page
    assert "o-1 Refund" in page
    page = text_of(client.get("/find", params={"id": f"r-1\r\nnone\n\n{'x' * 1025}"}))
    assert "r-1 Refund" in page
    assert "Not found: none" in page
    assert "Only the first 100 lines" in text_of(client.get("/find", params={"id": "\n".join(map(str, range(101)))}))


def test_tasks_are_found_by_an_attribute_too(open_page: Open) -> None:
    Order.create("o-1", customer="c-7")
    client = open_page()
    assert client.get("/find?id=customer=c-7").headers["location"] == "/Order/task?id=o-1"
    Refund.create("r-1", customer="c-7")
    page = text_of(client.get("/find", params={"id": "customer=c-7\ncustomer=c-8\namount=5"}))
    assert "o-1 Order" in page
    assert "r-1 Refund" in page
    assert "Not found: customer=c-8 , amount=5" in page


def test_finished_tasks_that_are_not_in_the_index_are_not_counted(open_page: Open) -> None:
    client = open_page()
    assert ("state=succeeded" in client.get("/Order/").text, "state=succeeded" in client.get("/Nightly/").text) == (
        True,
        False,
    )
    refused = client.get("/Nightly/tasks?step=collect&state=succeeded")
    assert (refused.status_code, "index_succeeded=False" in text_of(refused)) == (409, True)


def test_many_use_cases_are_in_a_menu(open_page: Open) -> None:
    class ManyTask(Task):
        class Meta:
            table_name = "many"
            region = "us-east-1"

    names = [f"Case{number}" for number in range(7)]
    cases = [
        type(name, (ManyTask,), {"use_case_id": UseCase(name), "go": Step(10), "__module__": __name__})
        for name in names
    ]
    few, many = (open_page(*of).get("/nowhere/").text.partition("<main")[0] for of in (cases[:6], cases))
    assert ("<details" in few, "Use cases ▾</summary>" in many) == (False, True)
    assert re.findall(r'href="/Case\d/">(\w+)', many) == names


def test_the_table_is_told_with_what_the_doctor_finds(open_page: Open) -> None:
    client: TestClient = open_page()
    page = text_of(client.get("/table"))
    assert "Table shop-tasks Findings" in page
    assert "Order stored as order" in page


def test_an_occurrence_that_was_given_up_is_shown_and_not_to_be_reopened(open_page: Open, shop: StoppedClock) -> None:
    Nightly.create("n-1", repeat=Repeat.every(timedelta(days=1)))
    shop.advance(timedelta(minutes=1))
    for _ in range(Nightly.collect.max_attempts):
        with pytest.raises(CarrierError):
            Nightly.collect.run("n-1", fail)
    client = open_page()

    groups = client.get("/Nightly/errors")
    assert "gave up an occurrence" in text_of(groups)
    assert "HTTP 503" in text_of(groups)
    assert "verb=reopen" not in groups.text


def test_a_group_is_found_by_its_name(open_page: Open) -> None:
    Order.create("o-1", group="Ada & Co")
    Refund.create("Ada & Co")
    client = open_page()
    page = client.get("/find", params={"id": "Ada & Co"})
    assert 'href="/Order/group?name=Ada+%26+Co"' in page.text
    assert "Ada & Co Refund" in text_of(page)
    Refund.delete_task("Ada & Co")
    assert client.get("/find", params={"id": "Ada & Co"}).headers["location"] == "/Order/group?name=Ada+%26+Co"


def test_a_wrong_time_keeps_the_form_and_marks_the_field(open_page: Open) -> None:
    for path in ("/Order/tasks?step=ship&state=failed&error=503&since=soon", "/Order/errors?like=503&since=soon"):
        page = open_page().get(path)
        assert (page.status_code, "'soon' is not a time" in text_of(page)) == (400, True)
        assert 'value="soon"' in page.text
        assert 'value="503"' in page.text
        assert 'aria-invalid="true" aria-describedby="wrong-since"' in page.text
    page = open_page().get("/Order/tasks?step=ship&state=failed&since=1h&until=2h")
    assert 'aria-describedby="wrong-until"' in page.text


def test_errors_are_shown_50_at_a_time_and_filtered(open_page: Open, shop: StoppedClock) -> None:
    def fail_in_its_own_way(ctx: ExecutionContext[Any]) -> None:
        raise CarrierError(f"way {'x' * (int(ctx.task.task_id) + 1)} of it")

    for number in range(52):
        Order.create(str(number), state=Order.ship.pending)
        with pytest.raises(CarrierError):
            Order.ship.run(str(number), fail_in_its_own_way)
    shop.advance(timedelta(minutes=1))
    client = open_page()
    page = client.get("/Order/errors")
    following = re.search(r'rel="next" href="([^"]*)">([^<]*)<', page.text)
    assert following
    assert (page.text.count("CarrierError: way"), following[2]) == (50, "51 and more of 52")
    assert client.get(html.unescape(following[1])).text.count("CarrierError: way") == 2
    assert client.get("/Order/errors?like=WAY xx of").text.count("CarrierError: way") == 1


def test_large_data_is_cut_until_all_is_asked_for(open_page: Open) -> None:
    Order.create("o-1", data={"text": "x" * 150_000})
    client = open_page()
    page = client.get("/Order/task?id=o-1")
    assert (page.text.count("x" * 99_000), page.text.count("x" * 110_000)) == (1, 0)
    assert "The first 100,000 of 150,016 characters: show all" in text_of(page)
    assert "x" * 150_000 in client.get("/Order/task?id=o-1&all=1").text


def test_static_files_are_kept_for_ever_and_answers_are_packed(open_page: Open) -> None:
    client = open_page()
    page = client.get("/Order/", headers={"accept-encoding": "gzip"})
    assert (page.headers["content-encoding"], page.headers["cache-control"]) == ("gzip", "no-store")
    links = re.findall(r'(?:href|src)="(/static/[^"]*)"', page.text)
    assert links
    for link in links:
        answer = client.get(link)
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
        plain = re.sub(r"[.]\w{12}[.]", ".", link)
        assert (client.get(plain).content, client.get(plain).headers["cache-control"]) == (answer.content, "no-store")
    assert client.get("/static/other.css").status_code == 404
