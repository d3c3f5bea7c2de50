"""The JSON form of the views: the same as their HTML, by the same guards, and nothing that is hidden."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import ConcurrencyLimit
from pynamodb_tracker.control import flow, slots
from pynamodb_tracker.testing import StoppedClock
from tests.support.pages import ROOT
from tests.web.conftest import Open
from tests.web.shop import Nightly, Order, Refund
from tests.web.test_views import VIEWS, every_state, text_of

TASKS = [f"/Order/task?id=o-{name}" for name in ("pending", "in_progress", "failed", "ignored", "done")]
MORE = ["/workers", "/Order/group?name=g", "/Order/tasks?step=ship&state=failed&since=soon", "/Order/task?id=x", "/no"]


def leaves(found: Any) -> list[Any]:
    if isinstance(found, dict):
        return [*found, *(leaf for each in found.values() for leaf in leaves(each))]
    return [leaf for each in found for leaf in leaves(each)] if isinstance(found, list) else [found]


def ids_in(texts: list[Any]) -> set[str]:
    """Return the ids of tasks that stand alone in a text, and not as a part of an error."""
    return {each for each in texts if isinstance(each, str) and re.fullmatch(r"o-[a-z_]+", each)}


def test_each_view_is_the_same_as_json(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    Order.create("o-grouped", group="g")
    client = open_page()
    for path in [*VIEWS, *TASKS, *MORE]:
        page, answer = client.get(path), client.get(path, headers={"accept": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (page.status_code, "application/json"), path
        head, mark, query = path.partition("?")
        by_name = client.get(f"{head}.json{mark}{query}")
        told = ("as_of", "cost", "cost_of_all_views", "kept_for", "errors")
        known = {name: each for name, each in answer.json().items() if name not in told}
        assert known == {name: each for name, each in by_name.json().items() if name not in told}
        main = page.text.partition("<main")[2]
        shown = [html.unescape(each).strip() for each in re.findall(r">([^<]*)<", main)]
        assert ids_in(leaves(known)) <= ids_in(shown) <= ids_in(leaves(answer.json())), path
        if page.status_code == 200:
            [requests] = re.findall(r"(\d+) requests?,", text_of(page)) or ["?"]
            assert answer.json()["cost"].keys() == {"requests", "reads", "writes", "dollars"}
            assert requests.isdigit()


def test_what_needs_people_in_a_use_case_is_in_its_json(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    Refund.create_many(f"r-{number}" for number in range(3))
    found = open_page().get("/Order.json").json()
    [of] = found["now"]["use_cases"]
    assert (found["use_case"], of["model"], of["steps"][2]["failed"]) == ("Order", "Order", {"tasks": 1, "more": False})
    [group, *_] = open_page().get("/Order/errors.json").json()["errors"]["groups"]
    assert (group["tasks"], group["example"], group["state"]) == (1, "o-failed", "ship.failed")


def test_both_forms_show_the_same_flow(open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    every_state(shop)
    monkeypatch.setattr(Order.use_case_id, "count_transitions", True)
    monkeypatch.setattr(Order.ship._definition.declared, "concurrency_limit", bank := ConcurrencyLimit("bank", 3))
    Order.create_many(f"o-{number}" for number in range(8))
    Order.confirm_payment.run_all(lambda _: None, limit=5)
    Order.create("o-approval", wait_for=Order.approved)
    Order.ship.pause(until=None, reason="bank holiday", by="ada")
    slots.slots_of(Order, bank).table.take(1)
    shop.advance(timedelta(minutes=11))
    Order.create("o-later")
    client = open_page()
    said, found = text_of(client.get("/Order/")), client.get("/Order.json").json()
    [of] = found["now"]["use_cases"]
    pause, [limit], passing = of["steps"][2]["pause"], of["limits"], of["steps"][0]["passing"]
    told = [
        f"ship is paused until it is resumed: “{pause['reason']}” by {pause['by']}",
        f"limit {limit['limit']}: {limit['taken']} of {limit['slots']} slots are taken",
        f"{of['steps'][0]['waits']['signal']['tasks']} signal",
        f"{of['done']} done in 24 hours",
        f"+{of['steps'][0]['growth']:.1f} / h: growing",
    ]
    assert [each for each in told if each not in said] == []
    assert (sum(passing["came"]), sum(passing["succeeded"]), passing["took"][0]) == (10, 5, 5)
    flow._counts.forget()
    slots._forget()


def test_each_view_has_the_names_that_are_documented(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    Order.create("o-grouped", group="g")
    asked = {"task": "?id=o-failed", "group": "?name=g", "bulk": "?verb=reopen&step=ship&state=failed"}
    common, documented, known = {"cost", "cost_of_all_views", "as_of", "kept_for", "use_case"}, {}, {}
    reference = (ROOT / "docs" / "reference" / "web.md").read_text(encoding="utf-8")
    for path, names in re.findall(r"^\| `(/\S*)` \| (.*) \|$", reference, re.MULTILINE):
        documented[path] = set(re.findall(r"`(\w+)`", names))
        query = asked.get(path.rpartition("/")[2].removesuffix(".json"), "")
        known[path] = open_page().get(path + query).json().keys() - common
    assert documented == known
    assert len(known) == 11


def test_an_attribute_keeps_its_name(open_page: Open, shop: StoppedClock) -> None:  # noqa: ARG001 - empty tables
    Order.create("o-1", data={"parts": 2, "shares": 3, "given": 4})
    found = open_page().get("/Order/task.json?id=o-1").json()
    assert found["view"]["attributes"]["data"] == {"parts": 2, "shares": 3, "given": 4}


def test_what_is_hidden_is_not_in_json_and_nobody_unknown_gets_it(open_page: Open, shop: StoppedClock) -> None:
    every_state(shop)
    for path in TASKS:
        answer = open_page(hide={"customer"}).get(path, headers={"accept": "application/json"})
        assert (answer.status_code, "Ada" in answer.text) == (200, False)
        assert open_page(user=lambda _: None).get(path.replace("?", ".json?")).status_code == 403


@pytest.mark.usefixtures("shop")
def test_json_is_asked_for_by_those_who_accept_no_html(open_page: Open) -> None:
    Nightly.create("n-1")
    client = open_page(Nightly)
    assert client.get("/find.json?id=n-1").headers["location"] == "/Nightly/task.json?id=n-1"
    browser = client.get("/Nightly/", headers={"accept": "text/html,application/json;q=0.9"})
    assert browser.headers["content-type"].startswith("text/html")
    link = re.search(r'<link rel="alternate" href="([^"]*)"', browser.text)
    assert link
    assert client.get(link[1]).json()["use_case"] == "Nightly"
