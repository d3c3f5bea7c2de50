"""The page in other apps: below a path, in FastAPI, beside Django, and in AWS Lambda."""

import asyncio
import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from pynamodb_tracker.web import dashboard
from tests.support.pages import ROOT, Page
from tests.web.conftest import OWN
from tests.web.shop import Order, ShopTask

pytestmark = pytest.mark.usefixtures("shop")

PREFIX = "/ops/tasks"
TOKEN = "t" * 43


def ada(_: Request) -> str:
    return "ada"


def test_no_link_leaves_the_path_that_the_page_is_mounted_at() -> None:
    Order.create("o-1", state=Order.ship.failed)
    app = Starlette(routes=[Mount(PREFIX, dashboard(ShopTask, user=ada, actions=True))])
    client = TestClient(app, headers=OWN, follow_redirects=False)
    paths = [f"{PREFIX}/", f"{PREFIX}/Order/", f"{PREFIX}/Order/tasks?step=ship&state=failed", f"{PREFIX}/table"]
    paths += [f"{PREFIX}/Order/task?id=o-1", f"{PREFIX}/Order/errors", f"{PREFIX}/find?id=x", f"{PREFIX}/no/"]
    followed = set()
    for path in paths:
        page = client.get(path).text
        links = re.findall(r"""(?:href|src|action|data-(?:row|overview|tasks|errors))="([^"#]+)""", page)
        assert len(links) > 5, path
        assert not [link for link in links if not link.startswith(f"{PREFIX}/")]
        followed |= {html.unescape(link) for link in links if "bulk" not in link}
    codes = {link: client.get(link).status_code for link in followed}
    assert {code for link, code in codes.items() if "decide" not in link and "count" not in link} <= {200}
    answer = client.post(f"{PREFIX}/Order/task", data={"verb": "reopen", "step": "ship", "task": "o-1"})
    assert answer.headers["location"] == f"{PREFIX}/Order/task?id=o-1&done=reopen"
    assert client.get(f"{PREFIX}/healthz").text == "ok"


def test_a_login_below_a_path_sets_its_cookie_there() -> None:
    page = dashboard(Order, token=TOKEN)
    client = TestClient(Starlette(routes=[Mount(PREFIX, page)]), follow_redirects=False)
    answer = client.get(f"{PREFIX}/Order/?token={TOKEN}")
    assert answer.headers["location"] == f"{PREFIX}/Order/"
    assert "Path=/ops/tasks;" in answer.headers["set-cookie"]


def test_fastapi_mounts_the_page_behind_its_own_login() -> None:
    app = pytest.importorskip("fastapi").FastAPI()
    app.mount(PREFIX, dashboard(Order, user=lambda request: request.headers.get("x-person")))
    client = TestClient(app)
    assert client.get(f"{PREFIX}/Order/").status_code == 403
    assert "signed in as ada" in client.get(f"{PREFIX}/Order/", headers={"x-person": "ada"}).text


def test_the_page_beside_django_knows_its_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.conf import settings  # noqa: PLC0415 - a package that may be missing

    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db")}},
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
        ROOT_URLCONF=ModuleType("urls"),
        SECRET_KEY="s" * 50,
        ALLOWED_HOSTS=["testserver"],
    )
    settings.ROOT_URLCONF.urlpatterns = []
    shop = ModuleType("shop")
    shop.AppTask = ShopTask  # type: ignore[attr-defined]  # what the page imports
    monkeypatch.setitem(sys.modules, "shop", shop)
    how_to = Page(ROOT / "docs" / "how-to" / "watch-in-a-browser.md")
    [block] = [block.text for block in how_to.blocks() if "get_asgi_application" in block.text]
    asgi: dict[str, Any] = {}
    exec(compile(block, "asgi.py", "exec"), asgi)  # noqa: S102 - our own page
    client = TestClient(asgi["application"])

    from django.contrib.auth import get_user_model  # noqa: PLC0415 - after django.setup
    from django.contrib.auth.models import User  # noqa: PLC0415 - the same
    from django.contrib.sessions.backends.db import SessionStore  # noqa: PLC0415 - the same
    from django.core.management import call_command  # noqa: PLC0415 - the same
    from django.db import connections  # noqa: PLC0415 - the same

    call_command("migrate", verbosity=0)
    assert get_user_model() is User
    for name, is_staff in (("ada", True), ("eve", False)):
        user, session = User.objects.create_user(name, is_staff=is_staff), SessionStore()
        session["_auth_user_id"] = str(user.pk)
        session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
        session["_auth_user_hash"] = user.get_session_auth_hash()
        session.create()
        client.cookies.set("sessionid", session.session_key)
        answer = client.get("/ops/tasks/Order/")
        assert (answer.status_code, "signed in as ada" in answer.text) == ((200, True) if is_staff else (403, False))
    client.cookies.clear()
    assert client.get("/ops/tasks/Order/").status_code == 403
    assert client.get("/elsewhere").status_code == 404
    connections.close_all()


@pytest.fixture
def current_loop() -> Iterator[None]:
    """Mangum expects a current event loop, and never closes the one that it makes where there is none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("shop", "current_loop")
def test_the_page_is_served_in_lambda() -> None:
    mangum = pytest.importorskip("mangum")
    handle = mangum.Mangum(Starlette(routes=[Mount(PREFIX, dashboard(Order, user=ada))]), lifespan="off")

    def answer_to(path: str) -> dict[str, Any]:
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"host": "ops.example"},
            "requestContext": {
                "domainName": "ops.example",
                "http": {"method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            },
        }
        answer: dict[str, Any] = handle(event, None)
        return answer

    found = answer_to(f"{PREFIX}/Order/")
    assert found["statusCode"] == 200
    assert "What needs you" in found["body"]
    [script] = re.findall(rf'src="({PREFIX}/static/page[.]\w+[.]js)"', found["body"])
    assert answer_to(script)["statusCode"] == 200
    assert answer_to(f"{PREFIX}/Order")["headers"]["location"] == f"{PREFIX}/Order/"
    assert answer_to(f"{PREFIX}/nowhere/")["statusCode"] == 404
