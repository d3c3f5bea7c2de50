"""Take pictures of the page: `python docs/images/page.py [FOLDER [ROUND]]` writes them next to this file, or there.

It is the page of the demo, `make demo ARGS=--web`, in the middle of it, in the Chromium of the system, by Playwright.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from unittest import mock

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console

from pynamodb_tracker import BoundStep
from pynamodb_tracker.demo import session
from pynamodb_tracker.demo.pipeline import Order
from pynamodb_tracker.web import dashboard

FORMS = {"": (1200, 1), "-narrow": (390, 2)}
"""The width of the window, and how many points of the picture are one of it."""

ROUND = 10
"""Of the demo: it has orders at all steps then, and some that failed."""


NEEDS, STEPS = ("section[aria-labelledby=needs-title]", "section[aria-labelledby=steps-title]")


@dataclass(frozen=True)
class Shot:
    """A picture: what it shows, and between which elements."""

    name: str
    path: str
    first: str = "body"
    """Where the narrow form begins. The wide one has the whole head of the page."""
    last: str = "main"


SHOTS = [
    Shot("page", "", NEEDS, STEPS),
    Shot("page-task", "Order/task?id={ignored}"),
    Shot("page-dry-run", "Order/bulk?verb=reopen&step=confirm_payment&state=ignored&error=RefusedError", "main"),
]


@contextmanager
def browsing() -> Iterator[Browser]:
    """Open a browser."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def serving() -> Iterator[str]:
    """Serve the page from a thread, with actions, and yield its address."""
    app = dashboard(Order, user=lambda _: "ada@shop", actions=True, hosts={"127.0.0.1"})
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def take(window: Page, shot: Shot, file: Path) -> None:
    """Write what the window shows, without tracebacks, which name folders of this machine."""
    window.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false })")
    first = window.locator(shot.first if "narrow" in file.name else "body").bounding_box()
    last, width = window.locator(shot.last).bounding_box(), window.evaluate("innerWidth")
    if first is None or last is None:
        raise LookupError(f"{shot.path} has no {shot.first} or no {shot.last}")
    top, bottom = max(0, first["y"] - 12), last["y"] + last["height"] + 12
    window.screenshot(path=file, full_page=True, clip={"x": 0, "y": top, "width": width, "height": bottom - top})


def run(folder: Path, in_round: int) -> None:
    """Run the demo up to that round, and write what its page shows then."""
    stopped, let_workers_die, rounds = threading.Event(), session._let_workers_die, count(1)  # noqa: SLF001 - called in the middle of a round

    def before_step(step: BoundStep[Order]) -> None:
        let_workers_die(step)
        if step != Order.ship or next(rounds) != in_round:
            return
        ignored = next((each.task_id for each in Order.confirm_payment.ignored.query(limit=1)), "none")
        with serving() as address, browsing() as browser:
            for form, (width, scale) in FORMS.items():
                window = browser.new_page(viewport={"width": width, "height": 800}, device_scale_factor=scale)
                for shot in SHOTS:
                    window.goto(address + shot.path.format(ignored=ignored))
                    take(window, shot, folder / f"{shot.name}{form}.png")
        stopped.set()

    with mock.patch.object(session, "_let_workers_die", before_step), suppress(KeyboardInterrupt):
        session.run(Console(file=StringIO()), stopped)


if __name__ == "__main__":
    run(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent, int(sys.argv[2]) if sys.argv[2:] else ROUND)
