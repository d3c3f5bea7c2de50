"""What people decide about tasks: some that they have selected, or all that match a filter, after a dry run.

All that match are changed in slices, one for each POST. What is left travels in the form: nothing is kept here, so it
goes on after a restart and in Lambda, and the first POST after the last slice is never sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.presentation import exact_json, listing
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.presentation.listing import Filter
from pynamodb_tracker.presentation.times import end_of_pause, spread
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signal_named
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web.forms import Form, read_form
from pynamodb_tracker.web.guard import who
from pynamodb_tracker.web.metering import Spent
from pynamodb_tracker.web.page import (
    FILTER,
    OF_STEPS,
    VERBS,
    FieldError,
    Page,
    filter_of,
    step_named,
    time_of,
    whole_number,
)
from pynamodb_tracker.web.views import Views
from pynamodb_tracker.web.words import log_line

log = logging.getLogger("pynamodb_tracker.web")

SLICE = 100
"""Tasks that are found at a time."""
SLICE_SECONDS = 8.0
"""How long a POST goes on with further tasks; API Gateway gives up after 30 seconds."""

_OF_DYNAMODB = (PynamoDBException, BotoCoreError, ClientError)


def _audit(who: str, did: str, **about: object) -> None:
    """Log who did what: not at INFO, which nobody sees under plain uvicorn."""
    log.warning(log_line(who=who, did=did, **about))


_CHANGED = {
    "reopen": (Status.FAILED, Status.IGNORED),
    "ignore": (Status.PENDING, Status.IN_PROGRESS, Status.FAILED),
}
"""The states whose tasks a verb changes: of those in progress, it ignores the abandoned ones."""

_MOST_IN_DRY_RUN = 5000
_FIELDS = ("reason", "first", "rate")
"""Of a dry run, to be filled in."""
_EXAMPLES = 5
_MOST_DONE = 10**9
_UNITS = 3
"""Write units of a reopen or an ignore: the row, and its entry in the index that moves."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the tasks of a decision."""

    refused: Mapping[str, str]
    """Those that were refused, and why."""
    at_once: int = 0
    """How many are due at once in spite of a rate."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about tasks: the action, who takes it, and the reason."""

    verb: str
    step: BoundStep[Any]
    reason: str
    by: str
    worker: str | None = None
    """Whose task is unlocked; another worker's is left alone."""
    even_in_group: bool = False
    children: bool = False
    """Whether what the task waits for is cancelled with it."""
    rate: int | None = None
    """Tasks that become due in a minute, at most."""

    def carry_out(self, task_ids: Sequence[str], begin: datetime | None = None, done: int = 0) -> Outcome:
        """Change the tasks, and return what became of them; raise if DynamoDB refuses all of them.

        With a rate, they become due one by one from `begin` on, behind those that are done.
        """
        at_once = 0
        if self.verb == "reopen":
            due_times = None if self.rate is None or begin is None else spread(begin, self.rate, done)
            report = self.step.reopen_many(task_ids, by=self.by, due_times=due_times)
            errors, at_once = report.refused, report.due_now
        elif self.verb == "ignore":
            errors = self.step.ignore_many(task_ids, reason=self.reason, by=self.by).refused
        else:
            errors = {task_id: error for task_id in task_ids if (error := self._end_run(task_id)) is not None}
        refused = {task_id: for_people(error) for task_id, error in errors.items()}
        for task_id in task_ids:
            self._log(task_id, refused.get(task_id))
        failures = [error for error in errors.values() if isinstance(error, _OF_DYNAMODB)]
        if failures and len(failures) == len(task_ids):  # it may not write, or is throttled: the next ones fail as well
            raise failures[0]
        return Outcome(refused, at_once)

    def _end_run(self, task_id: str) -> Exception | None:
        """Cancel a task, or cancel its run or unlock it, and return why that was refused."""
        about: dict[str, Any] = {"reason": self.reason, "by": self.by}
        try:
            if self.verb == "unlock":
                self.step.unlock(task_id, worker=self.worker, **about)
            elif self.verb == "cancel_task":
                return self._cancel_task(task_id, about)
            else:
                self.step.ignore(task_id, even_running=True, even_in_group=self.even_in_group, **about)
        except (TrackerError, ValueError, *_OF_DYNAMODB) as error:
            return error
        return None

    def _cancel_task(self, task_id: str, about: dict[str, Any]) -> Exception | None:
        model = self.step.model
        done = model.cancel(task_id, children=self.children, even_in_group=self.even_in_group, **about).children
        why = [for_people(error) for error in done.refused.values()]
        if done.unlisted:
            why.append(f"{done.unlisted} more that it waits for are not listed, and left as they are")
        return TrackerError(f"{task_id} is cancelled, but not all that it waits for: {'; '.join(why)}") if why else None

    def _log(self, task_id: str, refused: str | None) -> None:
        about = {"use_case": self.step.model.tracker.use_case.name, "step": self.step.name, "task_id": task_id}
        more = {"reason": self.reason} if self.reason else {}
        _audit(self.by, self.verb, **about, **more, **({"refused": refused} if refused else {}))


@dataclass(frozen=True, slots=True)
class Slices:
    """How far the tasks that match a filter are changed."""

    done: int = 0
    refused: int = 0
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first ones that the last slice was refused."""
    at_once: int = 0
    """How many of those that are done are due at once in spite of a rate."""
    cursor: str | None = None


class Decisions:
    """The forms of a page."""

    def __init__(self, page: Page, views: Views) -> None:
        self._page = page
        self._views = views
        """They show a form again that was refused."""

    async def decide(self, request: Request) -> Response:
        """Change the tasks that are selected."""
        return await run_in_threadpool(self._decide, request, await read_form(request))

    def _decide(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        step = step_named(model, form.get("step"))
        task_ids = list(dict.fromkeys(unquote(each, errors="strict") for each in form.all("task")))
        if not task_ids:
            raise HTTPException(400, "No task is selected.")
        try:
            decision = self._decision(request, model, form, step, task_ids)
        except FieldError as error:
            refused: dict[str, Any] = {"problems": {error.field: str(error)}, "code": 400, "verb": form.get("verb", "")}
            if form.get("state"):
                return self._views.list_tasks(request, form, selected=task_ids, **refused)
            return self._views.show_task(request, task_ids[0], **refused)
        with page.changing(model) as spent:
            outcome = decision.carry_out(task_ids)
        if len(task_ids) == 1 and not outcome.refused:
            return page.redirect(request, model, "task", id=task_ids[0], done=decision.verb)
        return page.show(
            request,
            "decided.html",
            model=model,
            spent=spent,
            task_ids=task_ids,
            refused=outcome.refused,
            said=VERBS[decision.verb],
            back={name: form.get(name, "") for name in FILTER},
        )

    def plan(self, request: Request) -> Response:
        """Show what a decision about all tasks that match would change; this is a GET, and changes nothing."""
        return self._plan(request, request.query_params)

    def _plan(self, request: Request, query: Mapping[str, str], problem: FieldError | None = None) -> Response:
        page, model = self._page, self._page.model(request)
        verb = query.get("verb", "reopen")
        asked = filter_of(model, query)
        self._check(request, verb, model, step=asked.state.step)
        _check_state(verb, asked)
        # What comes into the state after this look is left alone, however long the slices take.
        now = clock.now()
        what = Filter(asked.state, asked.since, min(asked.until or now, now), asked.error, asked.exactly)
        with page.metered(model) as spent:
            found = listing.find(what, limit=_MOST_IN_DRY_RUN, most_searched=_MOST_IN_DRY_RUN)
        return page.show(
            request,
            "bulk.html",
            model=model,
            spent=spent,
            verb=verb,
            what=what,
            found=found,
            cost=Spent(writes=_UNITS * len(found.entries)),
            slices=None,
            said=VERBS[verb],
            given={name: query.get(name, "") for name in _FIELDS} | {"begin": query.get("begin", "")},
            problems={} if problem is None else {problem.field: str(problem)},
            code=200 if problem is None else 400,
        )

    async def bulk(self, request: Request) -> Response:
        """Change the next slice of the tasks that match."""
        return await run_in_threadpool(self._bulk, request, await read_form(request))

    def _bulk(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        what = filter_of(model, form)
        if time_of(form, "until") is None:
            raise HTTPException(400, "Begin with the dry run.")
        _check_state(form.get("verb", ""), what)
        try:
            decision = self._decision(request, model, form, step_named(model, what.state.step))
            begin, progress = time_of(form, "begin") or clock.now(), _Progress.of(form)
        except FieldError as error:
            if error.field not in _FIELDS:
                raise
            return self._plan(request, form, error)
        # A form that has waited for its person does not make the tasks of the meantime due at once.
        begin = max(begin, clock.now() - timedelta(minutes=progress.done / (decision.rate or 1)))
        with page.changing(model) as spent:
            slices = _next_slice(decision, what, form.get("cursor") or None, progress, begin)
        return page.show(
            request,
            "bulk.html",
            model=model,
            spent=spent,
            verb=decision.verb,
            what=what,
            found=None,
            slices=slices,
            said=VERBS[decision.verb],
            given={name: form.get(name, "") for name in _FIELDS} | {"begin": begin.isoformat()},
        )

    def _decision(
        self, request: Request, model: type[Task], form: Form, step: BoundStep[Any], task_ids: Iterable[str] = ()
    ) -> Decision:
        verb, reason = form.get("verb", ""), form.get("reason", "").strip()
        self._check(request, verb, model, step=step.name, task_ids=tuple(task_ids))
        if verb != "reopen" and not reason:
            raise FieldError("reason", "Write a reason, for people who look at the task later.")
        worker, even_in_group = form.get("worker") or None, bool(form.get("even_in_group"))
        rate = _limit_in(form, "rate")
        children = bool(form.get("children"))
        return Decision(verb, step, reason, who(request), worker, even_in_group, children, rate)

    def _check(self, request: Request, verb: str, model: type[Task], **about: Any) -> None:
        if verb not in VERBS:
            raise HTTPException(400, "Tasks can be reopened, ignored, cancelled or unlocked here, nothing else.")
        self._page.check_allowed(request, verb, model, **about)

    async def signal(self, request: Request) -> Response:
        """Send a signal that a task awaits."""
        return await run_in_threadpool(self._signal, request, await read_form(request))

    def _signal(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        task_id, name, by = unquote(form.get("task", ""), errors="strict"), form.get("name", ""), who(request)
        page.check_allowed(request, "signal", model, signal=name, task_ids=(task_id,))
        about = {"use_case": model.tracker.use_case.name, "task_id": task_id, "signal": name}
        try:
            value = _value_of(form.get("value", ""))
            with page.changing(model):
                signal_named(model, name).send(task_id, value, by=by, round=form.get("round") or None)
        except TypeError as error:  # the form has lost its round
            raise HTTPException(400, for_people(error)) from None
        except ValueNotStorableError as error:
            refused: dict[str, Any] = {"problems": {"value": for_people(error)}, "code": 400, "verb": f"signal {name}"}
            return self._views.show_task(request, task_id, given=form.get("value", ""), **refused)
        except (TrackerError, *_OF_DYNAMODB) as error:
            _audit(by, "signal", **about, refused=for_people(error))
            raise
        _audit(by, "signal", **about)
        return page.redirect(request, model, "task", id=task_id, done="signal")

    async def pause(self, request: Request) -> Response:
        """Pause a step for everybody, or resume it."""
        return await run_in_threadpool(self._pause, request, await read_form(request))

    def _pause(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        verb, step, reason = form.get("verb", ""), step_named(model, form.get("step")), form.get("reason", "").strip()
        if verb not in OF_STEPS:
            raise HTTPException(400, "A step can be paused or resumed here, nothing else.")
        page.check_allowed(request, verb, model, step=step.name)
        try:
            end = None if verb == "resume" else _end_of_pause(form)
        except FieldError as error:
            return self._views.show_overview(
                request,
                problems={error.field: str(error)},
                code=400,
                given={name: form.get(name, "") for name in ("step", "until", "reason")},
            )
        with page.changing(model):
            if verb == "resume":
                step.resume(by=who(request))
            else:
                step.pause(until=end, reason=reason, by=who(request))
        about = {"use_case": model.tracker.use_case.name, "step": step.name, **({"reason": reason} if reason else {})}
        _audit(who(request), verb, **about)
        return page.redirect(request, model)

    async def count(self, request: Request) -> Response:
        """Count all tasks of a use case; this is a POST because it reads the whole index, which no link should do."""
        return await run_in_threadpool(self._count, request)

    def _count(self, request: Request) -> Response:
        page, model = self._page, self._page.model(request)

        def count() -> tuple[Mapping[State[Any], int], timedelta]:
            began = time.monotonic()
            return model.counts(), timedelta(seconds=time.monotonic() - began)

        # The most expensive view: a second click must not double it.
        answer = page.kept(request, [model], "count", count)
        counts, took = answer.value
        history = page.histories[model.__name__]
        history.add(answer.time, counts)
        change = history.change
        return page.show(request, "count.html", model=model, counts=counts, answer=answer, took=took, change=change)


def _limit_in(form: Form, name: str) -> int | None:
    """Return a number that somebody wrote to limit a decision; None for nothing, which is no limit."""
    number = whole_number(form, name, 0, _MOST_DONE)
    if form.get(name) and not number:
        raise FieldError(name, "Write a number from 1, or nothing for all.")
    return number or None


def _value_of(text: str) -> Any:
    """Return the value that somebody wrote: JSON, or else the text itself."""
    try:
        return exact_json.with_floats(exact_json.loads(text))
    except (ValueError, RecursionError):
        return text


def _end_of_pause(form: Form) -> datetime | None:
    """Return until when a form pauses a step; None if that is until somebody resumes it."""
    if not form.get("reason", "").strip():
        raise FieldError("reason", "Write a reason: the pause is shown with it.")
    try:
        end = end_of_pause(form.get("until", "").strip())
    except ValueError as error:
        raise FieldError("until", error) from None
    if end <= clock.now():
        raise FieldError("until", "This is over already: write a time in the future.")
    return None if end == clock.NEVER else end


def _check_state(verb: str, what: Filter) -> None:
    """Refuse what would read all tasks of a state, change none, and call them changed."""
    if what.state.status not in _CHANGED.get(verb, ()):
        raise HTTPException(400, f"To {verb} a task that is {what.state} changes nothing.")


@dataclass(slots=True)
class _Progress:
    """How far a decision is, as the form of the next slice has it, and how many tasks it is about at most."""

    done: int
    refused: int
    at_once: int
    first: int | None

    @classmethod
    def of(cls, form: Form) -> _Progress:
        """Read it from a form."""
        done, refused, at_once = (whole_number(form, name, 0, _MOST_DONE) for name in ("done", "refused", "at_once"))
        return cls(done, refused, at_once, _limit_in(form, "first"))

    @property
    def left(self) -> int | None:
        """How many more tasks it is about; None for all of them."""
        return None if self.first is None else max(self.first - self.done - self.refused, 0)


def _next_slice(decision: Decision, what: Filter, cursor: str | None, progress: _Progress, begin: datetime) -> Slices:
    """Change tasks from the cursor on, for some seconds; with a rate, they become due from `begin` on."""
    examples: dict[str, str] = {}
    ends = time.monotonic() + SLICE_SECONDS
    while True:
        left = progress.left
        found = listing.find(what, cursor, limit=SLICE if left is None else min(left, SLICE))
        task_ids = [entry.task_id for entry in found.entries][:left]
        outcome = decision.carry_out(task_ids, begin, progress.done)
        progress.done += len(task_ids) - len(outcome.refused)
        progress.refused += len(outcome.refused)
        progress.at_once += outcome.at_once
        examples |= dict(list(outcome.refused.items())[: _EXAMPLES - len(examples)])
        cursor = None if progress.left == 0 else found.cursor
        if cursor is None or time.monotonic() > ends:
            return Slices(progress.done, progress.refused, examples, progress.at_once, cursor)
