"""Reopen and ignore: one task, selected ones, and all that match a filter, in slices."""

import html
import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from markupsafe import escape
from pynamodb.attributes import NumberAttribute
from starlette.testclient import TestClient

from pynamodb_tracker import ExecutionContext, Repeat, Report, Status, Step, Task, UseCase
from pynamodb_tracker.control import records
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.presentation import listing
from pynamodb_tracker.presentation.now import find_now
from pynamodb_tracker.testing import StoppedClock, local_table
from pynamodb_tracker.web import ActionRequest, decisions
from tests.support.rows import change
from tests.web.conftest import Open, slices_of
from tests.web.shop import CarrierError, Nightly, Order, Refund, failed, leave
from tests.web.test_views import text_of

pytestmark = pytest.mark.usefixtures("shop")

SIGNAL = '/Order/task[^"]*" class="signal'
"""The form of a signal."""

LATER = ("/Order/task?id=o-later", "/Order/task?id=o-waits", "/Order/task?id=o-1")
LATER_FORM = {"step": "confirm_payment", "task": "o-later"}

ODD = ["a/b?c#d&e=f%2F+g", "two\nlines", " spaces ", "é\u202e"]
"""Ids that a form could change on its way."""


def fields_of(page: Any, form: str) -> dict[str, list[str]]:
    """Return the fields of the form that posts there, as a browser without a script sends them."""
    found = re.search(rf'<form method="post" action="{form}[^"]*".*?</form>', page.text, re.DOTALL)
    assert found
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r"<(?:input|button)[^>]*>", found[0]):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name and 'name="verb"' not in tag.replace('type="hidden" name="verb"', ""):
            text = html.unescape(value[1]) if value else ""
            fields.setdefault(name[1], []).append(re.sub("\r?\n", "\r\n", text))  # as HTML says
    return fields


def planned(open_page: Open, shop: StoppedClock, *task_ids: str, verb: str = "reopen") -> tuple[TestClient, Any]:
    """Let these tasks fail, and return who asks for a dry run about them, and its page."""
    failed(*task_ids)
    shop.advance(timedelta(seconds=1))
    client = open_page()
    return client, client.get(f"/Order/bulk?verb={verb}&step=ship&state=failed")


def number_failed(client: TestClient) -> int:
    [of] = client.get("/Order.json").json()["now"]["use_cases"]
    return sum(row["failed"]["tasks"] for row in of["steps"])


def run_slices(client: TestClient, page: Any, **fields: str) -> Any:
    """Send the form of a dry run, and each form that follows, and return the last page."""
    sent = 0
    while "/Order/bulk" in page.text and '<form method="post" action="/Order/bulk' in page.text:
        page = client.post("/Order/bulk", data={**fields_of(page, "/Order/bulk"), **fields})
        assert page.status_code == 200
        sent += 1
        assert sent < 20
    return page


def test_a_task_is_reopened_by_whom_the_page_knows(open_page: Open, shop: StoppedClock) -> None:
    failed("o-1")
    client = open_page()
    form = fields_of(client.get("/Order/task?id=o-1"), "/Order/task")
    answer = client.post("/Order/task", data={**form, "verb": "reopen"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/Order/task?id=o-1&done=reopen")
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].worker, task.errors[-1].time) == (Order.ship.pending, "ada", shop.now())
    page = text_of(client.get(answer.headers["location"]))
    assert page.startswith("Reopened. It is pending again, with all its attempts.")
    assert "by ada" in page


def test_tasks_are_reopened_as_urgent_where_that_is_ticked(open_page: Open, shop: StoppedClock) -> None:
    Refund.create_many({"task_id": f"r-{number}", "state": Refund.pay_back.failed} for number in range(4))
    failed("o-1")
    shop.advance(timedelta(seconds=1))
    client, box = open_page(), 'name="urgent"'
    assert box not in client.get("/Order/task?id=o-1").text
    assert box in client.get("/Refund/task?id=r-0").text
    assert box in client.get("/Refund/tasks?step=pay_back&state=failed").text
    form = {"verb": "reopen", "step": "pay_back", "task": "r-0"}
    client.post("/Refund/task", data=form)
    client.post("/Refund/task", data={**form, "task": "r-1", "urgent": "1"})
    page = client.get("/Refund/bulk?verb=reopen&step=pay_back&state=failed")
    assert box in page.text
    client.post("/Refund/bulk", data={**fields_of(page, "/Refund/bulk"), "urgent": "1"})
    urgent = {task.task_id for task in Refund.pay_back.pending.query() if task.urgent}
    assert urgent == {"r-1", "r-2", "r-3"}


def test_a_task_is_ignored_with_a_reason(open_page: Open) -> None:
    failed("o-1")
    client = open_page()
    form = {"verb": "ignore", "step": "ship", "task": "o-1"}
    for reason in ({}, {"reason": "  "}):
        answer = client.post("/Order/task", data={**form, **reason})
        assert (answer.status_code, "Enter a reason" in text_of(answer)) == (400, True)
    assert client.post("/Order/task", data={**form, "reason": " lost "}).status_code == 303
    assert Order.get_task("o-1").last_error == "ignored: lost"


def test_a_form_without_a_reason_is_shown_again_and_marked(open_page: Open) -> None:
    failed("o-1", "o-2")
    client, form = open_page(), {"verb": "ignore", "step": "ship", "task": "o-1", "reason": " "}
    for page in (client.post("/Order/task", data=form), client.post("/Order/task", data={**form, "state": "failed"})):
        assert page.status_code == 400
        assert re.search(r'<details class="ask" open>.*aria-describedby="wrong-reason"', page.text, re.DOTALL)
    assert re.findall(r'name="task" value="([^"]*)"[^>]* checked', page.text) == ["o-1"]
    plan = {"verb": "ignore", "step": "ship", "state": "failed", "until": "1s", "first": "x"}
    for name, more in (("reason", {}), ("first", {"reason": "lost"})):
        page = client.post("/Order/bulk", data={**plan, **more})
        assert (page.status_code, f'id="wrong-{name}"' in page.text, 'value="x"' in page.text) == (400, True, True)


def test_only_the_claim_that_was_seen_is_unlocked(open_page: Open, shop: StoppedClock) -> None:
    leave(Order.ship, Order.create("o-1", state=Order.ship.pending, group="g").task_id)
    Order.create("o-2", group="g")
    client = open_page()
    page = client.get("/Order/task?id=o-1")
    assert 'name="even_in_group" value="1" required' in page.text
    form = {"step": "ship", "task": "o-1", "reason": "its host is gone"}
    for wrong in ({"verb": "unlock", "fencing_token": "other"}, {"verb": "unlock"}, {"verb": "cancel"}):
        assert client.post("/Order/task", data={**form, **wrong}).status_code == 409
    token = re.search(r'name="fencing_token" value="([^"]*)"', page.text)
    assert token
    done = client.post("/Order/task", data={**form, "verb": "unlock", "fencing_token": token[1]})
    assert done.headers["location"] == "/Order/task?id=o-1&done=unlock"
    assert "Unlocked. The next run" in text_of(client.get(done.headers["location"]))
    assert Order.get_task("o-1").state == Order.ship.pending
    shop.advance(timedelta(seconds=1))


def test_a_task_with_an_expired_lock_is_unlocked_and_not_cancelled(open_page: Open, shop: StoppedClock) -> None:
    leave(Order.ship, Order.create("o-1", state=Order.ship.pending).task_id)
    shop.advance(timedelta(hours=1))
    client = open_page()
    page = client.get("/Order/task?id=o-1")
    assert ("Its lock has expired." in text_of(page), "Cancel the run" in page.text) == (True, False)
    token = re.search(r'name="fencing_token" value="([^"]*)"', page.text)
    form = {"step": "ship", "task": "o-1", "verb": "unlock", "reason": "dead", "fencing_token": token and token[1]}
    assert client.post("/Order/task", data=form).status_code == 303
    assert Order.get_task("o-1").state == Order.ship.pending


def test_selected_tasks_are_changed_whatever_their_ids(open_page: Open) -> None:
    failed(*ODD, "o-1")
    client = open_page()
    form = fields_of(client.get("/Order/tasks?step=ship&state=failed"), "/Order/task")
    assert len(form["task"]) == len(ODD) + 1
    answer = client.post("/Order/task", data={**form, "verb": "reopen"})
    assert answer.status_code == 200
    assert text_of(answer).startswith(f"{len(ODD) + 1} reopened")
    assert {Order.get_task(task_id).state.status for task_id in ODD} == {Status.PENDING}


def test_tasks_that_succeeded_at_a_step_are_changed_at_the_next_one(open_page: Open) -> None:
    Order.create("o-1", state=Order.confirm_payment.succeeded)
    client = open_page()
    form = fields_of(client.get("/Order/tasks?step=confirm_payment&state=succeeded"), "/Order/task")
    client.post("/Order/task", data={**form, "task": "o-1", "verb": "ignore", "reason": "lost"})
    assert Order.get_task("o-1").state == Order.reserve_stock.ignored


def test_a_refusal_is_told_in_the_librarys_words_and_stops_nothing(open_page: Open) -> None:
    failed("o-1", "o-2")
    Order.create("o-3", state=Order.ship.pending)
    leave(Order.ship, "o-3")
    answer = open_page().post(
        "/Order/task", data={"verb": "reopen", "step": "ship", "task": ["o-1", "o-3", "gone", "o-2"]}
    )
    page = text_of(answer)
    assert page.startswith("2 reopened, 2 refused")
    assert "o-3 : cannot reopen ship of Order 'o-3'" in page
    assert "cannot reopen ship of Order 'gone': it does not exist" in page
    assert "takes" not in page


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"verb": "delete", "step": "ship", "task": "o-1"}, 400),
        ({"verb": "reopen", "step": "fly", "task": "o-1"}, 400),
        ({"verb": "reopen", "step": "ship"}, 400),
        ({"step": "ship", "task": "o-1"}, 400),
        ({"verb": "reopen", "step": "ship", "task": "%FF"}, 400),
    ],
    ids=str,
)
def test_a_wrong_form_is_refused(open_page: Open, form: dict[str, str], code: int) -> None:
    assert open_page().post("/Order/task", data=form).status_code == code


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"verb=reopen", "text/plain", 415),
        (b"verb=reopen", "multipart/form-data; boundary=x", 415),
        (b"task=" + b"x" * 1_000_001, "application/x-www-form-urlencoded", 413),
        (b"&".join([b"task=x"] * 2001), "application/x-www-form-urlencoded", 400),
        (b"task=\xff", "application/x-www-form-urlencoded", 400),
        (b"task=%ff", "application/x-www-form-urlencoded; charset=utf-8", 400),
    ],
)
def test_what_is_no_form_of_the_page_is_refused(open_page: Open, body: bytes, kind: str, code: int) -> None:
    assert open_page().post("/Order/task", content=body, headers={"content-type": kind}).status_code == code


def test_people_can_do_what_the_app_allows_them(open_page: Open) -> None:
    failed("o-1")
    asked: list[ActionRequest] = []

    def authorize(request: ActionRequest) -> bool:
        asked.append(request)
        return request.action == "reopen"

    client = open_page(authorize=authorize)
    page = client.get("/Order/task?id=o-1").text
    assert ("Reopen</button>" in page, "Ignore" in page) == (True, False)
    refused = client.post("/Order/task", data={"verb": "ignore", "step": "ship", "task": "o-1", "reason": "x"})
    assert (refused.status_code, "You may not ignore tasks of Order." in text_of(refused)) == (403, True)
    assert client.get("/Order/bulk?verb=ignore&step=ship&state=failed").status_code == 403
    assert client.post("/Order/task", data={"verb": "reopen", "step": "ship", "task": "o-1"}).status_code == 303
    verbs = ("reopen", "ignore", "cancel", "cancel_task", "unlock", "run_now", "pause", "resume")
    about_buttons = [each for each in asked if each.step is None]
    assert {(each.user, each.action, each.use_case) for each in about_buttons} == {("ada", v, "order") for v in verbs}
    ada: dict[str, Any] = {"user": "ada", "use_case": "order", "step": "ship"}
    assert [each for each in asked if each.step] == [
        ActionRequest(**ada, action="ignore", task_ids=("o-1",)),
        ActionRequest(**ada, action="ignore"),
        ActionRequest(**ada, action="reopen", task_ids=("o-1",)),
    ]


def test_every_command_is_logged_in_a_line_of_json(open_page: Open, caplog: pytest.LogCaptureFixture) -> None:
    failed("o-1\n2026 forged")
    caplog.set_level(logging.WARNING, "pynamodb_tracker.web")  # what is written without any configuration
    form = {"verb": "ignore", "step": "ship", "task": ["o-1%0A2026%20forged", "gone"], "reason": "lost"}
    open_page().post("/Order/task", data=form)
    lines = {json.loads(record.message)["task_id"]: record.message for record in caplog.records}
    done = json.loads(lines["o-1\n2026 forged"])
    assert "\n" not in lines["o-1\n2026 forged"]
    about = {"who": "ada", "did": "ignore", "use_case": "order", "step": "ship", "reason": "lost"}
    assert done == {**about, "task_id": "o-1\n2026 forged"}
    assert "it does not exist" in json.loads(lines["gone"])["refused"]


def test_a_dry_run_changes_nothing_and_says_what_it_would_cost(open_page: Open, shop: StoppedClock) -> None:
    failed("o-1", "o-2")
    shop.advance(timedelta(seconds=1))
    page = text_of(open_page().get("/Order/bulk?verb=reopen&step=ship&state=failed"))
    assert "2 match" in page
    assert "takes about 6 write units" in page
    assert {Order.get_task(task_id).state for task_id in ("o-1", "o-2")} == {Order.ship.failed}


def test_matching_tasks_change_in_slices(open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    slices_of(monkeypatch, 2)
    client, page = planned(open_page, shop, *(f"o-{number}" for number in range(5)))
    first = client.post("/Order/bulk", data=fields_of(page, "/Order/bulk"))
    assert "2 reopened so far" in text_of(first)
    assert "data-next-slice" in first.text

    def recorded() -> list[tuple[str, str, int]]:
        return [(each.by, f"{each.did} {each.about}", each.tasks) for _, each in find_now([Order]).commands]

    assert recorded() == [("ada", "reopened ship failed", 2)]
    records.record(Order, "bob", "paused", "ship")
    Order.ship.reopen("o-3")  # by somebody else, so that it does not count
    assert "4 reopened" in text_of(run_slices(open_page(), first))  # another process goes on
    assert Order.ship.pending.count() == 5
    assert recorded() == [("bob", "paused ship", 0), ("ada", "reopened ship failed", 4)]


def test_tasks_that_fail_after_the_dry_run_are_left_alone(open_page: Open, shop: StoppedClock) -> None:
    client, page = planned(open_page, shop, "o-before", verb="ignore")
    shop.advance(timedelta(seconds=1))
    failed("o-after")
    assert "1 ignored" in text_of(run_slices(client, page, reason="lost"))
    assert [task.task_id for task in Order.ship.failed.query()] == ["o-after"]
    assert Order.get_task("o-before").last_error == "ignored: lost"


def test_only_tasks_of_the_group_of_errors_are_changed(open_page: Open, shop: StoppedClock) -> None:
    def be_late(ctx: ExecutionContext[Any]) -> None:
        raise CarrierError(f"late{' again' if ctx.task.task_id == 'o-2' else ''}")

    failed("o-other")
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, state=Order.ship.pending)
        with pytest.raises(CarrierError):
            Order.ship.run(task_id, be_late)
    shop.advance(timedelta(seconds=1))
    client = open_page()
    links = re.findall(r'href="(/Order/bulk\?verb=reopen[^"]*)"', client.get("/Order/errors").text)
    [link] = [html.unescape(link) for link in links if "error=CarrierError%3A+late&" in html.unescape(link)]
    assert "1 reopened" in text_of(run_slices(client, client.get(link)))
    assert {task.task_id for task in Order.ship.failed.query()} == {"o-other", "o-2"}


THROTTLED: Any = {"Error": {"Code": "ThrottlingException", "Message": "not this one"}}


@pytest.mark.parametrize("error", [ValueError("not this one"), ClientError(THROTTLED, "UpdateItem")], ids=type)
def test_refusals_of_slices_are_counted_and_the_first_are_told(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    client, page = planned(open_page, shop, "o-1", "o-2")
    reopen_many = Order.ship.reopen_many

    def refuse_one(task_ids: list[str], *, by: str | None = None, **_: Any) -> Report:
        report = reopen_many([task_id for task_id in task_ids if task_id != "o-1"], by=by)
        report.refused["o-1"] = error
        return report

    monkeypatch.setattr(Order.ship, "reopen_many", refuse_one)
    done = text_of(run_slices(client, page))
    assert "1 reopened, 1 refused" in done
    assert re.search("o-1 : .*not this one", done)


def test_slices_end_where_dynamodb_refuses_all_and_what_was_done_is_seen_and_logged(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decisions, "SLICE", 1)
    failed("o-1", "o-2", "o-3")
    shop.advance(timedelta(seconds=1))
    client, reopen_many, asked = open_page(), Order.ship.reopen_many, []
    page = client.get("/Order/bulk?verb=reopen&step=ship&state=failed")
    assert number_failed(client) == 3

    def refuse_the_second(task_ids: list[str], *, by: str | None = None, **_: Any) -> Report:
        asked.extend(task_ids)
        if len(asked) == 1:
            return reopen_many(task_ids, by=by)
        response: Any = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}
        return Report(refused={task_ids[0]: ClientError(response, "UpdateItem")})

    monkeypatch.setattr(Order.ship, "reopen_many", refuse_the_second)
    caplog.set_level(logging.INFO, "pynamodb_tracker.web")
    answer = client.post("/Order/bulk", data=fields_of(page, "/Order/bulk"))
    assert (answer.status_code, "AccessDeniedException: not authorized" in text_of(answer)) == (502, True)
    assert len(asked) == 2
    assert [json.loads(record.message)["task_id"] for record in caplog.records] == asked
    assert number_failed(client) == 2
    assert [(each.did, each.tasks) for _, each in find_now([Order]).commands] == [("reopened", 1)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"until": ""}, "Start with the dry run."),
        ({"until": "never"}, "'never' is not a time"),
        ({"cursor": "x"}, "this is not a page cursor"),
        ({"done": "many"}, "done must be a number"),
        ({"state": "lost"}, "'lost' is not a status of a step."),
        ({"verb": "ignore"}, "Enter a reason"),
        ({"state": "pending"}, "A task that is ship pending cannot be reopened."),
        ({"state": "succeeded"}, "cannot be reopened."),
        ({"state": "ignored", "verb": "ignore", "reason": "x"}, "A task that is ship ignored cannot be ignored."),
    ],
    ids=str,
)
def test_a_form_of_slices_that_was_changed_is_refused(open_page: Open, changed: dict[str, str], said: str) -> None:
    form = {"verb": "reopen", "step": "ship", "state": "failed", "until": "2026-01-31T12:00:00+00:00"}
    answer = open_page().post("/Order/bulk", data={**form, **changed})
    assert (answer.status_code, said in text_of(answer)) == (400, True)
    if "cannot be" in said:
        assert open_page().get("/Order/bulk", params={**form, **changed}).status_code == 400


def test_exact_counts_are_asked_for(open_page: Open) -> None:
    failed("o-1", "o-2")
    client = open_page()
    pages = [text_of(client.post("/Order/count")) for _ in range(2)]
    assert ["ship failed 2" in page for page in pages] == [True, True]
    first, second = (re.findall(r"UTC: ([\d.]+) read units", page) for page in pages)
    assert first == second != ["0"]  # the second answer repeats what the first one found


def test_what_was_changed_is_seen_at_once(open_page: Open) -> None:
    failed("o-1")
    client = open_page()
    assert number_failed(client) == 1
    client.post("/Order/task", data={"verb": "reopen", "step": "ship", "task": "o-1"})
    assert number_failed(client) == 0


def test_tasks_that_are_reopened_become_due_so_many_a_minute_over_all_slices(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(monkeypatch, 2)
    client, page = planned(open_page, shop, *(f"o-{number}" for number in range(5)))
    begin = shop.now()
    assert "4 reopened Now" in text_of(run_slices(client, page, rate="2", first="4"))
    due = sorted((task.due_time - begin) / timedelta(seconds=1) for task in Order.ship.pending.query())
    assert due == [0, 30, 60, 90]


@pytest.mark.parametrize("field", ["first", "rate"])
def test_a_limit_of_zero_is_not_taken_for_none(open_page: Open, shop: StoppedClock, field: str) -> None:
    client, page = planned(open_page, shop, "o-1", "o-2")
    refused = client.post("/Order/bulk", data={**fields_of(page, "/Order/bulk"), field: "0"})
    assert (refused.status_code, "Enter a number from 1" in text_of(refused)) == (400, True)
    assert Order.ship.failed.count() == 2


@pytest.mark.parametrize("until", ["1d", "2100-01-01"])
def test_tasks_of_a_filter_by_time_become_due_from_the_first_slice_on(
    open_page: Open, shop: StoppedClock, until: str
) -> None:
    failed("o-1", "o-2")
    shop.advance(timedelta(days=2))
    client, begin = open_page(), shop.now()
    page = client.get("/Order/bulk", params={"verb": "reopen", "step": "ship", "state": "failed", "until": until})
    shop.advance(timedelta(seconds=5))
    run_slices(client, page, rate="2")
    due = sorted((task.due_time - begin) / timedelta(seconds=1) for task in Order.ship.pending.query())
    assert due == [5, 35]


def test_waiting_slices_make_no_burst(open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    slices_of(monkeypatch, 2)
    failed(*(f"o-{number}" for number in range(4)))
    shop.advance(timedelta(seconds=1))
    client = open_page()
    page, begin = client.get("/Order/bulk?verb=reopen&step=ship&state=failed"), shop.now()
    shop.advance(timedelta(hours=1))
    page = client.post("/Order/bulk", data={**fields_of(page, "/Order/bulk"), "rate": "1"})
    shop.advance(timedelta(hours=1))
    run_slices(client, page)
    due = sorted((task.due_time - begin) / timedelta(minutes=1) for task in Order.ship.pending.query())
    assert due == [60, 61, 120, 121]


def test_how_many_are_due_at_once_in_spite_of_a_rate_is_said_over_all_slices(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(monkeypatch, 2)
    reopen_many = Order.confirm_payment.reopen_many

    def come_second(task_ids: list[str], **options: Any) -> Report:
        for task_id in {"o-1", "o-2", "o-4"} & {*task_ids}:
            Order.confirm_payment.reopen(task_id)
        return reopen_many(task_ids, **options)

    monkeypatch.setattr(Order.confirm_payment, "reopen_many", come_second)
    for number in range(5):
        Order.create(f"o-{number}", state=Order.confirm_payment.ignored)
    shop.advance(timedelta(seconds=1))
    client = open_page()
    asked = {"verb": "reopen", "step": "confirm_payment", "state": "ignored"}
    done = text_of(run_slices(client, client.get("/Order/bulk", params=asked), rate="2"))
    assert ("5 reopened" in done, "3 of them are due now" in done) == (True, True), done
    Order.confirm_payment.ignore("o-4", reason="lost")
    shop.advance(timedelta(seconds=1))
    asked |= {"rate": "2", "until": shop.now().isoformat(), "done": "1", "at_once": "1"}
    slices = client.post("/Order/bulk", data=asked, headers={"accept": "application/json"}).json()["slices"]
    assert (slices["done"], slices["at_once"]) == (2, 2)


def test_actions_that_change_nothing_are_neither_recorded_nor_logged(
    open_page: Open, shop: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    failed("o-1", "o-2", "o-3")
    Order.create("o-4", wait_for=Order.paid)
    Order.create("o-5", state=Order.reserve_stock.pending)
    leave(Order.reserve_stock, "o-5")
    client = open_page()
    tasks, signal = {"step": "ship", "task": ["o-1", "o-2"]}, {"name": "paid", "value": "1", "sends": "1"}
    caplog.set_level(logging.WARNING, decisions.log.name)
    for path, data in (
        ("tasks", {**tasks, "verb": "ignore", "state": "failed"}),
        ("task", {"step": "ship", "verb": "cancel_task", "task": "o-3"}),
        ("task", {"step": "reserve_stock", "verb": "cancel", "task": "o-5"}),
        ("task", {"verb": "signal", "task": "o-4", **signal}),
        ("", {"step": "ship", "verb": "pause", "until": ""}),
        ("", {"step": "ship", "verb": "resume"}),
    ):
        for reason in ("first", "second"):
            shop.advance(timedelta(seconds=1))
            assert client.post(f"/Order/{path}", data={**data, "reason": reason}).status_code in (200, 303)
    kept = [(each.did, each.about, each.tasks, each.reason) for _, each in reversed(find_now([Order]).commands)]
    assert kept == [
        ("ignored", "ship", 2, "first"),
        ("cancelled", "o-3", 1, "first"),
        ("cancelled the run of", "o-5", 1, "first"),
        ("sent paid to", "o-4", 1, ""),
        ("paused", "ship", 0, "first"),
        ("resumed", "ship", 0, "first"),
    ]
    logged = [json.loads(record.message) for record in caplog.records]
    assert [each["did"] for each in logged if "refused" not in each] == [
        *["ignore"] * 2,
        *("cancel_task", "cancel", "signal", "pause", "resume"),
    ]


def test_all_tasks_that_match_are_cancelled_with_a_reason_and_their_children(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(monkeypatch, 2)
    failed("o-1", "o-2", "o-3")
    Order.create("o-parent")
    Order.confirm_payment.run("o-parent", lambda ctx: ctx.create(Refund, "r-1", wait=True))
    shop.advance(timedelta(seconds=1))
    client = open_page()
    page = client.get("/Order/tasks?step=ship&state=failed")
    assert ("Ignore or cancel…" in page.text, "Cancel all that match…" in page.text) == (True, True)
    plan = client.get("/Order/bulk?verb=cancel_task&step=ship&state=failed")
    refused = client.post("/Order/bulk", data=fields_of(plan, "/Order/bulk"))
    assert (refused.status_code, "Enter a reason" in text_of(refused)) == (400, True)
    assert "3 cancelled" in text_of(run_slices(client, plan, reason="flood"))
    plan = client.get("/Order/bulk?verb=cancel_task&step=reserve_stock&state=pending")
    assert "1 cancelled" in text_of(run_slices(client, plan, reason="flood", children="1"))
    assert {task.state for task in Order.get_many(["o-1", "o-2", "o-3", "o-parent"])} == {Order.cancelled}
    assert Refund.get_task("r-1").state == Refund.cancelled
    kept = [(each.did, each.about, each.tasks, each.reason) for _, each in find_now([Order]).commands]
    assert kept == [("cancelled", "reserve_stock pending", 1, "flood"), ("cancelled", "ship failed", 3, "flood")]
    failed("o-4", "o-5")
    form = {"verb": "cancel_task", "step": "ship", "state": "failed", "task": ["o-4", "o-5"], "reason": "flood"}
    assert text_of(client.post("/Order/tasks", data=form)).startswith("2 cancelled")
    denied = open_page(authorize=lambda asked: asked.action != "cancel_task")
    assert "cancel_task" not in denied.get("/Order/tasks?step=ship&state=failed").text
    assert denied.post("/Order/tasks", data=form).status_code == 403


def test_pending_tasks_are_listed_by_what_they_wait_for(open_page: Open, shop: StoppedClock) -> None:
    Order.create_many([{"task_id": f"turn-{number}", "group": "Ada & Co"} for number in range(3)])
    Order.create("signal-1", wait_for=Order.approved)
    Order.create("signal-2", wait_for=Order.approved, until=timedelta(hours=1))
    Order.create("later-1", due_time=timedelta(hours=1))
    Order.create("due-1")
    client = open_page()
    links = re.findall(r'href="([^"]*waits=[^"]*)">([^<]*)<', client.get("/Order/").text)
    assert [(html.unescape(href).partition("waits=")[2], number) for href, number in sorted(links)] == [
        ("later", "1"),
        ("signal", "2"),
        ("turn", "2"),
    ]
    for href, number in links:
        page = client.get(html.unescape(href))
        kind = href.partition("waits=")[2]
        assert set(re.findall(r'data-row="[^"]*id=(\w+)-', page.text)) == {kind}
        assert page.text.count("data-row") == int(number)
        shop.advance(timedelta(seconds=1))
        bulk = client.get(f"/Order/bulk?verb=cancel_task&step=confirm_payment&state=pending&waits={kind}")
        assert f"{number} match" in text_of(bulk)
        assert "How many (latest due first)" in text_of(bulk)
        assert re.search(rf'href="[^"]*waits={kind}[^"]*">Back to the tasks', bulk.text)
        done = client.post("/Order/bulk", data={**fields_of(bulk, "/Order/bulk"), "reason": "flood"})
        assert f"{number} cancelled" in text_of(done)
        [(_, kept), *_] = find_now([Order]).commands
        assert kept.about == f"confirm_payment pending waiting for {kind}"
    assert [task.task_id for task in Order.confirm_payment.pending.query()] == ["due-1", "turn-0"]


def test_a_task_that_is_only_due_later_is_made_due_now(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-later", due_time=timedelta(hours=1))
    Order.create("o-waits", wait_for=Order.approved, until=timedelta(hours=1))
    Order.create_many([{"task_id": f"o-{number}", "group": "g"} for number in range(2)])
    Nightly.create("nightly", repeat=Repeat.cron("0 2 * * *"))
    client = open_page()
    shown = {path: ">Run now<" in client.get(path).text for path in ("/Nightly/task?id=nightly", *LATER)}
    assert list(shown.values()) == [True, True, False, False]
    for path in list(shown)[:2]:
        done = client.post(path, data={**fields_of(client.get(path), path.partition("?")[0]), "verb": "run_now"})
        assert "Made due now." in text_of(client.get(done.headers["location"]))
        assert ">Run now<" not in client.get(path).text
    assert [Order.get_task("o-later").due_time, Nightly.get_task("nightly").due_time] == [shop.now()] * 2
    for task_id in ("o-later", "none"):
        client.post("/Order/task", data={**LATER_FORM, "verb": "run_now", "task": task_id})
    kept = [(each.did, each.about, each.tasks) for _, each in find_now([Order, Nightly]).commands]
    assert sorted(kept) == [("made due", "nightly", 1), ("made due", "o-later", 1)]
    denied = open_page(authorize=lambda asked: asked.action != "run_now")
    assert "You may not run now tasks" in text_of(denied.post(LATER[0], data={"verb": "run_now", **LATER_FORM}))


class FeeTask(Task):
    class Meta:
        table_name = "fees"
        region = "us-east-1"


class Fee(FeeTask):
    """Cannot be created without its amount."""

    use_case_id = UseCase("fee")

    charge = Step(10)

    amount = NumberAttribute()


def test_a_task_with_a_required_attribute_is_made_due_now(open_page: Open, shop: StoppedClock) -> None:
    with local_table(FeeTask):
        Fee.create("f-1", amount=5, due_time=timedelta(hours=1))
        client, path = open_page(FeeTask), "/Fee/task?id=f-1"
        done = client.post(path, data={**fields_of(client.get(path), "/Fee/task"), "verb": "run_now"})
        assert "Made due now." in text_of(client.get(done.headers["location"]))
        assert (Fee.get_task("f-1").due_time, Fee.get_task("f-1").amount) == (shop.now(), 5)


def test_a_stale_run_now_says_that_it_changed_nothing(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-later", due_time=timedelta(hours=1))
    client = open_page()
    form = {**fields_of(client.get(LATER[0]), "/Order/task"), "verb": "run_now"}
    shop.advance(timedelta(hours=1))
    leave(Order.confirm_payment, "o-later")
    done = client.get(client.post(LATER[0], data=form).headers["location"])
    assert text_of(done).startswith("Nothing changed: the task did not wait only for its due time.")
    Order.create("o-moved", state=Order.ship.pending)
    moved = client.post("/Order/task?id=o-moved", data={**form, "task": "o-moved"})
    assert moved.headers["location"].endswith("done=nothing")


def test_a_task_that_changes_at_the_same_time_is_not_made_due(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-later", due_time=timedelta(hours=1))

    def read_and_end(model: type[Any], task_ids: list[str]) -> Any:
        rows = rows_to_show(model, task_ids)
        Order.cancel("o-later", reason="meanwhile")
        return rows

    client = open_page()
    monkeypatch.setattr(decisions, "rows_to_show", read_and_end)
    done = client.post(LATER[0], data={**LATER_FORM, "verb": "run_now"})
    assert done.headers["location"].endswith("done=nothing")
    task = Order.get_task("o-later")
    assert (task.state, task.errors[-1].message, task.queued) == (Order.cancelled, "meanwhile", None)


def test_a_task_with_parts_or_a_request_is_made_due_now_and_keeps_them(open_page: Open, shop: StoppedClock) -> None:
    def fail(ctx: ExecutionContext[Any]) -> None:
        ctx.checkpoint("part", lambda: 1)
        raise CarrierError

    for task_id in ("parts", "asked"):
        Order.create(task_id)
        with pytest.raises(CarrierError):
            Order.confirm_payment.run(task_id, fail)
    Order.create_or_merge("asked", amount=5)
    for task_id in ("parts", "asked"):
        before = Order.confirm_payment.reopen(task_id, due_time=shop.now() + timedelta(hours=1))
        assert before.due_time > shop.now()
        open_page().post("/Order/task", data={**LATER_FORM, "verb": "run_now", "task": task_id})
        after = Order.get_task(task_id)
        assert (after.due_time, after.checkpoints, after.queued) == (shop.now(), before.checkpoints, before.queued)
    assert [Order.get_task(task_id).queued is None for task_id in ("parts", "asked")] == [True, False]


def test_a_task_that_has_left_the_list_is_not_cancelled(open_page: Open, shop: StoppedClock) -> None:
    failed("o-1", "o-2", "o-3")
    Order.create("o-4", state=Order.reserve_stock.failed)
    shop.advance(timedelta(seconds=1))
    client = open_page()
    form = {"verb": "cancel_task", "step": "reserve_stock", "state": "failed", "reason": "flood"}
    page = text_of(client.post("/Order/tasks", data={**form, "task": ["o-1", "o-4"]}))
    assert page.startswith("1 cancelled, 1 refused")
    assert "o-1 : cannot cancel Order 'o-1': it is ship failed, and no longer reserve_stock failed" in page
    Order.ship.reopen("o-2")
    page = text_of(client.post("/Order/tasks", data={**form, "step": "ship", "task": "o-2"}))
    assert page.startswith("0 cancelled, 1 refused")
    careful = open_page(authorize=lambda asked: asked.step != "ship")
    alone = careful.post("/Order/task", data={**form, "task": "o-3", "state": ""})
    assert "it is ship failed, where you may not do that" in text_of(alone)
    assert (alone.status_code, Order.get_task("o-3").state) == (409, Order.ship.failed)
    Order.cancel("o-3", reason="somebody else")
    page = text_of(client.post("/Order/tasks", data={**form, "step": "ship", "task": ["o-1", "o-3"]}))
    assert page.startswith("1 cancelled, 1 as before")
    assert [Order.get_task(f"o-{number}").state for number in (1, 2)] == [Order.cancelled, Order.ship.pending]


def test_only_so_many_matches_are_changed(open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(*(f"o-{number}" for number in range(6)))
    shop.advance(timedelta(seconds=1))
    client, find = open_page(), listing.find
    plan = client.get("/Order/bulk?verb=cancel_task&step=ship&state=failed&error=no+error")

    def find_and_cancel(what: Any, cursor: str | None = None, **options: Any) -> listing.Listing:
        found = find(what, cursor, **options)
        Order.cancel(found.entries[0].task_id, reason="somebody else")
        return found

    monkeypatch.setattr(listing, "find", find_and_cancel)
    done = client.post("/Order/bulk", data={**fields_of(plan, "/Order/bulk"), "first": "2", "reason": "flood"})
    assert "2 cancelled" in text_of(done)
    assert Order.ship.failed.count() == 3


def test_a_step_is_paused_and_resumed(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for pausable, said in (
        (False, "cannot be paused: the use case has pausable=False"),
        (None, "Other handlers still do: disable"),
        (True, "no new runs start anywhere. Current"),
    ):
        monkeypatch.setattr(Order.use_case_id, "pausable", pausable)
        text = open_page().get("/Order/").text
        assert ("Pause a step" in text, said in text) == (pausable is not False, True)
    client = open_page()
    asked = {"step": "ship", "verb": "pause", "until": "1h", "reason": "the bank is down"}
    assert client.post("/Order/", data={**asked, "until": ""}).status_code == 303
    assert Order.pauses()[0].until is None
    Order.ship.resume()
    for wrong, said in (
        ({"until": "soon"}, "'soon' is not a time"),
        ({"until": "2020-01-01"}, "Enter a time in the future"),
        ({"reason": " "}, "Enter a reason"),
    ):
        answer = client.post("/Order/", data={**asked, **wrong})
        assert (answer.status_code, said in text_of(answer)) == (400, True)
        assert ("ship</option>" in answer.text, 'aria-invalid="true"' in answer.text) == (True, True)
    assert client.post("/Order/", data=asked).status_code == 303
    [pause] = Order.pauses()
    assert pause.until
    assert (pause.step, pause.by, pause.reason) == ("ship", "ada", "the bank is down")
    page = client.get("/Order/")
    assert "“the bank is down” by ada" in text_of(page)
    form = fields_of(page, '/Order/">')
    assert client.post("/Order/", data={**form, "verb": "resume"}).status_code == 303
    assert Order.pauses() == []
    logged = [json.loads(record.message) for record in caplog.records if record.name == decisions.log.name]
    assert [(each["who"], each["did"], each["step"]) for each in logged] == [
        ("ada", "pause", "ship"),
        ("ada", "pause", "ship"),
        ("ada", "resume", "ship"),
    ]
    denied = open_page(authorize=lambda asked: asked.action == "resume")
    assert "you may not pause its steps" in text_of(denied.get("/Order/"))
    answer = denied.post("/Order/", data=asked)
    assert (answer.status_code, "You may not pause steps of Order" in text_of(answer)) == (403, True)


def test_an_awaited_signal_is_sent_by_whom_the_page_knows(open_page: Open, caplog: pytest.LogCaptureFixture) -> None:
    odd = ODD[0]
    Order.create(odd, wait_for=Order.approved)
    client = open_page()
    page = client.get("/Order/task", params={"id": odd})
    assert ("waits for the signal approved" in text_of(page).lower(), "Send paid" in page.text) == (True, False)
    form = fields_of(page, SIGNAL)
    for value, why in (
        (" ", "Enter a value. A signal cannot be taken back."),
        ("no", "'no' is not JSON: write text in quotes"),
        ("1e9999999999999999999", "'1e9999999999999999999' is not JSON"),
        ("null", "null is not a value"),
        (f'"{"<" * 1100}"', "but at most 1,024"),
    ):
        wrong = client.post("/Order/task", data={**form, "value": value})
        assert (wrong.status_code, why in text_of(wrong)) == (400, True)
        assert ('aria-invalid="true"' in wrong.text, f'value="{escape(value)}"' in wrong.text) == (True, True)
    shown = client.post("/Order/task", data={**form, "value": "true", "sends": "false"})
    assert (shown.status_code, "This sends true" in text_of(shown), Order.get_task(odd).approved) == (200, True, None)
    shown = client.post("/Order/task", data={**form, "value": '{"by mail":  "<b>", "secret": 1}'})

    answer = client.post("/Order/task", data=fields_of(shown, SIGNAL))

    assert answer.status_code == 303
    assert "Sent. A worker continues" in text_of(client.get(answer.headers["location"]))
    approved = Order.get_task(odd).approved
    assert approved
    assert (approved.value, approved.by) == ({"by mail": "<b>", "secret": 1}, "ada")
    hiding = open_page(hide=["secret"]).get("/Order/task", params={"id": odd})
    assert ('"secret": "hidden"' in text_of(hiding), "&lt;b&gt;" in hiding.text) == (True, True)
    assert "by mail" not in open_page(hide=["approved"]).get("/Order/task", params={"id": odd}).text
    other = client.post("/Order/task", data={**form, "value": "1", "sends": "1"})
    assert (other.status_code, "with another value. The first one counts" in text_of(other)) == (409, True)
    Order.create("o-9", state=Order.ship.pending)
    change(Order, "o-9", missed_signals={"SS": ["approved"]})
    late = client.post("/Order/task", data={**form, "task": "o-9", "round": "", "value": "1", "sends": "1"})
    assert (late.status_code, "is not stored: it is late" in text_of(late)) == (409, True)
    logged = [json.loads(record.message) for record in caplog.records if record.name == decisions.log.name]
    assert [(each["who"], each["did"], each["signal"], "refused" in each) for each in logged] == [
        ("ada", "signal", "approved", False),
        *[("ada", "signal", "approved", True)] * 2,
    ]


def test_a_signal_counts_in_the_round_that_the_form_was_shown_in_and_for_who_may_send_it(open_page: Open) -> None:
    Order.create("o-1", wait_for=Order.approved)
    client = open_page()
    form = {**fields_of(client.get("/Order/task?id=o-1"), SIGNAL), "value": "1", "sends": "1"}
    Order.delete_task("o-1")
    Order.create("o-1", wait_for=Order.approved)
    assert client.post("/Order/task", data=form).status_code == 404
    assert client.post("/Order/task", data={**form, "name": "nothing"}).status_code == 400
    denied = open_page(authorize=lambda asked: asked.signal == "paid")
    assert "Send approved" not in denied.get("/Order/task?id=o-1").text
    assert denied.post("/Order/task", data=form).status_code == 403
    assert open_page(actions=False).post("/Order/task", data=form).status_code == 403
    Order.delete_task("o-1")
    Order.create("o-1", state=Order.ship.succeeded)
    Order.create_or_merge("o-1")
    assert client.post("/Order/task", data={**form, "round": ""}).status_code == 400
    assert Order.get_task("o-1").approved is None


def test_choices_of_a_signal_are_buttons_and_one_that_is_not_for_people_has_no_form(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vars(Order)["approved"], "choices", {"Approve": True, "Reject": False})
    monkeypatch.setattr(vars(Order)["paid"], "by_people", False)
    Order.create("o-1", wait_for=Order.approved)
    Order.create("o-2", wait_for=Order.paid)
    client = open_page()
    page = client.get("/Order/task?id=o-1")
    assert re.findall(r'name="choice" value="(\w+)" title="(.*?)"', page.text) == [
        ("Approve", "sends true"),
        ("Reject", "sends false"),
    ]
    form = fields_of(page, SIGNAL)
    sent = [client.post("/Order/task", data={**form, "choice": choice}).status_code for choice in ("", "Reject")]
    approved = Order.get_task("o-1").approved
    assert (sent, approved and approved.value) == ([400, 303], False)
    assert "Send paid" not in client.get("/Order/task?id=o-2").text
    refused = client.post("/Order/task", data={**form, "task": "o-2", "name": "paid", "value": "1", "sends": "1"})
    assert (refused.status_code, "People cannot send paid" in text_of(refused)) == (400, True)


def test_a_refused_form_is_shown_again_at_its_address_with_what_was_written(open_page: Open) -> None:
    leave(Order.ship, Order.create("o-1", state=Order.ship.pending).task_id)
    client, reason = open_page(), "the <customer> called"
    page = client.get("/Order/task?id=o-1")
    assert len(re.findall(r'<form method="post" action="/Order/task\?id=o-1">', page.text)) == 3
    form = {"step": "reserve_stock", "task": "o-1", "verb": "cancel", "reason": reason}
    refused = client.post("/Order/task?id=o-1", data=form)
    assert (refused.status_code, f'value="{escape(reason)}"' in refused.text) == (409, True)
    assert "cannot ignore reserve_stock of Order 'o-1'" in text_of(refused)
