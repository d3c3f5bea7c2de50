"""Take a picture of the page: `python docs/images/page.py [FILE]` writes page.png next to this file, or FILE.

It is the real page about tasks in memory, in the Chromium of the system, by Playwright.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest import mock

from playwright.sync_api import sync_playwright
from shop import AppTask, Order, charge, hand_over, print_label

from pynamodb_tracker import clock
from pynamodb_tracker.cli.page_server import PageServer
from pynamodb_tracker.testing import local_table, stopped_clock
from pynamodb_tracker.testing.tables import OneAtATime

FILE = Path(__file__).with_suffix(".png")

WIDTH, HEIGHT = 1200, 1000


@contextmanager
def a_day_at_the_shop() -> Iterator[None]:
    """Fill the table with orders at all steps, over some hours; two of them are being shipped."""
    now = clock.now()
    OneAtATime.is_in_memory = False  # it stands for a table of AWS
    counted = mock.patch.object(Order.use_case_id, "flow", new=True)
    with counted, local_table(AppTask), stopped_clock(now - timedelta(hours=6)) as time_of_day:
        for number in range(1, 145):
            Order.create(f"o-2026-{number:05}", number=number)
            time_of_day.advance(timedelta(minutes=2.5))
            if number % 4 == 0:
                Order.confirm_payment.run_all(charge, limit=4)
                Order.ship.run_all(print_label, limit=3)
                Order.deliver.run_all(hand_over, limit=4)
        first, second = Order.ship.due_ids(limit=2)
        with Order.ship.start(first), Order.ship.start(second):
            yield


def take(file: Path) -> None:
    """Open the overview in a browser, and write what it shows."""
    server = PageServer("127.0.0.1", 0)
    who = mock.patch("pynamodb_tracker.cli.page_server.person", return_value="ada@shop")
    with who, a_day_at_the_shop(), server.serving([Order]), sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        window.goto(server.address)
        window.screenshot(path=file, full_page=True)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if sys.argv[1:] else FILE)
