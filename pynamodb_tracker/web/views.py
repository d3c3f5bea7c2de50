"""The views: each answers a GET with a whole page, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pynamodb_tracker.doctor import NotExaminedError, examine
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web import listing
from pynamodb_tracker.web.cache import Answer
from pynamodb_tracker.web.errors import MOST_SAMPLED, SAMPLE, Errors, find_errors
from pynamodb_tracker.web.metering import Spent
from pynamodb_tracker.web.overview import MOST, Overview, look
from pynamodb_tracker.web.page import FILTER, VERBS, Page, filter_of, step_named, steps_of, time_of, whole_number
from pynamodb_tracker.web.task_view import HIDDEN, view, without

_MOST_IDS = 100
"""Ids that can be looked for at once."""
_MOST_SHOWN = 200
"""Tasks of a group that are shown."""
_LONGEST_ID = 1024
"""Bytes of an id; no task has a longer one."""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task that was looked for by its id."""

    model: type[Task]
    task_id: str
    state: State[Any]
    update_time: datetime | None


class Views:
    """The views of a page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def home(self, request: Request) -> Response:
        """Show a line for each use case; a single one is shown itself."""
        models = list(self._page.settings.models.values())
        if len(models) == 1:
            return self._page.redirect(request, models[0])
        spent, found = Spent(), []
        for model in models:
            answer, _ = self._overview(request, model)
            spent.add(answer.spent)
            found.append((model, answer))
        oldest = max((answer for _, answer in found), key=lambda answer: answer.age)
        return self._page.show(request, "home.html", found=found, answer=replace(oldest, spent=spent), live=True)

    def without_slash(self, request: Request) -> Response:
        """Lead to the overview of a use case."""
        return self._page.redirect(request, self._page.model(request))

    def overview(self, request: Request) -> Response:
        """Show what a use case has to do, why tasks failed, and what was done lately."""
        model = self._page.model(request)
        answer, errors = self._overview(request, model)
        return self._page.show(
            request,
            "overview.html",
            model=model,
            answer=answer,
            view=answer.value,
            errors=errors,
            most=MOST,
            live=True,
        )

    def _overview(self, request: Request, model: type[Task]) -> tuple[Answer[Overview], Errors]:
        """Return the overview and the errors of a use case, with the price of both."""
        steps = steps_of(model)
        errors = self._page.kept(request, model, "errors", partial(find_errors, steps), None, None, SAMPLE)
        found = self._page.kept(request, model, "overview", partial(look, steps, errors.value))
        spent = Spent()
        spent.add(errors.spent)
        spent.add(found.spent)
        oldest = errors if errors.age > found.age else found
        kept_for = max(errors.kept_for, found.kept_for)
        return replace(found, spent=spent, time=oldest.time, kept_for=kept_for, asked=oldest.asked), errors.value

    def errors(self, request: Request) -> Response:
        """Show the errors of a use case, or of one of its steps, in groups."""
        page, model, query = self._page, self._page.model(request), request.query_params
        name, since = query.get("step") or None, query.get("since") or None
        steps = steps_of(model) if name is None else [step_named(model, name)]
        sample = max(whole_number(query, "sample", SAMPLE, MOST_SAMPLED), 1)
        ask = partial(find_errors, steps, since=time_of(since), sample=sample)
        answer = page.kept(request, model, "errors", ask, name, since, sample)
        return page.show(
            request,
            "errors.html",
            model=model,
            answer=answer,
            errors=answer.value,
            chosen={"step": name or "", "since": since or ""},
            sample=sample,
            larger=min(4 * sample, MOST_SAMPLED),
            live=True,
        )

    def tasks(self, request: Request) -> Response:
        """Show a page of the tasks of a state."""
        page, model, query = self._page, self._page.model(request), request.query_params
        chosen = {name: query.get(name, "") for name in (*FILTER, "cursor")}
        if not chosen["step"]:
            chosen |= {"step": steps_of(model)[0].name, "state": chosen["state"] or "failed"}
        what = filter_of(model, chosen)
        if what.state.status is not None:  # a success is pending of the next step
            chosen |= {"step": what.state.step, "state": what.state.status}
        ask = partial(listing.find, what, chosen["cursor"] or None, limit=listing.PAGE)
        answer = page.kept(request, model, "tasks", ask, *chosen.values())
        return page.show(
            request,
            "tasks.html",
            model=model,
            answer=answer,
            found=answer.value,
            state=what.state,
            chosen=chosen,
            pages={name: value for name, value in chosen.items() if name != "cursor"},
            live=True,
        )

    def task(self, request: Request) -> Response:
        """Show one task."""
        page, model, query = self._page, self._page.model(request), request.query_params
        known = {each.tracker.use_case.name: each for each in page.settings.models.values()}
        with page.metered(model) as spent:
            found = view(model, query.get("id", ""), hide=page.settings.hide, known=known)
        done = VERBS.get(query.get("done", ""), "")
        return page.show(request, "task.html", model=model, spent=spent, view=found, task=found.task, done=done)

    def group(self, request: Request) -> Response:
        """Show which task of a group has the turn, what its tasks share, and which wait for their turn."""
        page, model, name = self._page, self._page.model(request), request.query_params.get("name", "")
        with page.metered(model) as spent:
            of = model.group(name)
            turn, waiting, data = of.turn, of.waiting(limit=_MOST_SHOWN + 1), of.data
        return page.show(
            request,
            "group.html",
            model=model,
            spent=spent,
            name=name,
            turn=turn,
            waiting=waiting,
            data=HIDDEN if data and "data" in page.settings.hide else without(data, page.settings.hide),
            most=_MOST_SHOWN,
        )

    def find(self, request: Request) -> Response:
        """Find tasks by their ids, one on a line, in all use cases; a single one is shown itself."""
        page = self._page
        ids = [line.strip() for line in request.query_params.get("id", "").splitlines() if line.strip()]
        ids = list(dict.fromkeys(ids))
        asked, models = ids[:_MOST_IDS], list(page.settings.models.values())
        possible = [task_id for task_id in asked if 1 <= len(task_id.encode(errors="replace")) <= _LONGEST_ID]
        found: list[FoundTask] = []
        with page.metered(*models) as spent:
            for model in models:
                found += [
                    FoundTask(model, task.task_id, task.state, readable_value(task, "update_time"))
                    for task in rows(model, possible).values()
                ]
        if len(found) == len(ids) == 1:
            return page.redirect(request, found[0].model, "task", id=found[0].task_id)
        there = {each.task_id for each in found}
        missing = [task_id for task_id in asked if task_id not in there]
        return page.show(request, "find.html", ids=ids, found=found, missing=missing, spent=spent, most=_MOST_IDS)

    def table(self, request: Request) -> Response:
        """Show what the doctor says about each table, and the steps that are declared."""
        page, found, spent = self._page, [], Spent()
        tables: dict[int, list[type[Task]]] = {}
        for model in page.settings.models.values():
            tables.setdefault(id(model.tracker.table), []).append(model)
        for first, *others in tables.values():
            try:
                answer = page.kept(request, first, "table", partial(examine, first))
                findings, problem = answer.value, ""
                spent.add(answer.spent)
            except NotExaminedError as error:
                findings, problem = [], str(error)
            found.append((first.tracker.connection().table_name, findings, problem, [first, *others]))
        return page.show(request, "table.html", found=found, spent=spent, steps_of=steps_of)
