"""Who may see the page, under which names it is served, and which requests may change something."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from pynamodb_tracker import Task, UseCase
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web import dashboard
from tests.web.conftest import OWN, Open
from tests.web.shop import Order, ShopTask

pytestmark = pytest.mark.usefixtures("shop")

TOKEN = "t" * 43
REOPEN = {"verb": "reopen", "step": "ship", "task": "o-1"}


def cookie_of(client: TestClient) -> str:
    """Log in, and return the attributes of the cookie."""
    answer = client.get("/Order/tasks", params={"token": TOKEN, "step": "ship", "state": "failed"})
    assert answer.status_code == 303
    return answer.headers["set-cookie"]


def test_a_page_that_nobody_guards_is_refused() -> None:
    with pytest.raises(TypeError, match="needs user or token"):
        dashboard(Order)


@pytest.mark.parametrize(
    ("models", "options", "said"),
    [
        ((), {}, "no use case is given"),
        ((Task,), {}, "neither a table nor a use case"),
        (("Order",), {}, "neither a table nor a use case"),
        ((Order,), {"user": "ada"}, "user must be a function"),
        ((Order,), {"authorize": True}, "authorize must be a function"),
        ((Order,), {"hide": "customer"}, r"write \['customer'\]"),
        ((Order,), {"hosts": "localhost"}, r"write \['localhost'\]"),
        ((Order,), {"actions": "yes"}, "actions"),
        ((Order,), {"refresh": 10}, "refresh"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(models: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        dashboard(*models, **{"token": TOKEN, **options})


def test_two_use_cases_whose_classes_have_one_name_are_refused() -> None:
    class OtherTask(Task):
        class Meta:
            table_name = "other-shop"
            region = "us-east-1"

    other = type("Order", (OtherTask,), {"use_case_id": UseCase("order"), "ship": Order.ship._definition.declared})
    with pytest.raises(TypeError, match="two use cases have the class name Order"):
        dashboard(Order, other, token=TOKEN)


@pytest.mark.parametrize(
    "path", ["/", "/Order/", "/Order/task?id=o-1", "/find?id=o-1", "/table", "/static/page.js", "/no"]
)
def test_without_a_login_nothing_is_shown(open_page: Open, path: str) -> None:
    client = open_page(user=None, token=TOKEN)
    assert client.get(path).status_code == 401
    assert client.get(path, params={"token": "wrong"}).status_code == 401
    client.cookies.set("pynamodb_tracker", TOKEN)
    assert client.get(path).status_code == 401


def test_a_token_becomes_a_cookie_and_leaves_the_address(open_page: Open) -> None:
    client = open_page(user=None, token=TOKEN)
    answer = client.get("/Order/tasks", params={"token": TOKEN, "step": "ship", "state": "failed"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/Order/tasks?step=ship&state=failed")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert TOKEN not in str(answer.headers)
    assert {"httponly", "path=/", "samesite=lax"} <= {
        part.strip().lower() for part in answer.headers["set-cookie"].split(";")
    }
    assert client.get("/Order/").status_code == 200


def test_a_form_that_is_sent_with_a_token_logs_nobody_in(open_page: Open) -> None:
    answer = open_page(user=None, token=TOKEN).post(f"/Order/task?token={TOKEN}", data=REOPEN)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


@pytest.mark.parametrize("query", [f"token={TOKEN}&token=x", f"token=x&token={TOKEN}", f"%74oken={TOKEN}"])
def test_a_token_leaves_the_address_however_it_is_written_and_after_the_login(open_page: Open, query: str) -> None:
    client = open_page(user=None, token=TOKEN)
    cookie_of(client)
    answer = client.get(f"/Order/?{query}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/Order/")


def test_a_cookie_over_https_is_never_sent_over_http(open_page: Open) -> None:
    client = open_page(user=None, token=TOKEN)
    assert "Secure" not in cookie_of(client)
    client.base_url = "https://testserver"
    assert "Secure" in cookie_of(client)


def test_pages_on_several_ports_do_not_log_each_other_out(open_page: Open) -> None:
    first, second = (cookie_of(open_page(user=None, token=TOKEN)), open_page(user=None, token="x" * 43))
    assert (
        first.partition("=")[0] != second.get("/", params={"token": "x" * 43}).headers["set-cookie"].partition("=")[0]
    )


def test_the_redirect_of_a_login_stays_on_this_host(open_page: Open) -> None:
    answer = open_page(user=None, token=TOKEN).get("http://testserver//evil.example/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/evil.example/")


@pytest.mark.parametrize("path", ["/Order", "/Order/tasks/", "/static"])
def test_no_redirect_names_a_host(open_page: Open, path: str) -> None:
    answer = open_page().get(path, headers={"host": "evil.example"})
    assert (answer.status_code, answer.headers.get("location", "")) in [(303, "/Order/"), (404, "")]


def test_only_people_whom_the_function_names_see_the_page(open_page: Open) -> None:
    client = open_page(user=lambda request: request.headers.get("x-person"))
    assert client.get("/Order/").status_code == 403
    assert client.get("/Order/", headers={"x-person": ""}).status_code == 403
    assert "signed in as ada" in client.get("/Order/", headers={"x-person": "ada"}).text


def test_a_name_that_is_not_the_pages_is_refused_so_no_site_can_have_its_name_resolve_to_it(open_page: Open) -> None:
    client = open_page(hosts={"127.0.0.1", "LocalHost", "::1"})
    for host in ("localhost:8642", "127.0.0.1", "[::1]:8642", "LOCALHOST"):
        assert client.get("/Order/", headers={"host": host}).status_code == 200, host
    for host in ("evil.example", "evil.example:8642", "localhost.evil.example", "", "[", "localhost@evil.example"):
        assert client.get("/Order/", headers={"host": host}).status_code == 421, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://other.testserver"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://testserver:8643"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "null"},
        {"Origin": "null", "Host": ""},
        {"Origin": "", "Host": ""},
        {},
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused(open_page: Open, headers: dict[str, str]) -> None:
    client = open_page(headers={})
    for path in ("/Order/task", "/Order/bulk", "/Order/count"):
        answer = client.post(path, data=REOPEN, headers=headers)
        assert (answer.status_code, answer.text) == (403, "refused: the request came from another site"), path


def test_a_browser_that_says_only_its_origin_can_send_forms(open_page: Open) -> None:
    Order.create("o-1", state=Order.ship.failed)
    answer = open_page(headers={}).post("/Order/task", data=REOPEN, headers={"Origin": "http://testserver"})
    assert answer.status_code == 303


@pytest.mark.parametrize("path", ["/Order/task", "/Order/bulk"])
def test_a_read_only_page_changes_nothing(open_page: Open, shop: StoppedClock, path: str) -> None:
    Order.create("o-1", state=Order.ship.failed)
    client = open_page(actions=False)
    answer = client.post(path, data={**REOPEN, "state": "failed", "until": shop.now().isoformat()})
    assert answer.status_code == 403
    assert "start it with --actions" in answer.text
    assert Order.get_task("o-1").state == Order.ship.failed
    assert "Reopen" not in client.get("/Order/tasks?step=ship&state=failed").text
    assert "Reopen" not in client.get("/Order/task?id=o-1").text


def test_a_get_changes_nothing(open_page: Open) -> None:
    Order.create("o-1", state=Order.ship.failed)
    client = open_page()
    assert client.get("/Order/task", params=REOPEN).status_code == 400
    assert client.get("/Order/bulk", params={**REOPEN, "state": "failed"}).status_code == 200
    assert client.get("/Order/count").status_code == 405
    assert Order.get_task("o-1").state == Order.ship.failed


def test_every_answer_forbids_what_the_page_does_not_need(open_page: Open) -> None:
    client = open_page(hosts={"testserver"})
    answers = [client.get(path) for path in ("/Order/", "/no", "/static/page.js", "/healthz", "/Order/task?id=")]
    answers += [
        client.get("/", headers={"host": "evil.example"}),
        client.post("/Order/task", headers={"Sec-Fetch-Site": "none"}),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert {"script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert not [each for each in policy if "unsafe" in each or "*" in each or "data:" in each]
        assert dict(answer.headers).items() >= {
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        }


def test_health_is_told_without_a_login_and_without_a_table() -> None:
    client = TestClient(dashboard(ShopTask, token=TOKEN, hosts={"ops.internal"}))
    answer = client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok")
    assert client.post("/healthz", headers=OWN).status_code == 421


def test_who_is_an_anonymous_name_without_a_function(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-1", state=Order.ship.failed)
    client = open_page(user=None, token=TOKEN)
    cookie_of(client)
    assert client.post("/Order/task", data=REOPEN).status_code == 303
    assert Order.get_task("o-1").errors[-1].worker == "web"
    assert shop.now() == Order.get_task("o-1").update_time


def test_an_async_function_says_who_asks_and_nothing_but_a_name_lets_somebody_in(open_page: Open) -> None:
    async def who(request: Request) -> str | None:
        return request.headers.get("x-person")

    client = open_page(user=who)
    assert client.get("/Order/").status_code == 403
    assert "signed in as ada" in client.get("/Order/", headers={"x-person": "ada"}).text
    with pytest.raises(TypeError, match="user must return a name or None, not 5"):
        open_page(user=lambda _: 5).get("/Order/")


def test_only_true_allows_an_action(open_page: Open) -> None:
    async def authorize(_: object) -> bool:
        return False

    with pytest.raises(TypeError, match="authorize must be a plain function"):
        open_page(authorize=authorize)
    Order.create("o-1", state=Order.ship.failed)
    with pytest.raises(TypeError, match="authorize must return True or False, not 'no'"):
        open_page(authorize=lambda _: "no").post("/Order/task", data=REOPEN)
    assert Order.get_task("o-1").state == Order.ship.failed
