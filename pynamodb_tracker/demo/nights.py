"""The scene of the nights: a task that repeats, reports that wait for their pages, merged requests, mails in order."""

import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute
from rich.console import Console

from pynamodb_tracker import BoundStep, ExecutionContext, Repeat, Step, UseCase, clock
from pynamodb_tracker.demo import pipeline
from pynamodb_tracker.demo.pipeline import DemoTask, WorkerDiedError
from pynamodb_tracker.demo.session import Options, processes_for, quiet, work_on_server
from pynamodb_tracker.demo.summary import say
from pynamodb_tracker.testing import local_table, stopped_clock

NIGHTS, PAGES, MAILS = 3, 6, "mails"

_EVENING = datetime(2026, 3, 27, 18, tzinfo=UTC)
"""When the scene begins in memory: in the night after the next one, the clocks in Berlin skip the hour from 2 to 3."""

_NIGHTLY = Repeat.cron("30 2 * * *", tz="Europe/Berlin")
_SHORT_NIGHTS = Repeat.every(timedelta(seconds=2))
"""The rule on a server, where nobody can advance the clock."""


_MOMENT = timedelta(milliseconds=1)
"""A lock is taken over after the time at which it expires, not at that time."""


class Nightly(DemoTask):
    """The task that repeats: each occurrence creates a report."""

    use_case_id = UseCase("nightly")

    start = Step(100)


class Report(DemoTask):
    """A report: it is split into pages, and collected once all of them are written."""

    use_case_id = UseCase("report")

    split = Step(100)
    collect = Step(200)

    pages = NumberAttribute(null=True)


class Page(DemoTask):
    """A page of a report."""

    use_case_id = UseCase("page")

    write = Step(100, lock_for=pipeline.LOCK)

    number = NumberAttribute()


class Mail(DemoTask):
    """The mail with a report: mails are sent one at a time, in the order in which the reports were collected."""

    use_case_id = UseCase("mail")

    send = Step(100)


class Index(DemoTask):
    """The index of all pages: rebuilt for many requests at once."""

    use_case_id = UseCase("index")

    rebuild = Step(100)

    requests = NumberAttribute()


MODELS = (Nightly, Report, Page, Mail, Index)
"""The use cases of the scene."""


def start_report(ctx: ExecutionContext[Nightly]) -> None:
    """Create the report of this occurrence, together with the success."""
    nights = ctx.task.data.get("nights", 0)
    if nights < NIGHTS:
        ctx.create(Report, f"{ctx.occurrence:%Y-%m-%d %H:%M:%S%z}")
        ctx.task.data["nights"] = nights + 1


def split(ctx: ExecutionContext[Report]) -> None:
    """Create the pages, and wait for them."""
    for number, page_id in enumerate(pages_of(ctx.task), 1):
        ctx.create(Page, page_id, number=number, wait=True)


def write(ctx: ExecutionContext[Page]) -> None:
    """Write the page and request the index; raises WorkerDiedError if that kills its worker."""
    ctx.task.data["text"] = f"page {ctx.task.number}"
    Index.create_or_merge("pages", requests=1, merge=_add, due_time=timedelta(seconds=1))
    if is_fatal(ctx.task, ctx.attempt):
        raise WorkerDiedError


def is_fatal(task: DemoTask, attempt: int) -> bool:
    """Return whether this attempt kills its worker."""
    return isinstance(task, Page) and task.number % 5 == 0 and attempt == 1


def _add(waiting: Index, new: Any) -> None:
    waiting.requests += new["requests"]


def collect(ctx: ExecutionContext[Report]) -> None:
    """Count the pages that are written, and create the mail."""
    ctx.create(Mail, ctx.task.task_id, group=MAILS)
    ctx.task.pages = sum("text" in page.data for page in Page.get_many(pages_of(ctx.task)))


def send(ctx: ExecutionContext[Mail]) -> None:
    """Note in what the mails share that this one is sent."""
    ctx.group.data["sent"] = [*ctx.group.data.get("sent", []), ctx.task.task_id]


def rebuild(ctx: ExecutionContext[Index]) -> None:
    """Count the requests that this run serves, and the runs."""
    ctx.task.data["requests"] = ctx.task.data.get("requests", 0) + int(ctx.task.requests)
    ctx.task.data["runs"] = ctx.task.data.get("runs", 0) + 1


def pages_of(report: Report) -> list[str]:
    """Return the ids of its pages: the same in every attempt."""
    return [f"{report.task_id}/{number:02}" for number in range(1, PAGES + 1)]


FUNCTIONS: dict[BoundStep[Any], Callable[[ExecutionContext[Any]], None]] = {
    Nightly.start: start_report,
    Report.split: split,
    Page.write: write,
    Report.collect: collect,
    Mail.send: send,
    Index.rebuild: rebuild,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the table says at the end."""

    reports: list[Report]
    """Those that are collected, in the order of their nights."""
    pages: list[Page]
    index: Index
    mails: list[Mail]
    sent: list[str]
    """The mails as they were sent, in order."""

    @property
    def requests(self) -> int:
        """How often the index was requested: once by each attempt at a page."""
        return sum(page.fence for page in self.pages)

    @property
    def differences(self) -> list[str]:
        """A line for everything that is not as it should be."""
        lines = [f"{each.task_id}: {each.pages} of {PAGES} pages" for each in self.reports if each.pages != PAGES]
        if len(self.reports) != NIGHTS:
            lines.append(f"{len(self.reports)} reports in {NIGHTS} nights")
        if (served := self.index.data["requests"]) != self.requests:
            lines.append(f"{served} of {self.requests} requests for the index were served")
        ordered = [mail.task_id for mail in sorted(self.mails, key=lambda mail: mail.group_number)]
        if self.sent != ordered:
            lines.append(f"mails were sent as {self.sent}, and not as {ordered}")
        return lines


def run(options: Options, console: Console, stopped: threading.Event | None = None) -> Outcome:
    """Run the scene from beginning to end, print what happens, and return what is in the table then.

    ServerError says why it cannot run; KeyboardInterrupt leaves soon after `stopped` is set.
    """
    scene = _Scene(options, console, stopped or threading.Event())
    with quiet():
        return scene.on_server(options.endpoint_url) if options.endpoint_url else scene.in_memory()


@dataclass(frozen=True, slots=True)
class _Scene:
    options: Options
    console: Console
    stopped: threading.Event
    shown: set[str] = field(default_factory=set)
    """The reports that have been printed."""

    def in_memory(self) -> Outcome:
        """Advance a stopped clock to what is due next; a worker that dies leaves its page locked."""
        with local_table(DemoTask), stopped_clock(_EVENING) as time_of_day, self.options.beside():
            self._begin(_NIGHTLY, f"in memory, {self.options.workers} worker threads")
            while not self._is_over():
                for step, function in FUNCTIONS.items():
                    _let_workers_die(step, function)
                    step.run_all(function, threads=self.options.workers)
                time_of_day.advance(max(_next_due() - clock.now(), timedelta(0)) + _MOMENT)
            return self._print_outcome()

    def on_server(self, endpoint_url: str) -> Outcome:
        """Use a `Worker` with processes, which really die, on a table of the demo's own."""
        table_name = self.options.table_name or f"pynamodb-tracker-demo-{secrets.token_hex(4)}"
        server, processes = pipeline.Server(endpoint_url, table_name), processes_for(self.options)
        with server.table(keep=self.options.keep), self.options.beside():
            self._begin(_SHORT_NIGHTS, f"at {endpoint_url}, table {table_name}, {processes} worker processes")
            work_on_server(server, FUNCTIONS, processes, self._is_over, self.stopped)
            return self._print_outcome()

    def _print_outcome(self) -> Outcome:
        """Read what the table says at the end, and print it."""
        outcome = _read()
        runs = outcome.index.data["runs"]
        say(self.console, f"the index of all pages: {outcome.requests} requests, merged into {runs} runs")
        say(self.console, f"the mails: {len(outcome.sent)} sent, one after the other")
        say(self.console, f"as it should be: {'no' if outcome.differences else 'yes'}")
        for line in outcome.differences:
            say(self.console, f"  {line}")
        return outcome

    def _begin(self, rule: Repeat, where: str) -> None:
        say(self.console, f"{NIGHTS} reports of {PAGES} pages, {where}")
        say(self.console, f"the reports repeat by the rule '{rule}'")
        Nightly.create_or_merge("report", repeat=rule)

    def _is_over(self) -> bool:
        """Show what has been collected since, and return whether all is, and the index has nothing left to do."""
        if self.stopped.is_set():
            raise KeyboardInterrupt
        for report in Report.collect.succeeded.query():
            if report.task_id not in self.shown:
                self.shown.add(report.task_id)
                died = sum(len(page.unfinished or ()) for page in Page.get_many(pages_of(report)))
                what = f"{report.pages} of {PAGES} pages, {died} worker{'' if died == 1 else 's'} died"
                say(self.console, f"{report.task_id}: {what}")
        is_sent = not Mail.send.next_due()
        return len(self.shown) == NIGHTS and is_sent and Index.get_task("pages").state == Index.rebuild.succeeded


def _let_workers_die(step: BoundStep[Any], function: Callable[[ExecutionContext[Any]], None]) -> None:
    """Leave tasks as a worker does that is killed in the middle: claimed, and the block never ended."""
    for task in step.due():
        if is_fatal(task, task.attempt + 1):
            with suppress(WorkerDiedError):
                function(ExitStack().enter_context(step.start(task.task_id)))


def _next_due() -> datetime:
    return min(due for step in FUNCTIONS for due in step.next_due().values())


def _read() -> Outcome:
    reports, pages = list(Report.collect.succeeded.query()), list(Page.write.succeeded.query())
    mails, sent = list(Mail.send.succeeded.query()), Mail.group(MAILS).data.get("sent", [])
    return Outcome(reports, pages, Index.get_task("pages"), mails, sent)
