"""The page in a real browser: keys, selection, commands, refresh, widths, themes, and text that wants to be code."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import pytest

from pynamodb_tracker import Repeat, Report, Status
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web import dashboard
from pynamodb_tracker.web.words import visible
from tests.support.rows import change
from tests.web.browser import Visitor, chromium, serving
from tests.web.conftest import slices_of
from tests.web.shop import CarrierError, Nightly, Order, Refund, ShopTask, failed, leave
from tests.web.test_views import HOSTILE, every_state, fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

VIEWS = [
    "/",
    "/Order/",
    "/Order/tasks?step=ship&state=failed",
    "/Order/tasks?step=ship&state=in_progress",
    "/Order/errors",
    "/Order/task?id=o-failed",
    "/Order/task?id=o-done",
    "/Order/task?id=o-parent",
    "/Order/task?id=o-approval",
    "/Order/task?id=o-in_progress",
    "/Order/group?name=nobody",
    "/Nightly/task?id=nightly",
    "/Nightly/schedules",
    "/Order/bulk?verb=ignore&step=ship&state=failed",
    "/Order/bulk?verb=cancel_task&step=ship&state=failed",
    "/Order/tasks?step=confirm_payment&state=pending&waits=signal",
    "/find?id=o-failed%0Anone",
    "/workers",
    "/table",
    "/nowhere/",
]
LISTS = [f"/Order/tasks?step=ship&state={each}" for each in ("failed", "ignored", "in_progress")]
WIDTHS = (320, 390, 768, 1024, 1920)
THEMES: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1360), ("dark", 390))

_CUT_TABLES = "[...document.querySelectorAll('.scroll')].some((each) => each.scrollWidth > each.clientWidth)"
_CUT_SHEETS = "[...document.querySelectorAll('.sheet')].some((each) => each.getBoundingClientRect().left < 0)"
_OPEN_ONE = "at => document.querySelectorAll('details.ask').forEach((each, number) => { each.open = number === at })"
_FORMS = """[...document.querySelectorAll('details.ask')].map((form) => [...form.querySelectorAll('*')].map(
    (each) => [each.tagName, ...each.getAttributeNames(), each.className, each.type].join(' ')).join())"""
"""What each form consists of, without its words."""
_VIOLATIONS = "async (at) => (await axe.run(at, {resultTypes: ['violations']})).violations"

Visit = Callable[..., AbstractContextManager[Visitor]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser, shop: StoppedClock) -> Visit:  # noqa: ARG001 - the tables are empty afterwards
    """Return what opens a window on a page of the shop's; problems in it fail the test."""

    @contextmanager
    def visiting(page: dict[str, Any] | None = None, **options: Any) -> Iterator[Visitor]:
        given: dict[str, Any] = {"user": lambda _: "ada", "actions": True, "hosts": {"127.0.0.1"}} | (page or {})
        with serving(dashboard(ShopTask, **given)) as home, Visitor.of(browser, home, **options) as visitor:
            yield visitor

    return visiting


@pytest.fixture
def schedules_and_pauses(monkeypatch: pytest.MonkeyPatch, counted: None) -> None:  # noqa: ARG001 - see there
    """Let tasks repeat, wait for an ignored one and for an answer, and a step be paused."""
    Nightly.create("nightly", repeat=Repeat.cron("0 2 * * *"))
    Nightly.create("weekly", repeat=Repeat.cron("0 2 * * MON"))
    Nightly.collect.ignore("weekly", reason="not this week", by="ada")
    Order.create("o-parent")
    Order.confirm_payment.run("o-parent", lambda ctx: ctx.create(Refund, "r-1", wait=True))
    Refund.pay_back.ignore("r-1", reason="no paper")
    Order.create("o-approval", wait_for=Order.approved)
    Order.ship.pause(until=None, reason="w" * 300, by="ada")


def test_times_are_shown_in_the_zone_of_the_viewer_and_in_utc_in_their_titles(visit: Visit, shop: StoppedClock) -> None:
    failed("o-1")
    Order.create("o-2", state=Order.ship.pending)
    shop.advance(timedelta(hours=1))
    Order.ship.run("o-2", lambda _: None)
    with visit(timezone_id="Asia/Kolkata") as visitor:
        foot = visitor.open("/Order/errors").locator(".cost time[data-local=clock]")
        in_utc: Any = re.search(r"(\d\d):(\d\d):\d\d UTC", foot.get_attribute("title") or "")
        minutes = (int(in_utc[1]) * 60 + int(in_utc[2]) + 330) % (24 * 60)
        assert f"{minutes // 60:02}:{minutes % 60:02} " in foot.inner_text()
        before = visitor.open("/Order/bulk?verb=ignore&step=ship&state=failed").locator("time[data-local]").first
        assert "GMT+5:30" in before.inner_text()


@pytest.mark.usefixtures("schedules_and_pauses")
def test_no_view_has_a_violation_of_accessibility(visit: Visit, shop: StoppedClock) -> None:
    script = pytest.importorskip("axe_playwright_python.sync_playwright").Axe().axe_script
    every_state(shop)
    found, examined = {}, set()
    with visit() as visitor:
        for path in VIEWS:
            page = visitor.open(path)
            page.evaluate(script)
            forms = list(enumerate(page.evaluate(_FORMS)))
            for scheme, width in THEMES:
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate(_OPEN_ONE, -1)
                violations = page.evaluate(_VIOLATIONS, "html")
                # A form that differs from an examined one in its words alone has the same violations.
                for number, form in forms:
                    if (form, scheme) not in examined:
                        examined.add((form, scheme))
                        page.evaluate(_OPEN_ONE, number)
                        violations += page.evaluate(_VIOLATIONS, "details.ask[open]")
                for violation in violations:
                    nodes = [node["html"] for node in violation["nodes"]]
                    found[path, scheme, violation["id"]] = violation["help"], nodes[:3]
    assert found == {}
    assert len(examined) > len(THEMES)


@pytest.mark.usefixtures("schedules_and_pauses")
def test_no_view_and_no_table_scrolls_sideways_at_any_width(visit: Visit, shop: StoppedClock) -> None:
    every_state(shop)
    Order.create("x" * 300, state=Order.ship.pending, customer="y" * 300)
    with pytest.raises(CarrierError):
        Order.ship.run("x" * 300, fail)
    wide = set()
    with visit() as visitor:
        for path in [*VIEWS, f"/Order/task?id={'x' * 300}", f"/find?id=o-failed%0A{'x' * 300}"]:
            page = visitor.open(path)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                needed = page.evaluate("document.documentElement.scrollWidth")
                if needed > width or page.evaluate(_CUT_TABLES) or page.evaluate(_CUT_SHEETS):
                    wide.add((path, width, needed))
    assert wide == set()


def test_text_that_wants_to_be_code_is_shown_as_text(visit: Visit, shop: StoppedClock) -> None:
    def fail_with(text: str) -> Callable[[Any], None]:
        def function(ctx: Any) -> None:
            ctx.task.data[text] = {"note": text}
            raise CarrierError(text)

        return function

    for text in HOSTILE:
        Order.create(text, state=Order.ship.pending, customer=text)
        with pytest.raises(CarrierError):
            Order.ship.run(text, fail_with(text))
        Order.create(f"{text} 2", state=Order.ship.pending)
        Order.ship.ignore(f"{text} 2", reason=text, by=text)
        Order.create(f"{text} 3", state=Order.ship.pending)
        leave(Order.ship, f"{text} 3")
        change(Order, f"{text} 3", worker={"S": text})
    shop.advance(timedelta(seconds=1))
    with visit({"user": lambda _: HOSTILE[0]}) as visitor:
        for path in ("/Order/", "/Order/errors", *LISTS):
            visitor.open(path)
        for text in HOSTILE:
            query = quote(text, safe="")
            visitor.open(f"/Order/task?id={query}")
            assert visitor.page.locator("h1").inner_text().startswith(" ".join(visible(text).split()))
            visitor.open(f"/Order/tasks?step=ship&state=failed&error={query}")
            visitor.open(f"/find?id={query}%0Ax{query}")
            visitor.open(f"/Order/task?id=none{query}")
        visitor.open("/Order/")
        visitor.page.get_by_role("button", name="Refresh").click()
        visitor.page.wait_for_timeout(300)
        assert visitor.page.locator("main img, main iframe, main script").count() == 0


def test_keys_go_through_rows_and_views(visit: Visit) -> None:
    failed("o-1", "o-2", "o-3")
    with visit() as visitor:
        page = visitor.open("/Order/")
        page.keyboard.press("g")
        page.keyboard.press("e")
        page.wait_for_url("**/Order/errors")
        page.goto("/Order/tasks?step=ship&state=failed")
        for key in ("j", "j", "x", "k", "x"):
            page.keyboard.press(key)
        page.locator("[data-number]", has_text="2 selected").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url("**/Order/task?id=o-1")
        page.keyboard.press("/")
        page.keyboard.type("o-2 jx?")
        assert page.locator(".find input").input_value() == "o-2 jx?"
        page.locator(".find input").fill("o-2")
        page.keyboard.press("Enter")
        page.wait_for_url("**/Order/task?id=o-2")
        page.keyboard.press("?")
        page.get_by_label("Turn these keys off").check()
        page.get_by_role("button", name="Close").click()
        page.keyboard.press("g")
        page.keyboard.press("o")
        page.keyboard.press("?")
        assert not page.locator("dialog[open]").count()
        assert page.url.endswith("o-2")


def test_selected_tasks_are_reopened_and_one_is_ignored(visit: Visit) -> None:
    failed("o-1", "o-2", "two\nlines")
    with visit() as visitor:
        page = visitor.open("/Order/tasks?step=ship&state=failed")
        reopen = page.get_by_role("button", name="Reopen", exact=True)
        assert reopen.is_disabled()
        page.get_by_label("Select all on this page").check()
        page.get_by_label("Select o-1").uncheck()
        reopen.click()
        page.get_by_role("heading", name="2 reopened").wait_for()
        page.get_by_role("link", name="Back to the tasks").click()
        page.get_by_role("link", name="o-1").click()
        page.go_back()
        page.get_by_label("Select o-1").check()
        page.locator(".under").get_by_text("Ignore or cancel…").click()
        page.locator("details.ask[open]").get_by_label("Reason").fill("lost")
        page.keyboard.press("Enter")  # it is no command, and never the other one
        page.goto("/Order/task?id=o-1")
        assert Order.get_task("o-1").state.status is Status.FAILED
        page.get_by_text("Ignore…").click()
        page.get_by_role("button", name="Ignore", exact=True).click()
        assert page.url.endswith("/Order/task?id=o-1")  # the reason is required
        page.locator("details.ask[open]").get_by_label("Reason").fill("<b>lost</b>")
        page.get_by_role("button", name="Ignore", exact=True).click()
        page.get_by_role("status").filter(has_text="No worker runs it").wait_for()
    assert Order.get_task("o-1").last_error == "ignored: <b>lost</b>"
    assert Order.get_task("two\nlines").state.status is Status.PENDING


def test_slices_go_on_until_they_are_stopped(visit: Visit, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    slices_of(monkeypatch, 1)
    failed(*(f"o-{number}" for number in range(4)))
    shop.advance(timedelta(seconds=1))
    third, go_on, reopen = threading.Event(), threading.Event(), Order.ship.reopen_many

    def reopen_slowly(task_ids: list[str], **options: Any) -> Report:
        if "o-2" in task_ids:
            third.set()
            assert go_on.wait(60)
        return reopen(task_ids, **options)

    monkeypatch.setattr(Order.ship, "reopen_many", reopen_slowly)
    with visit() as visitor:
        page = visitor.open("/Order/bulk?verb=reopen&step=ship&state=failed")
        page.get_by_role("button", name="Reopen 4").click()
        assert third.wait(60)
        page.get_by_role("button", name="Stop").click()
        go_on.set()
        page.get_by_text("3 reopened so far").wait_for()
        assert Order.get_task("o-3").state == Order.ship.failed
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("4 reopened").wait_for()
        page.get_by_text("so far").wait_for(state="detached")


def test_slices_end_where_the_server_does_not_know_the_browser_any_more(
    visit: Visit, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(monkeypatch, 1)
    failed("o-1", "o-2")
    shop.advance(timedelta(seconds=1))
    with visit() as visitor:
        page, sent = visitor.open("/Order/bulk?verb=reopen&step=ship&state=failed"), []

        def refuse_the_second(route: Any) -> None:
            sent.append(route)
            if len(sent) == 1:
                route.continue_()
            else:
                route.fulfill(status=401, content_type="text/plain", body="log in again")

        page.route("**/Order/bulk?*", refuse_the_second)
        page.get_by_role("button", name="Reopen 2").click()
        page.get_by_text("log in again").wait_for()
        page.wait_for_timeout(300)
        assert len(sent) == 2
        page.get_by_text("1 reopened so far").wait_for()


def test_a_view_refreshes_itself_unless_somebody_uses_it(visit: Visit, shop: StoppedClock) -> None:
    failed("o-1")
    with visit({"refresh": timedelta(seconds=1)}) as visitor:
        page = visitor.open("/Order/tasks?step=ship&state=failed")
        failed("o-2")
        shop.advance(timedelta(seconds=10))
        page.get_by_role("link", name="o-2").wait_for()
        page.get_by_label("Select o-1").check()
        failed("o-3")
        shop.advance(timedelta(seconds=10))
        page.wait_for_timeout(2500)
        assert not page.get_by_role("link", name="o-3").count()
        assert page.get_by_label("Select o-1").is_checked()
        page.get_by_label("Select o-1").uncheck()
        page.locator("h1").click()
        page.evaluate("document.activeElement.blur()")
        page.get_by_role("link", name="o-3").wait_for()
        page.get_by_role("button", name="Live").click()
        failed("o-4")
        shop.advance(timedelta(seconds=10))
        page.wait_for_timeout(2500)
        assert not page.get_by_role("link", name="o-4").count()
        page.get_by_role("button", name="Refresh").focus()
        page.keyboard.press("r")
        page.get_by_role("link", name="o-4").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Refresh"


def test_everything_works_without_a_script(visit: Visit, monkeypatch: pytest.MonkeyPatch, shop: StoppedClock) -> None:
    slices_of(monkeypatch, 2)
    failed("two\nlines", *(f"o-{number}" for number in range(4)))
    shop.advance(timedelta(seconds=1))
    with visit(java_script_enabled=False) as visitor:
        page = visitor.open("/Order/tasks?step=ship&state=failed")
        assert not page.get_by_role("button", name="Theme").is_visible()
        page.get_by_label(re.compile("Select two")).check()
        page.get_by_role("button", name="Reopen", exact=True).click()
        page.wait_for_url("**done=reopen")
        page.goto("/Order/task?id=o-0")
        page.get_by_text("Ignore…").click()
        page.locator("details.ask[open]").get_by_label("Reason").fill("lost")
        page.get_by_role("button", name="Ignore", exact=True).click()
        page.wait_for_url("**done=ignore")
        page.goto("/Order/bulk?verb=reopen&step=ship&state=failed")
        page.get_by_role("button", name="Reopen 3").click()
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("3 reopened").wait_for()
    assert Order.get_task("two\nlines").state.status is Status.PENDING
    assert Order.ship.failed.count() == 0


def test_a_theme_is_kept_and_there_before_anything_is_painted(visit: Visit) -> None:
    with visit() as visitor:
        page = visitor.open("/Order/")
        background = "getComputedStyle(document.documentElement).backgroundColor"
        light = page.evaluate(background)
        button = page.get_by_role("button", name="Theme")
        said = [button.inner_text()]
        for _ in range(2):
            button.click()
            said.append(button.inner_text())
        assert said == ["Theme: system", "Theme: light", "Theme: dark"]
        dark = page.evaluate(background)
        assert light != dark
        page.reload(wait_until="commit")
        page.wait_for_load_state()
        assert page.evaluate(background) == dark


def test_a_token_logs_a_browser_in_once(visit: Visit) -> None:
    token = "t" * 43
    with visit({"user": None, "token": token}) as visitor:
        assert visitor.page.goto("/Order/").status == 401  # type: ignore[union-attr]  # it navigates
        visitor.open(f"/Order/?token={token}")
        assert visitor.page.url == f"{visitor.home}/Order/"
        assert visitor.page.evaluate("document.cookie") == ""
        assert visitor.open("/Order/errors").locator("h1").inner_text() == "Errors"


def test_it_is_printed_in_light_and_markers_keep_their_colours_where_a_system_forces_its_own(visit: Visit) -> None:
    failed("o-1")
    with visit(color_scheme="dark") as visitor:
        page = visitor.open("/Order/tasks?step=ship&state=failed")
        looks = "selector => { const its = getComputedStyle(document.querySelector(selector)); return [its.display, "
        looks += "its.backgroundColor] }"
        assert page.evaluate(looks, "html")[1] == "rgb(15, 18, 23)"
        marker = page.evaluate(looks, ".chip i")[1]
        page.emulate_media(forced_colors="active")
        assert page.evaluate(looks, ".chip i")[1] == marker
        page.emulate_media(media="print", forced_colors="none")
        assert page.evaluate(looks, "html")[1] == "rgb(246, 247, 249)"
        assert page.evaluate(looks, ".top")[0] == "none"
