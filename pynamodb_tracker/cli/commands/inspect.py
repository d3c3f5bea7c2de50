"""`list`, `find`, `show`, `errors` and `stuck`: tasks by state or attribute, and single tasks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command, tasks, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import UseCases
from pynamodb_tracker.cli.terminal import styled
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model.row import Membership, membership_of, readable
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation import task_facts as facts
from pynamodb_tracker.presentation.children import MOST_CHECKED, Blocked, Family, family_of, find_blocked
from pynamodb_tracker.presentation.errors import NO_ERROR, ErrorGroup, ErrorGroups
from pynamodb_tracker.presentation.text import age, between, count, escaped, moment, stamp
from pynamodb_tracker.presentation.waiting import pause_at
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State, due_until, given_up, waiting_in
from pynamodb_tracker.task.find_by import find_by_text
from pynamodb_tracker.task.task import Task

_MOST_SEARCHED = 10_000  # tasks due later that are searched for given-up occurrences, at about 250 read units

_LABEL = 12


@opt.for_use_cases
def list_(
    among: UseCases,
    state: opt.StateOrWaiting = None,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    waiting: Annotated[bool, opt.flag("--waiting", "Only tasks that wait for others.")] = False,
    error_contains: opt.ErrorContains = None,
    latest_due: Annotated[bool, opt.flag("--latest-due", "Begin with the latest due time.")] = False,
    limit: opt.Limit = None,
    everything: opt.All = False,
    as_json: opt.Json = False,
) -> bool:
    """List the tasks in a state, in the order of their due times.

    A state is a step and a status: pending, in_progress, failed, ignored or succeeded. cancelled is a state, too. The
    column "age" shows how long a task has been in its state.

    --waiting lists pending tasks that wait for others, in all steps if you name no state. This reads all tasks that are
    due later.
    """
    most = None if everything else limit or opt.MOST_LISTED
    asked = None if most is None else most + 1
    if waiting:
        if latest_due:
            raise typer.BadParameter("it cannot be combined with --waiting", param_hint="--latest-due")
        kind: tasks.Kind = tasks.ALL_WAITING if among.are_several else tasks.WAITING
        found, is_what = _find_waiting(among, state, since, until), "waits for others"
        whose = str(among)
    elif state is None:
        raise typer.BadParameter("name a state, as in ship.failed, or add --waiting", param_hint="STEP.STATUS")
    else:
        of = among.state(state)
        kind, is_what = of.status or end_of(of.code), f"is {facts.name_of(of)}"
        whose = of.model.__name__
        most_read = None if error_contains else asked
        found = of.query(since=since, until=until, latest_due_first=latest_due, limit=most_read, with_data=False)
    like = (error_contains or "").casefold()
    found = (task for task in map(readable, found) if like in (task.last_error or "").casefold())
    none = f"{_name_none(since, until, error_contains)} of {whose} {is_what}"
    return tasks.print_tasks(found, kind, most, none, as_json=as_json)


def _name_none(*filters: object) -> str:
    return "no matching task" if any(filters) else "no task"


@opt.for_use_cases
def find(
    among: UseCases,
    what: Annotated[str, opt.argument("NAME=VALUE", "An attribute and its value, as in customer=c-7.")],
    *,
    state: Annotated[str | None, opt.value("STEP.STATUS", "Only tasks in this state.")] = None,
    since: Annotated[datetime | None, opt.value("TIME", "Only tasks created since then.", opt.moment)] = None,
    until: Annotated[datetime | None, opt.value("TIME", "Only tasks created before then.", opt.moment)] = None,
    newest: Annotated[bool, opt.flag("--newest", "Begin with the newest task.")] = False,
    limit: opt.Limit = None,
    everything: opt.All = False,
    as_json: opt.Json = False,
) -> bool:
    """Find the tasks with a value of an attribute, in any state, in the order of their creation.

    The table's class has to declare the attribute with FindBy. If --app names the table, this searches all its use
    cases. A state is a step and a status, as in ship.failed or "ship failed".
    """
    most = None if everything else limit or opt.MOST_LISTED
    model = cast("type[Task]", among.models[0].tracker.table.owner) if among.are_several else among.only
    of: State[Task] | None = None
    if state is not None:
        of = among.state(state.replace(" ", "."))
        model = of.model
    asked = None if most is None else most + 1
    with command.refusing(ValueError):
        index, value = find_by_text(model, what)
        found = index.query(value, state=of, since=since, until=until, newest_first=newest, limit=asked)
    none = f"{_name_none(since, until, state)} of {model.__name__} has {what}"
    return tasks.print_tasks(found, tasks.FOUND_BY, most, none, as_json=as_json)


def _find_waiting(among: UseCases, state: str | None, since: datetime | None, until: datetime | None) -> Iterator[Task]:
    states = [step.pending for model in among.models for step in facts.steps_of(model)]
    if state is not None:
        states = [among.state(state)]
        if states[0].status is not Status.PENDING:
            raise typer.BadParameter("only pending tasks wait for others", param_hint="--waiting")
    return chain.from_iterable(waiting_in(each, since, until) for each in states)


@opt.for_use_cases
def errors(
    among: UseCases,
    step: opt.StepOrAll = None,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    limit: Annotated[int | None, opt.value("N", "Show at most this many groups.", opt.number)] = None,
    as_json: opt.Json = False,
) -> bool:
    """Group failed and ignored tasks by their last error, the most frequent one first.

    Errors that differ only in ids, times, durations and numbers form a group, which shows # for them and … for the
    task's own id. Codes such as HTTP 503 are kept. The example is the group's newest task.

    A repeating task that gave up an occurrence is included until the next one is due. Up to 10,000 tasks that are due
    later are searched for this.

    Exits with 1 if there are any.
    """
    groups, damaged = ErrorGroups[str](), tasks.Damaged(own_too=False)
    for model, steps in among.steps(step).items():
        prefix = f"{model.tracker.use_case.name}." if among.are_several else ""
        for state, task in _find_failed(steps, since, until, damaged):
            of = f"{prefix}{facts.name_of(state)}"
            created = task.create_time if (task.attempt or 0) > 1 else None
            groups.add(of, task.task_id, task.last_error or NO_ERROR, task.update_time, created=created)
    found = groups.sorted()
    if as_json:
        terminal.say_json_array(map(_group_as_json, found[:limit]))
    elif not found:
        none = f"{_name_none(since, until)} of {among} has failed or is ignored"
        terminal.say(f"{none}{f' in {step}' if step else ''}")
    else:
        rows = (_group_row(group, with_step=not step or among.are_several) for group in found[:limit])
        terminal.print_table(("tasks", "state", "first", "newest", "example", "error"), rows)
        if limit is not None and len(found) > limit:
            terminal.warn(f"these are the first {limit:,} of {len(found):,} groups")
    return bool(found) or damaged.is_any


def _find_failed(
    steps: Sequence[BoundStep[Any]], since: datetime | None, until: datetime | None, damaged: tasks.Damaged
) -> Iterator[tuple[State[Any], Task]]:
    for state in [state for step in steps for state in (step.failed, step.ignored)]:
        for task in damaged.readable(state.query(since=since, until=until, with_data=False)):
            yield state, task
    waiting, is_all = given_up(steps[0].model, [step.name for step in steps], since, until, most=_MOST_SEARCHED)
    for task in damaged.readable(waiting):
        yield task.state, task
    if not is_all:
        terminal.warn(f"only the first {_MOST_SEARCHED:,} tasks that are due later were read")


def _group_as_json(group: ErrorGroup[str]) -> dict[str, Any]:
    found = {name: getattr(group, name) for name in ("state", "tasks", "error", "newest", "example", "first")}
    since = {} if group.since is None else {"new_since": stamp(group.since)}
    return found | {"newest": stamp(group.newest), "first": stamp(group.first)} | since


def _group_row(group: ErrorGroup[str], *, with_step: bool) -> list[terminal.Cell]:
    style = "magenta" if group.state.endswith("ignored") else "red"
    state = group.state if with_step else group.state.rpartition(".")[2]
    if state.endswith("pending"):
        state += ", gave up"
    elif state.endswith(Status.IGNORED):
        state = state.removesuffix(Status.IGNORED).replace(".", " ") + facts.GAVE_UP
    first, newest = (age(clock.now() - time) for time in (group.first, group.newest))
    since = styled(f"new, {first}", "bold red") if group.since else first
    return [f"{group.tasks:,}", styled(state, style), since, newest, styled(group.example, "bold"), group.error]


@opt.for_use_cases
def stuck(
    among: UseCases,
    step: opt.StepOrAll = None,
    *,
    everything: Annotated[bool, opt.flag("--all", "Also list tasks with a valid lock.")] = False,
    as_json: opt.Json = False,
) -> bool:
    """List tasks in progress with an expired lock, because their worker died or lost the lock.

    The step's next run takes them over, or ignores them after their last attempt. --all also lists tasks with a valid
    lock. If their worker is dead, unlock --worker frees them.

    Waiting tasks are listed, too, if an ignored task blocks them and they are among the first 20. Reopen or delete the
    ignored task.

    Exits with 1 if a lock has expired or a task is blocked.
    """
    damaged = tasks.Damaged(own_too=False)
    steps = among.steps(step)
    blocked = _find_blocked(steps.values())
    is_any_stuck = False

    def all_found() -> Iterator[tuple[BoundStep[Any], Task]]:
        nonlocal is_any_stuck
        for of in chain.from_iterable(steps.values()):
            found = of.in_progress.query(with_data=False)
            if not everything:
                found = due_until(of.in_progress, clock.now() - of.model.tracker.margin)
            for task in damaged.readable(found):
                is_stuck = facts.is_abandoned(task)
                is_any_stuck = is_any_stuck or is_stuck
                if everything or is_stuck:
                    yield of, task

    if as_json:
        in_progress = (
            facts.task_as_json(task) | {"max_attempts": of.max_attempts, "stuck": facts.is_abandoned(task)}
            for of, task in all_found()
        )
        terminal.say_json_array(chain(in_progress, (each.as_json() for each in blocked)))
    else:
        titles = ("task", "step", "attempt", "lock" if everything else "lock expired", "next run", "worker")
        rows = (_stuck_row(*each, of_several=among.are_several, in_words=everything) for each in all_found())
        if not terminal.print_table(titles, rows) and not blocked:
            is_what = "in progress" if everything else "stuck"
            terminal.say(f"no task of {among} is {is_what}{f' in {step}' if step else ''}")
        for each in blocked:
            terminal.say(f"{each.step.model.__name__} {escaped(str(each))}")
    return is_any_stuck or bool(blocked) or damaged.is_any


def _find_blocked(steps: Iterable[Sequence[BoundStep[Any]]]) -> list[Blocked]:
    checked = list(map(find_blocked, steps))
    if any(is_cut for _, is_cut in checked):
        terminal.warn(f"only the first {MOST_CHECKED} waiting tasks were checked: list --waiting lists all")
    return [each for found, _ in checked for each in found]


def _stuck_row(step: BoundStep[Any], task: Task, *, of_several: bool, in_words: bool) -> list[terminal.Cell]:
    next_run = styled("takes it over")
    if not facts.is_abandoned(task):
        next_run = styled("leaves it", "dim")
    elif (task.attempt or 0) >= step.max_attempts:
        next_run = styled("ignores it", "magenta")
    return [
        styled(task.task_id, "bold"),
        f"{step.model.tracker.use_case.name}.{step.name}" if of_several else step.name,
        f"{task.attempt} of {step.max_attempts}",
        tasks.lock_of(task) if in_words else between(task.lock_expire_time),
        next_run,
        task.worker or "",
    ]


@opt.for_use_cases
def show(among: UseCases, task_id: opt.TaskId, *, as_json: opt.Json = False) -> bool:
    """Show everything about a task: its state, what happens next, its attributes, and its failures with tracebacks.

    If --app names a table, this looks for the task in all its use cases.

    Exits with 1 if the task does not exist.
    """
    task = _read_task(among, task_id)
    found, family = facts.task_as_json(task, with_data=True), family_of(task)
    if as_json:
        failures = [asdict(each) | {"time": stamp(each.time)} for each in task.errors]
        terminal.say_json({**found, **(family.as_json() if family else {}), "errors": failures})
    else:
        on = terminal.console()
        is_of_table = among.name or among.are_several
        options = ["--app", among.app, *(["--use-case", task.use_case_id] if is_of_table else [])]
        for line in (*_list_facts(task, family, options), *_list_attributes(found), *_list_failures(task)):
            terminal.say(line, on)
    return "unread" in found


def _read_task(among: UseCases, task_id: str) -> Task:
    found = []
    for model in among.models:
        try:
            found.append(facts.read_task(model, task_id))
        except TaskNotFoundError:
            continue
        except ValueError as error:
            raise command.CannotRunError(str(error)) from None
    if not found:
        raise TaskNotFoundError(f"{among} {task_id!r} does not exist", task_id=task_id)
    if len(found) > 1:
        options = command.use_case_options(task.use_case_id for task in found)
        raise command.CannotRunError(f"{len(found)} use cases have a task {task_id!r}: add {options}")
    return found[0]


def _list_facts(task: Task, family: Family | None, options: Sequence[str]) -> Iterator[Text]:
    state = task.state
    yield Text.assemble(
        (f"{type(task).__name__} {escaped(task.task_id)}", "bold"),
        ": ",
        (escaped(facts.in_words(state)), terminal.COLOURS[state.status]),
    )
    step = getattr(type(task), state.step, None) if state.step else None
    if step is not None and not task.tracker.ends_at(state.code):
        yield _build_line("attempt", f"{task.attempt} of {step.max_attempts}")
    pause = pause_at(task)
    blocked_by = family.blocked_by if family else None
    yield _build_line("next", escaped(facts.what_comes_next(task, step, blocked_by, pause)))
    for label, line in _suggest_commands(task, step, options, is_paused=pause is not None):
        yield _build_line(label, line)
    yield _build_line("created", _format_time(task.create_time))
    yield _build_line("in its state", _format_time(task.update_time))
    if state.status in {Status.PENDING, Status.FAILED} and task.due_time != clock.NEVER:
        yield _build_line("due", _format_time(task.due_time))
    if state.status is Status.IN_PROGRESS:
        yield _build_line("lock expires", _format_time(task.lock_expire_time))
    for label, text in (*facts.relations_in_words(task), *facts.signals_in_words(task)):
        yield _build_line(label, escaped(text))
    for child in family.children if family else ():
        yield _build_line("waits for", escaped(str(child)))
    if family and family.children and family.unlisted:
        yield _build_line("waits for", f"{count(family.unlisted)} more")
    if task.worker:
        label = "held by" if state.status is Status.IN_PROGRESS else "last worker"
        yield _build_line(label, f"{escaped(task.worker)}, claim {task.fence} of this task")
    if task.expire_time is not None:
        yield _build_line("kept until", _format_time(task.expire_time))


def _suggest_commands(
    task: Task, step: BoundStep[Any] | None, options: Sequence[str], *, is_paused: bool
) -> Iterator[tuple[str, str]]:
    status = task.state.status
    if step is not None and is_paused:
        yield "to resume it", _write_command("resume", step.name, options)
        yield "to run it", _write_command("run", task.task_id, [*options, step.name])
    if membership_of(task) in {Membership.QUEUE, Membership.QUEUE_AND_OTHERS}:
        yield "who is first", _write_command("group", str(task.group), options)
    if step is not None and status is Status.IGNORED:
        yield "to reopen it", _write_command("reopen", task.task_id, options)
    elif step is not None and status is Status.IN_PROGRESS and not facts.is_abandoned(task):
        claim = ["--fencing-token", task.lock] if task.lock else []
        yield "if it died", _write_command("unlock", task.task_id, ["--reason", "its worker died", *claim, *options])


def _write_command(verb: str, task_id: str, options: Sequence[str]) -> str:
    words = [verb, *options, *(["--"] if task_id.startswith("-") else []), task_id]
    return f"pynamodb-tracker {' '.join(map(terminal.quoted, words))}"


def _format_time(time: datetime | None) -> str:
    return "?" if time is None else moment(time)  # None: it cannot be read


def _build_line(label: str, text: str) -> Text:
    return Text.assemble((f"  {escaped(label):{_LABEL}}", "dim"), "  ", text)


def _list_attributes(found: Mapping[str, Any]) -> Iterator[Text]:
    unread = found.get("unread", {})
    if found["attributes"] or unread:
        yield Text()
    for name, why in unread.items():
        yield Text.assemble(_build_line(name, ""), (f"cannot be read: {escaped(why)}", "red"))
    for name, value in found["attributes"].items():
        if isinstance(value, dict | list):
            first, *more = map(escaped, exact_json.dumps(value, indent=2, ensure_ascii=False).split("\n"))
            yield _build_line(name, "\n".join([first, *(" " * (_LABEL + 4) + line for line in more)]))
        else:
            yield _build_line(name, escaped(value if isinstance(value, str) else exact_json.dumps(value)))


def _list_failures(task: Task) -> Iterator[Text]:
    shown = ""
    for failure in task.errors:
        attempt = f", attempt {failure.attempt}" if failure.attempt and failure.type not in facts.BY_PEOPLE else ""
        times = f", {failure.count} times until" if failure.count > 1 else ":"
        by = f", by {escaped(failure.worker)}" if failure.worker else ""
        yield Text()
        yield Text.assemble((f"{escaped(failure.step)}{attempt}", "bold"), f"{times} {_format_time(failure.time)}{by}")
        is_again = failure.traceback and failure.traceback == shown
        for line in ["the same traceback"] if is_again else failure.traceback.splitlines():
            yield Text(f"  {escaped(line)}", "dim")
        shown = failure.traceback or shown
        first, *more = failure.message.split("\n")
        yield Text.assemble("  ", (f"{escaped(failure.type)}: {escaped(first)}".removesuffix(": "), "red"))
        for line in more:
            yield Text(f"  {escaped(line)}", "red")
