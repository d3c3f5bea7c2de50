"""The views. Each handles a GET, returns a whole page, and changes nothing."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pynamodb_tracker.control.records import MOST_SCHEDULES
from pynamodb_tracker.doctor import NotExaminedError, examine
from pynamodb_tracker.dynamodb.limits import MAX_KEY_BYTES
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.presentation import listing
from pynamodb_tracker.presentation.errors import LARGE_SAMPLE, MOST_SAMPLED, NO_ERRORS, SAMPLE, find_errors, for_people
from pynamodb_tracker.presentation.now import Now, find_now
from pynamodb_tracker.presentation.running import MOST as MOST_RUNNING
from pynamodb_tracker.presentation.running import find_running
from pynamodb_tracker.presentation.schedules import find_schedules
from pynamodb_tracker.presentation.task_facts import is_branch, steps_of
from pynamodb_tracker.task.find_by import find_by_text
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web import fields
from pynamodb_tracker.web.cache import Answer, Spent
from pynamodb_tracker.web.page import DYNAMODB_ERRORS, VERBS, Page
from pynamodb_tracker.web.task_view import HIDDEN, sent_by_people, view, without

_DONE = {**VERBS, "cancel": "run cancelled", "signal": "sent", "nothing": "not due"}
_MOST_IDS = 100
_MOST_FOUND = 5000
_MOST_SHOWN = 200
_MOST_GROUPS = 50
_MOST_CHARACTERS = 100_000


def _find_by(model: type[Task], text: str, most: int) -> list[Task]:
    """Return the newest tasks with an attribute value such as `customer=c-7`, or none for an id."""
    try:
        index, value = find_by_text(model, text)
        return [readable(task) for task in index.query(value, newest_first=True, limit=most)]
    except ValueError:  # it is an id
        return []


class Views:
    """The page's views. With `refused`, a view shows its form again."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._last: dict[type[Task] | None, Answer[Now]] = {}  # what needed people in a use case, or in all

    def show_now(self, request: Request, **refused: Any) -> Response:
        """Show what needs people, in a use case or in all. If the table is unreachable, show the last answer."""
        page, model = self._page, self._page.model(request) if "use_case" in request.path_params else None
        problem, every = "", list(page.models.values())
        models = every if model is None else [model]
        try:
            answer = self._last[model] = page.kept(request, models, "now", partial(find_now, models, every))
        except DYNAMODB_ERRORS as error:
            if model not in self._last:
                raise
            answer, problem = self._last[model], for_people(error)
        now = answer.value
        verbs = {(each.verb, each.link.model) for need in now.needs for each in need.actions if each.verb and each.link}
        return page.show(
            request,
            "now.html",
            now=now,
            allowed={(verb, of) for verb, of in verbs if of and page.allows(request, verb, of)},
            problem=problem,
            answer=answer,
            live=not refused,
            **{"given": {"step": request.query_params.get("pause", ""), "until": "", "reason": ""}, **refused},
        )

    def without_slash(self, request: Request) -> Response:
        return self._page.redirect(request, self._page.model(request))

    def errors(self, request: Request) -> Response:
        page, model, query = self._page, self._page.model(request), request.query_params
        chosen = {name: query.get(name, "").strip() for name in ("step", "since", "like")}
        steps = [fields.step_named(model, chosen["step"])] if chosen["step"] else steps_of(model)
        usual = LARGE_SAMPLE if chosen["step"] or chosen["since"] else SAMPLE
        sample = max(fields.whole_number(query, "sample", usual, MOST_SAMPLED), 1)
        at, problems, answer, since = fields.whole_number(query, "at", 0, MOST_SAMPLED), {}, None, None
        try:
            since = fields.time_of(chosen, "since")
            ask = partial(find_errors, steps, since=since, sample=sample)
            answer = page.kept(request, [model], "errors", ask, chosen["step"] or None, chosen["since"] or None, sample)
        except fields.FieldError as error:
            problems[error.field] = str(error)
        like, errors = chosen["like"].casefold(), NO_ERRORS if answer is None else answer.value
        groups = [group for group in errors.groups if like in group.error.casefold()]
        return page.show(
            request,
            "errors.html",
            answer=answer,
            errors=replace(errors, groups=groups[at : at + _MOST_GROUPS]),
            groups=len(groups),
            at=at,
            following=at + _MOST_GROUPS if at + _MOST_GROUPS < len(groups) else None,
            chosen=chosen,
            since=since,
            sample=sample,
            larger=min(4 * sample, MOST_SAMPLED),
            problems=problems,
            code=400 if problems else 200,
            live=not problems,
        )

    def list_tasks(self, request: Request, query: Mapping[str, str] | None = None, **refused: Any) -> Response:
        query = request.query_params if query is None else query
        page, model = self._page, self._page.model(request)
        chosen = {name: query.get(name, "") for name in (*fields.FILTER, "cursor")}
        if not chosen["step"]:
            chosen |= {"step": steps_of(model)[0].name, "state": chosen["state"] or "failed"}
        state, answer = fields.state_of(model, chosen), None
        try:
            ask = partial(listing.find_page, fields.filter_of(model, chosen), chosen["cursor"] or None)
            answer = page.kept(request, [model], "tasks", ask, *chosen.values())
        except fields.FieldError as error:
            refused = {"problems": {error.field: str(error)}, "code": 400}
        if state.status is not None:  # a step's success is the next step's pending
            chosen |= {"step": state.step, "state": state.status}
        return page.show(
            request,
            "tasks.html",
            answer=answer,
            found=listing.Listing([], None, 0) if answer is None else answer.value,
            state=state,
            chosen=chosen,
            pages={name: value for name, value in chosen.items() if name != "cursor"},
            live=not refused,
            **{"selected": [], "given": {}, **refused},
        )

    def show_task(self, request: Request, task_id: str | None = None, **refused: Any) -> Response:
        query = request.query_params
        page, model = self._page, self._page.model(request)
        known = {each.tracker.use_case.name: each for each in page.models.values()}
        with page.cache.metered(model) as spent:
            task_id = query.get("id", "") if task_id is None else task_id
            found = view(model, task_id, hide=page.hide, known=known)
        return page.show(
            request,
            "task.html",
            spent=spent,
            view=found,
            task=found.task,
            done=_DONE.get(query.get("done", ""), ""),
            most_shown=None if query.get("all") else _MOST_CHARACTERS,
            sendable={
                name: choices
                for name, choices in sent_by_people(model).items()
                if name in found.awaits and page.allows(request, "signal", model, signal=name)
            },
            **{"verb": "", "given": {}, "sends": "", **refused},
        )

    def workers(self, request: Request) -> Response:
        page, name = self._page, request.query_params.get("worker", "").strip()
        models = list(page.models.values())
        answer = page.kept(request, models, "workers", partial(find_running, models, name or None), name)
        return page.show(
            request, "workers.html", answer=answer, found=answer.value, most=MOST_RUNNING, worker=name, live=True
        )

    def schedules(self, request: Request) -> Response:
        page, model = self._page, self._page.model(request)
        answer = page.kept(request, [model], "schedules", partial(find_schedules, model))
        found, is_all = answer.value
        about: dict[str, Any] = {"schedules": found, "is_all": is_all, "most": MOST_SCHEDULES}
        return page.show(request, "schedules.html", answer=answer, live=True, **about)

    def group(self, request: Request) -> Response:
        page, model, name = self._page, self._page.model(request), request.query_params.get("name", "")
        with page.cache.metered(model) as spent:
            group = model.group(name)
            turn, waiting, data = group.turn, group.waiting(limit=_MOST_SHOWN + 1), group.data
            ends = rows_to_show(model, [each for each in (turn, *waiting[:1]) if each is not None])
        return page.show(
            request,
            "group.html",
            spent=spent,
            name=name,
            turn=turn,
            holder=ends.get(turn or ""),
            waiting=waiting[:_MOST_SHOWN],
            is_all=len(waiting) <= _MOST_SHOWN,
            first=ends[waiting[0]].create_time if waiting and waiting[0] in ends else None,
            data=HIDDEN if data and "data" in page.hide else without(data, page.hide),
        )

    def find(self, request: Request) -> Response:
        """Find tasks by ids or attribute values, one per line, or a group by name. Redirect to a single result."""
        page = self._page
        lines = map(str.strip, request.query_params.get("id", "").splitlines())
        ids = list(dict.fromkeys(filter(None, lines)))
        asked, models = ids[:_MOST_IDS], list(page.models.values())
        possible = [task_id for task_id in asked if 1 <= len(task_id.encode(errors="replace")) <= MAX_KEY_BYTES]
        found: list[dict[str, Any]] = []
        cut, most = dict[str, None](), max(fields.whole_number(request.query_params, "most", _MOST_IDS, _MOST_FOUND), 1)
        with page.cache.metered(*models) as spent:
            for model in models:
                tasks = [("", task) for task in rows_to_show(model, possible).values()]
                for text in asked:
                    if text.partition("=")[0] in page.hide:
                        continue
                    matching = _find_by(model, text, most + 1)
                    cut |= {text: None} if len(matching) > most else {}
                    tasks += [(text, task) for task in matching[:most]]
                for by, task in tasks:
                    about = {"task_id": task.task_id, "state": task.state, "update_time": task.update_time}
                    found.append({"model": model, **about, "by": by})
            groups = [model for model in models if len(possible) == 1 and model.group(possible[0]).turn is not None]
        if len(ids) == 1 == len(found) + len(groups):
            if groups:
                return page.redirect(request, groups[0], "group", name=ids[0])
            return page.redirect(request, found[0]["model"], "task", id=found[0]["task_id"])
        there = {each["by"] or each["task_id"] for each in found}
        missing = [task_id for task_id in asked if task_id not in there and not groups]
        return page.show(
            request,
            "find.html",
            ids=ids,
            found=found,
            groups=groups,
            missing=missing,
            spent=spent,
            cut=list(cut),
            most=most,
            most_ids=_MOST_IDS,
            larger=min(10 * most, _MOST_FOUND),
        )

    def table(self, request: Request) -> Response:
        page, found, spent = self._page, [], Spent()
        tables: dict[int, list[type[Task]]] = {}
        for model in page.models.values():
            tables.setdefault(id(model.tracker.table), []).append(model)
        for first, *others in tables.values():
            try:
                answer = page.kept(request, [first], "table", partial(examine, first))
                findings, problem = answer.value, ""
                spent.add(answer.spent)
            except NotExaminedError as error:
                findings, problem = [], str(error)
            its_steps = {
                model: [
                    {name: getattr(step, name) for name in ("name", "number", "max_attempts", "lock_for")}
                    | {"branch": is_branch(model, step.name)}
                    for step in steps_of(model)
                ]
                for model in (first, *others)
            }
            found.append((first.tracker.connection().table_name, findings, problem, its_steps))
        return page.show(request, "table.html", found=found, spent=spent)
