"""A real browser for the tests of the page: Chromium of the system, by Playwright, on loopback only."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from tests.conftest import HOW_TO_GET_A_BROWSER, NO_BROWSER, in_ci

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def path_of_chromium() -> str:
    """Return where the browser is. Skip the test where there is none, but fail it in CI."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None or find_spec("playwright") is None:
        why = f"Playwright is not installed, or none of {', '.join(_NAMES)} is on the path"
        if in_ci():
            pytest.fail(f"{NO_BROWSER}{why}; to get one, {HOW_TO_GET_A_BROWSER}", pytrace=False)
        pytest.skip(f"{NO_BROWSER}{why}")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    path = path_of_chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an app from a thread, and yield its address."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        [listening] = server.servers[0].sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:  # or a test that fails would leave it running
        server.should_exit = True
        thread.join(60)


_REPORTS = "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))"


@dataclass
class Visitor:
    """Somebody with a browser, and what went wrong in it."""

    page: Page
    home: str
    problems: list[str] = field(default_factory=list)
    """Errors of the script, reports of the content policy, dialogs, and requests to other hosts."""

    @classmethod
    @contextmanager
    def of(cls, browser: Browser, home: str, **options: Any) -> Iterator[Visitor]:
        """Open a window; `options` are those of Playwright, such as `viewport` and `color_scheme`."""
        context = browser.new_context(base_url=home, **({"viewport": {"width": 1360, "height": 900}} | options))
        context.set_default_timeout(60_000)
        context.add_init_script(_REPORTS)
        visitor = cls(context.new_page(), home)
        visitor._watch()
        yield visitor
        context.close()
        assert visitor.problems == []

    def _watch(self) -> None:
        def add(what: str) -> None:
            self.problems.append(what)

        def refuse_dialog(dialog: Any) -> None:
            add(f"dialog: {dialog.message}")
            dialog.dismiss()

        self.page.on("dialog", refuse_dialog)
        self.page.on("pageerror", lambda error: add(f"error: {error}"))
        self.page.on("console", lambda line: add(f"{line.type}: {line.text}") if _is_bad(line) else None)
        self.page.on("request", lambda sent: None if sent.url.startswith(self.home) else add(f"to {sent.url}"))

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page


def _is_bad(line: Any) -> bool:
    """Return whether a line of the console is a problem; Chromium itself reports each answer that is no success."""
    return line.type in {"error", "warning"} and "Failed to load resource" not in line.text
