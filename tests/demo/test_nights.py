"""The scene of the nights: each night has its report with all pages, although workers die."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pynamodb_tracker.cli import app
from pynamodb_tracker.demo import nights
from pynamodb_tracker.demo.nights import Report, run
from pynamodb_tracker.demo.session import Options


def test_each_night_has_its_report_and_the_clocks_skip_no_night() -> None:
    result = CliRunner().invoke(app, ["demo", "--scene", "nights"])
    assert (result.exit_code, result.stderr) == (0, "")
    first, rule, *reports, index, mails, verdict = result.stdout.splitlines()
    assert first == "3 reports of 6 pages, in memory, 4 worker threads"
    assert rule == "the reports repeat by the rule '30 2 * * * in Europe/Berlin'"
    assert reports == [
        "2026-03-28 02:30:00+0100: 6 of 6 pages, 1 worker died",
        "2026-03-29 02:30:00+0100: 6 of 6 pages, 1 worker died",
        "2026-03-30 02:30:00+0200: 6 of 6 pages, 1 worker died",
    ]
    assert index.startswith("the index of all pages: 21 requests, merged into ")
    assert mails == "the mails: 3 sent, one after the other"
    assert verdict == "as it should be: yes"


def test_a_report_without_its_pages_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect_nothing(ctx: object) -> None:
        pass

    monkeypatch.setattr(nights, "NIGHTS", 1)
    monkeypatch.setitem(nights.FUNCTIONS, Report.collect, collect_nothing)
    out = io.StringIO()
    assert run(Options(), Console(file=out, width=80)).differences == ["2026-03-28 02:30:00+0100: None of 6 pages"]
    assert "as it should be: no\n  2026-03-28" in out.getvalue()


def test_the_scene_ends_soon_after_it_is_told_to_stop() -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(KeyboardInterrupt):
        run(Options(), Console(file=io.StringIO()), stopped)
