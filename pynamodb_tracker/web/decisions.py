"""Handles the forms, in which people decide about selected tasks, or about all that match a filter.

Each POST changes a slice of the matching tasks. The form carries the progress, so this survives restarts, and works in
Lambda.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.signals import value_text
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import commands, exact_json, listing
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.presentation.listing import Filter
from pynamodb_tracker.presentation.times import end_of_pause, spread
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signal_named
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web import fields
from pynamodb_tracker.web.cache import Spent
from pynamodb_tracker.web.guard import who
from pynamodb_tracker.web.page import DYNAMODB_ERRORS, STEP_VERBS, VERBS, Page
from pynamodb_tracker.web.task_view import sent_by_people
from pynamodb_tracker.web.views import Views
from pynamodb_tracker.web.words import action, visible

log = logging.getLogger("pynamodb_tracker.web")

SLICE = 100  # tasks per query
SLICE_SECONDS = 8.0  # how long a POST keeps starting queries. API Gateway gives up after 30 seconds

_MOST_FORM_BYTES = 1_000_000
_MOST_FIELDS = 2000

Form = ImmutableMultiDict[str, str]


def _audit(who: str, did: str, **about: object) -> None:
    given = {name: value for name, value in about.items() if value}
    log.warning(strict_json.dumps({"who": who, "did": did, **given}))


_CHANGEABLE = {
    "reopen": (Status.FAILED, Status.IGNORED),
    "ignore": (Status.PENDING, Status.IN_PROGRESS, Status.FAILED),
    "cancel_task": (Status.PENDING, Status.FAILED, Status.IGNORED),
}
"""The actions on all tasks that match a filter, and the states that they are for."""

_RESULTS = {
    "reopen": (Status.PENDING,),
    "ignore": (Status.IGNORED,),
    "cancel": (Status.IGNORED,),
    "unlock": (Status.PENDING, Status.FAILED),
}
"""An action does not change tasks with these statuses. Others tell themselves whether they have changed a task."""

_WITHOUT_REASON = ("reopen", "run_now")
_AT_ANY_STEP = ("cancel_task", "reopen", "run_now")
"""Actions that do not themselves require a task to be at the form's step, if they are for single tasks."""

_MOST_IN_DRY_RUN = 5000
_DRY_RUN_FIELDS = ("reason", "first", "rate", "urgent", "children")
_EXAMPLES = 5
_MOST_DONE = 10**9
_UNITS = 3  # write units per task: one for the row, and two for its index entry, which moves


@dataclass(frozen=True, slots=True)
class Decision:
    verb: str
    step: BoundStep[Any]
    state: State[Any] | None  # that the form's list shows
    reason: str
    by: str
    rate: int | None  # tasks per minute
    form: Form  # its other options
    may_act_at: Callable[[str], bool]  # whether the person may do this at another step

    def carry_out(
        self, task_ids: Sequence[str], begin: datetime | None = None, done: int = 0
    ) -> tuple[int, Mapping[str, str], int]:
        """Change the tasks. Return how many changed, the refusals by task id, and how many are due despite the rate.

        With a rate, tasks become due one by one from `begin`, after the `done` ones. Raise if DynamoDB refuses all.
        """
        at_once, rows = 0, rows_to_show(self.step.model, task_ids)
        unchanged = {task_id for task_id, row in rows.items() if self._is_result(row)}
        if self.verb == "reopen" and not self.form.get("cancelled"):
            due_times = None if self.rate is None or begin is None else spread(begin, self.rate, done)
            report = self.step.reopen_many(task_ids, by=self.by, due_times=due_times, urgent=self._is_urgent)
            errors, at_once = report.refused, report.due_now
        elif self.verb == "ignore":
            errors = self.step.ignore_many(task_ids, reason=self.reason, by=self.by).refused
        else:
            errors = {}
            for task_id in task_ids:
                try:
                    unchanged |= set() if self._change_one(task_id, rows.get(task_id)) else {task_id}
                except (TrackerError, ValueError, *DYNAMODB_ERRORS) as error:
                    errors[task_id] = error
        refused = {task_id: for_people(error) for task_id, error in errors.items()}
        about = {"use_case": self.step.model.tracker.use_case.name, "step": self.step.name}
        for task_id in task_ids:
            if task_id in refused or task_id not in unchanged:
                why = {"reason": self.reason, "refused": refused.get(task_id)}
                _audit(self.by, self.verb, **about, task_id=task_id, **why)
        failures = [error for error in errors.values() if isinstance(error, DYNAMODB_ERRORS)]
        if failures and len(failures) == len(task_ids):  # the next tasks would fail, too
            raise failures[0]
        return len(set(task_ids) - unchanged - refused.keys()), refused, at_once

    def note(self, about: str, tasks: int, before: int = 0) -> None:
        did = "cancelled the run of" if self.verb == "cancel" else VERBS[self.verb]
        reason = self.reason or (f"{self.rate} a minute" if self.rate else "")
        commands.note(self.step.model, self.by, did, about, tasks, reason=reason, before=before)

    @property
    def _is_urgent(self) -> bool:
        return bool(self.form.get("urgent")) and self.step.model.tracker.use_case.urgent

    def _is_result(self, row: Task) -> bool:
        """Return whether the action does not change this task. A reopen can make a pending one urgent."""
        becomes_urgent = self.verb == "reopen" and self._is_urgent and not row.urgent
        return row.state.status in _RESULTS.get(self.verb, ()) and not becomes_urgent

    def _check_place(self, row: Task) -> None:
        """Refuse a task that has left the state that a list showed, or is at a step where the person may not act."""
        model = self.step.model
        # A task that was cancelled from this step meanwhile counts as unchanged.
        is_over = self.verb == "cancel_task" or row.state == model.cancelled
        cancelled = row.cancelled if is_over else None
        at = row.state.step if cancelled is None else row.tracker.step_named_by(cancelled.step)
        cannot = f"cannot {action(self.verb)} {model.__name__} {row.task_id!r}: it is {row.state}"
        if self.state is None:
            if at and at != self.step.name and not self.may_act_at(at):
                raise ValueError(f"{cannot}, where you may not do that")
        elif at != self.step.name or (cancelled is None and row.state != self.state):
            raise ValueError(f"{cannot}, and no longer {self.state}")

    def _change_one(self, task_id: str, row: Task | None) -> bool:
        """Change a task. Return False if this has changed nothing."""
        model, about = self.step.model, {"reason": self.reason, "by": self.by}
        if row is not None and self.verb in _AT_ANY_STEP:
            self._check_place(row)
        options = {name: bool(self.form.get(name)) for name in ("children", "even_running")}
        if self.verb == "run_now":
            return commands.run_now(row) is not None
        if self.verb == "cancel_task":
            cancelled = model.cancel(task_id, **options, **about)
            return cancelled.effect != "already_cancelled" or bool(cancelled.children)
        if self.verb == "reopen":  # a cancelled task
            model.reopen(task_id, by=self.by, urgent=self._is_urgent)
        elif self.verb == "unlock":
            self.step.unlock(task_id, fencing_token=self.form.get("fencing_token") or None, **about)
        else:
            self.step.ignore(task_id, even_running=True, even_in_group=bool(self.form.get("even_in_group")), **about)
        return True


@dataclass(slots=True)
class Slices:
    done: int
    refused: int
    at_once: int
    cursor: str | None
    examples: dict[str, str] = field(default_factory=dict)  # of refusals


async def _read_form(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Send the form URL-encoded.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_FORM_BYTES:
            raise HTTPException(413, "The form is too large: select fewer tasks.")
    try:
        text = body.decode("ascii")
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError:
        raise HTTPException(400, "The form is unreadable.") from None


def _post(
    handle: Callable[["Decisions", Request, Form], Response],
) -> Callable[["Decisions", Request], Awaitable[Response]]:
    """Turn a method that takes a form into an endpoint, which runs it in a thread."""

    @wraps(handle)
    async def endpoint(self: "Decisions", request: Request) -> Response:
        return await run_in_threadpool(handle, self, request, await _read_form(request))

    return endpoint


class Decisions:
    """The endpoints of a page's forms. The views show a refused form again."""

    def __init__(self, page: Page, views: Views) -> None:
        self._page = page
        self._views = views

    @_post
    def decide(self, request: Request, form: Form) -> Response:
        """Carry out a view's form. A refused form is shown again with its values, at the same address."""
        verb = form.get("verb", "")
        carry_out = self._pause if verb in STEP_VERBS else self._signal if verb == "signal" else self._change
        return carry_out(request, form)

    def _change(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        step = fields.step_named(model, form.get("step"))
        task_ids = list(dict.fromkeys(unquote(each, errors="strict") for each in form.getlist("task")))
        if not task_ids:
            raise HTTPException(400, "No task is selected.")
        try:
            decision = self._decision(request, model, form, step, task_ids)
        except fields.FieldError as error:
            refused = _refused(form, error)
            if form.get("state"):
                return self._views.list_tasks(request, form, selected=task_ids, **refused)
            return self._views.show_task(request, task_ids[0], **refused)
        with page.changing(model) as spent:
            changed, refused_tasks, _ = decision.carry_out(task_ids)
            decision.note(task_ids[0] if len(task_ids) == 1 else step.name, changed)
        if len(task_ids) == 1 and not refused_tasks:
            done = "nothing" if decision.verb == "run_now" and not changed else decision.verb
            return page.redirect(request, model, "task", id=task_ids[0], done=done)
        if len(task_ids) == 1 and not form.get("state"):
            problem = fields.FieldError("form", *refused_tasks.values())
            return self._views.show_task(request, task_ids[0], **_refused(form, problem, code=409))
        return page.show(
            request,
            "decided.html",
            spent=spent,
            task_ids=task_ids,
            changed=changed,
            refused=refused_tasks,
            said=VERBS[decision.verb],
            back={name: form.get(name, "") for name in fields.FILTER},
        )

    def plan(
        self, request: Request, query: Mapping[str, str] | None = None, problem: fields.FieldError | None = None
    ) -> Response:
        query = request.query_params if query is None else query
        page, model = self._page, self._page.model(request)
        verb = query.get("verb", "reopen")
        asked = fields.filter_of(model, query)
        self._check(request, verb, model, step=asked.state.step)
        _check_state(verb, asked)
        # Exclude tasks that reach the state from now on, however long the slices take.
        now = clock.now()
        what = replace(asked, until=min(asked.until or now, now), latest_due_first=False)
        with page.cache.metered(model) as spent:
            found = listing.find(what, limit=_MOST_IN_DRY_RUN, most_searched=_MOST_IN_DRY_RUN)
        return self._show_progress(
            request,
            verb,
            what,
            query,
            query.get("begin", ""),
            spent=spent,
            found=found,
            cost=Spent(writes=_UNITS * len(found.entries)),
            problems={} if problem is None else {problem.field: str(problem)},
            code=200 if problem is None else 400,
        )

    def _show_progress(
        self, request: Request, verb: str, what: Filter, query: Mapping[str, str], begin: str, **context: Any
    ) -> Response:
        given = {name: query.get(name, "") for name in _DRY_RUN_FIELDS} | {"begin": begin}
        about = {"verb": verb, "said": VERBS[verb], "what": what, "given": given}
        context = {"found": None, "slices": None, **about, **context}
        return self._page.show(request, "bulk.html", **context)

    @_post
    def bulk(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        what = fields.filter_of(model, form)
        if fields.time_of(form, "until") is None:
            raise HTTPException(400, "Start with the dry run.")
        _check_state(form.get("verb", ""), what)
        try:
            decision = self._decision(request, model, form, fields.step_named(model, what.state.step))
            begin = fields.time_of(form, "begin") or clock.now()
            done, refused, at_once = (
                fields.whole_number(form, name, 0, _MOST_DONE) for name in ("done", "refused", "at_once")
            )
            slices = Slices(done, refused, at_once, form.get("cursor") or None)
            first = _limit_in(form, "first")
        except fields.FieldError as error:
            if error.field not in _DRY_RUN_FIELDS:
                raise
            return self.plan(request, form, error)
        # If somebody waits before sending the form, the tasks must not all become due at once.
        begin = max(begin, clock.now() - timedelta(minutes=slices.done / (decision.rate or 1)))
        with page.changing(model) as spent:
            before = slices.done
            try:
                _change_slice(decision, what, slices, first, begin)
            finally:
                waits = f"waiting for {what.waits}" if what.waits else ""
                about = " ".join(each for each in (str(what.state), waits, what.error) if each)
                decision.note(about, slices.done, before)
        return self._show_progress(request, decision.verb, what, form, begin.isoformat(), spent=spent, slices=slices)

    def _decision(
        self, request: Request, model: type[Task], form: Form, step: BoundStep[Any], task_ids: Iterable[str] = ()
    ) -> Decision:
        verb, reason = form.get("verb", ""), form.get("reason", "").strip()
        self._check(request, verb, model, step=step.name, task_ids=tuple(task_ids))
        if verb not in _WITHOUT_REASON and not reason:
            raise fields.FieldError("reason", "Enter a reason, for people who look at the task later.")
        state = fields.state_of(model, form) if form.get("state") else None

        def may_act_at(name: str) -> bool:
            return self._page.allows(request, verb, model, step=name, task_ids=tuple(task_ids))

        return Decision(verb, step, state, reason, who(request), _limit_in(form, "rate"), form, may_act_at)

    def _check(self, request: Request, verb: str, model: type[Task], **about: Any) -> None:
        if verb not in VERBS:
            raise HTTPException(400, f"{visible(verb)!r} is not an action on tasks.")
        self._page.check_allowed(request, verb, model, **about)

    def _signal(self, request: Request, form: Form) -> Response:
        """Send an awaited signal to a task. Without choices, the form first shows the value again."""
        page, model = self._page, self._page.model(request)
        task_id, name, by = unquote(form.get("task", ""), errors="strict"), form.get("name", ""), who(request)
        page.check_allowed(request, "signal", model, signal=name, task_ids=(task_id,))
        about = {"use_case": model.tracker.use_case.name, "task_id": task_id, "signal": name}
        if (choices := sent_by_people(model).get(name)) is None:
            raise HTTPException(400, f"People cannot send {visible(name)} to a task of {model.__name__}.")
        try:
            value = _value_in(form, choices)
            sends = value_text(value, name, task_id)
            if not choices and form.get("sends") != sends:
                return self._views.show_task(request, task_id, verb=f"signal {name}", given=form, sends=sends)
            with page.changing(model):
                signal, of_round = signal_named(model, name), form.get("round") or None
                _, _, is_new = commands.send_signal(signal, task_id, value, by=by, of_round=of_round)
        except TypeError as error:  # the form lacks its round
            raise HTTPException(400, for_people(error)) from None
        except (fields.FieldError, ValueNotStorableError) as error:
            refused = _refused(form, fields.FieldError("value", for_people(error))) | {"verb": f"signal {name}"}
            return self._views.show_task(request, task_id, **refused)
        except (TrackerError, *DYNAMODB_ERRORS) as error:
            _audit(by, "signal", **about, refused=for_people(error))
            raise
        if is_new:
            _audit(by, "signal", **about)
        return page.redirect(request, model, "task", id=task_id, done="signal")

    def _pause(self, request: Request, form: Form) -> Response:
        page, model = self._page, self._page.model(request)
        verb, step, reason = form["verb"], fields.step_named(model, form.get("step")), form.get("reason", "").strip()
        page.check_allowed(request, verb, model, step=step.name)
        try:
            end = None if verb == "resume" else _end_of_pause(form)
        except fields.FieldError as error:
            return self._views.show_now(request, **_refused(form, error))
        with page.changing(model):
            if verb == "resume":
                is_changed = bool(commands.resume(step, who(request), reason))
            else:
                _, is_changed = commands.pause(step, end, reason, who(request))
        if is_changed:
            _audit(who(request), verb, use_case=model.tracker.use_case.name, step=step.name, reason=reason)
        return page.redirect(request, model)

    def count(self, request: Request) -> Response:
        """Count all tasks of a use case. This reads the whole index, so it is a POST that no link can trigger."""
        page, model = self._page, self._page.model(request)
        answer = page.kept(request, [model], "count", model.counts)  # expensive, so a second click must not repeat it
        took = timedelta(seconds=answer.answered - answer.asked)
        return page.show(request, "count.html", counts=answer.value, answer=answer, took=took)


def _limit_in(form: Form, name: str) -> int | None:
    number = fields.whole_number(form, name, 0, _MOST_DONE)
    if form.get(name) and not number:
        raise fields.FieldError(name, "Enter a number from 1, or leave it empty for all.")
    return number or None


def _refused(form: Form, problem: fields.FieldError, code: int = 400) -> dict[str, Any]:
    return {"problems": {problem.field: str(problem)}, "code": code, "verb": form.get("verb", ""), "given": form}


def _value_in(form: Form, choices: Mapping[str, str]) -> Any:
    if choices:
        if (choice := form.get("choice", "")) not in choices:
            raise HTTPException(400, f"Choose one of {', '.join(choices)}.")
        return exact_json.with_floats(exact_json.loads(choices[choice]))
    if not (text := form.get("value", "").strip()):
        raise fields.FieldError("value", "Enter a value. A signal cannot be taken back.")
    try:
        return exact_json.read(text)
    except ValueError as error:
        raise fields.FieldError("value", error) from None


def _end_of_pause(form: Form) -> datetime | None:
    if not form.get("reason", "").strip():
        raise fields.FieldError("reason", "Enter a reason, which is shown with the pause.")
    try:
        end = end_of_pause(form.get("until", "").strip())
    except ValueError as error:
        raise fields.FieldError("until", error) from None
    if end <= clock.now():
        raise fields.FieldError("until", "Enter a time in the future.")
    return None if end == clock.NEVER else end


def _check_state(verb: str, what: Filter) -> None:
    if what.state.status not in _CHANGEABLE.get(verb, ()):
        raise HTTPException(400, f"A task that is {what.state} cannot be {VERBS.get(verb, verb)}.")


def _change_slice(decision: Decision, what: Filter, slices: Slices, first: int | None, begin: datetime) -> None:
    """Change tasks from the cursor on for some seconds, up to `first` tasks in all slices together."""
    ends = time.monotonic() + SLICE_SECONDS
    while True:
        left = None if first is None else max(first - slices.done - slices.refused, 0)
        found = listing.find(what, slices.cursor, limit=SLICE if left is None else min(left, SLICE))
        task_ids = [entry.task_id for entry in found.entries]
        # There can be more matches than are left to change. If others have changed some, the next ones follow.
        while task_ids and left != 0:
            changed, refused, at_once = decision.carry_out(task_ids[:left], begin, slices.done)
            task_ids = [] if left is None else task_ids[left:]
            slices.done += changed
            slices.refused += len(refused)
            slices.at_once += at_once
            slices.examples |= dict(list(refused.items())[: _EXAMPLES - len(slices.examples)])
            left = None if first is None else max(first - slices.done - slices.refused, 0)
        slices.cursor = None if left == 0 else found.cursor
        if slices.cursor is None or time.monotonic() > ends:
            return
