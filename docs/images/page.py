"""Take a picture of the page: `python docs/images/page.py [FILE [ROUND]]` writes page.png next to this file, or FILE.

It is the page of the demo, `make demo ARGS=--web`, in the middle of it, in the Chromium of the system, by Playwright.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import count
from pathlib import Path
from unittest import mock

from playwright.sync_api import Page, sync_playwright
from rich.console import Console

from pynamodb_tracker import BoundStep
from pynamodb_tracker.cli.page_server import PageServer
from pynamodb_tracker.demo import session
from pynamodb_tracker.demo.pipeline import Order

FILE = Path(__file__).with_suffix(".png")

WIDTH, HEIGHT = 1200, 1000

ROUND = 10
"""Of the demo: it has orders at all steps then, and some that failed."""


@contextmanager
def browsing() -> Iterator[Page]:
    """Open a window of a browser."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        browser.close()


def take(file: Path, in_round: int) -> None:
    """Run the demo up to that round, and write what its page shows then."""
    server, stopped = PageServer("127.0.0.1", 0), threading.Event()
    let_workers_die, rounds = session._let_workers_die, count(1)  # noqa: SLF001 - called in the middle of a round

    with browsing() as window:

        def before_step(step: BoundStep[Order]) -> None:
            let_workers_die(step)
            if step == Order.ship and next(rounds) == in_round:
                window.goto(server.address)
                window.screenshot(path=file, full_page=True)
                stopped.set()

        options = session.Options(beside=lambda: server.serving([Order]))
        who = mock.patch("pynamodb_tracker.cli.page_server.person", return_value="ada@shop")
        with who, mock.patch.object(session, "_let_workers_die", before_step), suppress(KeyboardInterrupt):
            session.run(options, Console(file=StringIO()), stopped)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if sys.argv[1:] else FILE, int(sys.argv[2]) if sys.argv[2:] else ROUND)
