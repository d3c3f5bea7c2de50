"""What all views share: use cases, settings, cached answers, templates, static files and addresses."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import jinja2
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pynamodb_tracker import clock
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.as_json import plain
from pynamodb_tracker.presentation.schedules import LATE_AFTER
from pynamodb_tracker.presentation.task_facts import WAITS, location, steps_of
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web import charts, words
from pynamodb_tracker.web.cache import Answer, Cache, Spent
from pynamodb_tracker.web.guard import root_path, who

V = TypeVar("V")

VERBS = {
    "reopen": "reopened",
    "ignore": "ignored",
    "cancel": "cancelled",
    "cancel_task": "cancelled",
    "unlock": "unlocked",
    "run_now": "made due",
}
"""Actions on tasks, with the words for their results."""

STEP_VERBS = ("pause", "resume")

DYNAMODB_ERRORS = (PynamoDBException, BotoCoreError, ClientError)

_JSON = "application/json"
_WITH_SUFFIX = "pynamodb_tracker.json"
# All pages of a process share the templates, because it takes a tenth of a second to compile them.
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= words.FILTERS
_TEMPLATES.globals |= {"charts": charts, "Status": Status, "now": words.now, "NEVER": clock.NEVER, "WAITS": WAITS}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_ONLY_IN_HTML = frozenset({"allowed", "given", "selected", "pages", "most_shown", "sendable", "sends"})
"""Only for forms and links, so not in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """An action that somebody requests, which the `authorize` function of `dashboard` allows or denies.

    The page also asks before it shows a button. Then `step` is None, and `task_ids` is empty. It asks again before it
    changes a task that has moved on to another step.
    """

    user: str
    """The name that the `user` function returned."""
    action: str
    """On tasks: `reopen`, `ignore`, `cancel` (a run), `cancel_task`, `unlock`, `run_now` or `signal`. On a step:
    `pause` or `resume`."""
    use_case: str
    """The use case's stored name."""
    step: str | None = None
    signal: str | None = None
    """The stored name of the signal to send."""
    task_ids: tuple[str, ...] = ()
    """Empty for an action on all tasks that match a filter."""


Authorize = Callable[[ActionRequest], bool]


@dataclass(eq=False)
class Page:
    models: Mapping[str, type[Task]]  # by class name
    actions: bool
    authorize: Authorize | None
    hide: frozenset[str]
    refresh: timedelta

    def __post_init__(self) -> None:
        # Answers expire a bit before the page refreshes, so that a refresh gets new ones.
        self.cache = Cache(max(self.refresh * 0.9, timedelta(seconds=1)))
        self._location = cache(location)  # botocore takes a millisecond

    def show(
        self,
        request: Request,
        template: str,
        *,
        answer: Answer[Any] | None = None,
        spent: Spent | None = None,
        code: int = 200,
        live: bool = False,
        of_use_case: bool = True,
        **context: Any,
    ) -> Response:
        """Return a page. The footer shows the age and price of an `answer`, or only the price in `spent`."""
        url, models = partial(self.url, request), self.models
        model = models.get(request.path_params.get("use_case", "")) if of_use_case else None
        table = model or next(iter(models.values()))
        spent = answer.spent if answer is not None else spent or Spent()
        if _wants_json(request):
            age = {} if answer is None else {"as_of": answer.time, "kept_for": answer.kept_for}
            about = {"use_case": model} if model else {}
            about |= {name: each for name, each in context.items() if name not in _ONLY_IN_HTML}
            found = plain({**about, "cost": spent, "cost_of_all_views": self.cache.total, **age})
            return Response(exact_json.dumps(found, indent=2), code, media_type=_JSON)
        words.AS_OF.set(None if answer is None else answer.time)
        html = _TEMPLATES.get_template(template).render(
            url=url,
            to=None if model is None else partial(self.url, request, model),
            model=model,
            models=models,
            steps=[] if model is None else steps_of(model),
            path=request.scope["path"],
            answer=answer,
            spent=spent,
            asset=lambda name: url(path=f"static/{read_assets()[name][0]}"),
            json_path=_json_path(request),
            total=self.cache.total,
            running_since=self.cache.since,
            actions=self.actions,
            may={verb: model is not None and self.allows(request, verb, model) for verb in (*VERBS, *STEP_VERBS)},
            late_after=LATE_AFTER,
            refresh=self.refresh.total_seconds() if live else 0,
            table_name=table.Meta.table_name,
            location=self._location(table),
            is_priced=not table.tracker.table.is_in_memory,
            who=who(request),
            code=code,
            **{"problems": {}, **context},
        )
        return HTMLResponse(html, code)

    def kept(
        self, request: Request, models: Sequence[type[Task]], name: str, ask: Callable[[], V], *about: object
    ) -> Answer[V]:
        """Return a view's cached answer, or ask for a new one. `?fresh` asks sooner."""
        key = (*(model.__name__ for model in models), name, *about)
        return self.cache.get(key, models, ask, fresh="fresh" in request.query_params)

    @contextmanager
    def changing(self, model: type[Task]) -> Iterator[Spent]:
        """Yield the cost of a block that changes tasks. Drop all cached answers after it, even if it fails."""
        try:
            with self.cache.metered(model) as spent:
                yield spent
        finally:
            self.cache.forget()

    def url(self, request: Request, model: type[Task] | None = None, path: str = "", **query: object) -> str:
        """Return an address on this page, without empty query values."""
        of = "" if model is None else f"{model.__name__}/"
        text = words.query(**query)
        return f"{root_path(request)}/{of}{path}{'?' if text else ''}{text}"

    def redirect(self, request: Request, model: type[Task], path: str = "", **query: object) -> Response:
        """Send the browser to another address on this page. A JSON address leads to another JSON address."""
        url = self.url(request, model, path, **query)
        if request.scope.get(_WITH_SUFFIX):
            head, mark, rest = url.partition("?")
            url = f"{head}.json{mark}{rest}"
        return RedirectResponse(url, 303)

    def model(self, request: Request) -> type[Task]:
        model = self.models.get(request.path_params["use_case"])
        if model is None:
            raise HTTPException(404, "Use case not found on this page.")
        return model

    def allows(self, request: Request, verb: str, model: type[Task], **about: Any) -> bool:
        authorize = self.authorize
        if not self.actions or authorize is None:
            return self.actions
        asked = ActionRequest(user=who(request), action=verb, use_case=model.tracker.use_case.name, **about)
        if not isinstance(allowed := authorize(asked), bool):
            raise TypeError(f"authorize must return True or False, not {shown(allowed)}")
        return allowed

    def check_allowed(self, request: Request, verb: str, model: type[Task], **about: Any) -> None:
        if not self.actions:
            raise HTTPException(403, "This page is read-only. To change tasks here, start it with --actions.")
        if not self.allows(request, verb, model, **about):
            noun = "steps" if verb in STEP_VERBS else "tasks"
            raise HTTPException(403, f"You may not {words.action(verb)} {noun} of {model.__name__}.")


def without_suffix(scope: dict[str, Any], use_cases: Mapping[str, object]) -> dict[str, Any]:
    """Return a request's scope without `.json` at the end of the path, but with a mark that it was there."""
    path = scope["path"].removesuffix(".json")
    if path == scope["path"]:
        return scope
    return scope | {"path": path + "/" * (path.rpartition("/")[2] in use_cases), _WITH_SUFFIX: True}


def _wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return bool(request.scope.get(_WITH_SUFFIX)) or (_JSON in accepted and "text/html" not in accepted)


def _json_path(request: Request) -> str:
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    return f"{quote(path)}.json{'?' if query else ''}{query}"


@cache
def read_assets() -> dict[str, tuple[str, bytes]]:
    """Return the hashed name, which browsers can keep forever, and the content of each static file, by plain name."""
    found = {}
    for path in (Path(__file__).parent / "static").iterdir():
        content = path.read_bytes()
        found[path.name] = (f"{path.stem}.{hashlib.sha256(content).hexdigest()[:12]}{path.suffix}", content)
    return found


def serve_asset(request: Request) -> Response:
    """Return a static file. A browser must not keep it under another version's hash."""
    name = request.path_params["name"]
    suffix = f".{name.rpartition('.')[2]}"
    hashed, content = read_assets().get(f"{name.partition('.')[0]}{suffix}", ("", b""))
    if not hashed:
        raise HTTPException(404)
    headers = {"Cache-Control": "private, max-age=31536000, immutable"} if name == hashed else {}
    return Response(content, media_type=_TYPES[suffix], headers=headers)
