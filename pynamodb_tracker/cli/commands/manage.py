"""`create`, `signal`, `reopen`, `ignore`, `cancel`, `unlock` and `delete`: decisions about single tasks."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import repeat
from typing import Annotated, Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CANNOT_RUN, FOUND, INTERRUPTED, CannotRunError, ids_in, refusing, step_named
from pynamodb_tracker.cli.targets import NOTHING_ASKED, THREADS, Asked, Unchanged, change_each, change_targets
from pynamodb_tracker.cli.task_files import Format, LineReader
from pynamodb_tracker.cli.terminal import say, say_id, warn
from pynamodb_tracker.exceptions import TaskLockedError, TaskNotFoundError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import check_task_id
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.commands import note, run_now, send_signal
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.presentation.task_facts import choices_of, name_of
from pynamodb_tracker.presentation.text import between, count, escaped
from pynamodb_tracker.presentation.times import spread
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signal_named
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.bulk import by_number, with_rows

_NAMED = 5

_EFFECTS = {
    "created": "",
    "merged": " (already pending, attributes unchanged)",
    "queued": " (runs again after its success)",
    "restarted": " (had succeeded, starts over)",
    "ignored": " (keeps the request until it is reopened)",
    "cancelled": " (unchanged)",
}
_EFFECTS_OF_SIGNALS = {
    "resumed": "due by this signal",
    "early": "signal stored before the task waits for it",
    "late": "signal stored after the time limit",
    "stored": "signal stored",
}

Limit = Annotated[int | None, opt.value("N", "At most this many tasks.", opt.number)]
DryRun = Annotated[bool, opt.flag("--dry-run", "Print the task ids that would be changed.")]
Urgent = Annotated[bool, opt.flag("--urgent", "Let workers take it before tasks that are not urgent.")]
Reason = Annotated[str, opt.value("TEXT", "The reason, which is kept with the task's errors.", opt.reason)]


@opt.for_use_case
def create(
    model: type[Task],
    task_id: opt.TaskId,
    values: Annotated[
        list[str] | None,
        opt.argument("NAME=VALUE", "Attributes as in a CSV file, or state, due_time, repeat and group."),
    ] = None,
    *,
    due: Annotated[
        datetime | None, opt.value("TIME", "The earliest start: 30m, 12h, 2026-01-31T12:00.", opt.later)
    ] = None,
    merge: Annotated[bool, opt.flag("--merge", "If the task exists, run it again instead.")] = False,
    urgent: Urgent = False,
) -> None:
    """Create a task with attributes of its class, as in amount=4200 or data='{"a": 1}'.

    It is pending at the first step, unless you add a state, as in state=ship.pending. --due or due_time makes it due
    later. repeat="every 1h" or repeat="cron 0 2 * * * in Europe/Berlin" sets its rule. group=NAME adds it to a group,
    which runs its tasks one at a time, in order.

    Exits with 1 if the task exists. With --merge, it runs again with the new attributes instead: after its success if
    it is running, at once if it has succeeded, and after a reopen if it is ignored. If it is pending at its first step,
    it keeps its attributes, and is due now, or at --due if that is earlier. A cancelled task does not change.
    """
    given = {"task_id": task_id} | ({} if due is None else {"due_time": due.isoformat()})
    given |= {"urgent": "yes"} if urgent else {}
    for pair in values or ():
        key, equals, text = pair.partition("=")
        if not equals or key in given:
            what = f"{key} is given twice" if equals else f"{pair!r} has no value"
            raise CannotRunError(f"{what}: write each as NAME=VALUE, as in amount=4200")
        given[key] = text
    with refusing(TypeError, ValueError):
        arguments = LineReader(model, Format.CSV, None).arguments(given)
        found = rows_to_show(model, [check_task_id(task_id)]) if merge and len(given) == 1 else {}
        if (task := run_now(found.get(task_id))) is not None:
            how = " (due now)"
            note(model, opt.person(), "made due", task_id, 1)
        elif merge:
            merged = model.create_or_merge(**arguments)
            task, how = merged.task, _EFFECTS[merged.effect]
        else:
            task, how = model.create(**arguments), ""
    say(f"{escaped(task.task_id)}: {name_of(task.state)}{how}")


@opt.for_use_case
def signal(
    model: type[Task],
    task_id: opt.TaskId,
    signal_name: Annotated[str, opt.argument("SIGNAL", "The awaited signal's name, as in paid.", opt.complete_signals)],
    *,
    value: Annotated[Any, opt.value("JSON", "The signal's value, at most 1 KB. Required.", opt.signal_value)] = None,
    key: Annotated[str | None, opt.value("TEXT", "The sender's event id, which counts only once.")] = None,
    of_round: Annotated[
        str | None, typer.Option("--round", metavar="TEXT", help="The round of a task that has started over.")
    ] = None,
    by: opt.By,
) -> None:
    """Send a signal that a task awaits, such as a payment or an approval. It makes the task due.

    A signal with choices takes no other value. Only the first signal of each name counts. Exits with 1 if a different
    one was sent before, if the task does not exist, or if it has ended or continued without the signal.
    """
    with refusing(TypeError, ValueError):
        awaited = signal_named(model, signal_name)
        choices = choices_of(model)[signal_name]
        one_of = "one of " + ", ".join(f"{each} ({label})" for label, each in choices.items())
        if value is None:
            raise CannotRunError(f"Missing option '--value': write it as JSON{f', {one_of}' if choices else ''}")
        text = exact_json.dumps(value[0])
        if choices and not any(strict_json.are_equal(text, each) for each in choices.values()):
            raise CannotRunError(f"this value is not a choice of {signal_name}: write {one_of}")
        if of_round is None and (found := model.get_task(task_id, with_data=False)).round is not None:
            raise CannotRunError(
                f"{escaped(task_id)} has started over: add --round {round_of(found)} if the signal is for this round"
            )
        task, effect, _ = send_signal(awaited, task_id, value[0], by=by, key=key, of_round=of_round)
    say(f"{escaped(task_id)}: {name_of(task.state)} ({_EFFECTS_OF_SIGNALS[effect]})")


@opt.for_use_case
def reopen(
    model: type[Task],
    targets: opt.Targets,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    error_contains: opt.ErrorContains = None,
    limit: Limit = None,
    rate: Annotated[
        float | None, opt.value("N/UNIT", "Make them due one by one within a week: 50/m.", opt.rate)
    ] = None,
    dry_run: DryRun = False,
    clear_checkpoints: Annotated[
        bool, opt.flag("--clear-checkpoints", "Repeat parts of runs that ctx.checkpoint has stored.")
    ] = False,
    urgent: Urgent = False,
    by: opt.By,
) -> None:
    """Make failed or ignored tasks pending again and due now, with all their attempts.

    Name task ids, optionally after the step that they must be at. To select tasks with --error-contains, --since,
    --until, --limit or --dry-run, name a step or a state instead, as in ship.failed. They are reopened in the order of
    their due times.

    A cancelled task is only reopened if you type its id. It is then pending at the step where it was.

    --rate spreads the due times, but not how fast workers run the tasks. It does not apply to tasks that wait for
    others or repeat. Groups keep their order.

    Exits with 1 if a task was refused. The others are reopened.
    """
    asked, statuses = Asked(since, until, error_contains, limit, dry_run), (Status.FAILED, Status.IGNORED)
    due_times: Iterable[datetime | None] = repeat(None) if rate is None else spread(clock.now(), 60 * rate)
    at_once, ended = list[str](), dict[str, tuple[Task, datetime | None]]()
    is_by_id = asked == NOTHING_ASKED and "-" not in targets
    options: dict[str, bool] = {"clear_checkpoints": clear_checkpoints, "urgent": urgent}
    with refusing(TypeError):
        model.tracker.check_urgent(urgent)
    if dry_run and rate is not None:
        _preview_rate(model, asked.found_in(model, targets, statuses)[1])
        return

    def reopen_one(of: BoundStep[Any], task: Task | None, task_id: str, due: datetime | None) -> str | None:
        if is_by_id and task is not None and task.state == model.cancelled:
            return name_of(model.reopen(task_id, by=by, due_time=due, **options).state)
        enters = task_id in ended
        reopened = of._definition.reopen(task_id, by, due, found=task if enters else None, enters=enters, **options)
        if reopened.state != of.pending:
            ended[task_id] = reopened, due
            return None
        if due is not None and reopened.due_time <= clock.now() < due:
            at_once.append(task_id)
        is_same = task is not None and task.state == of.pending and bool(task.urgent or not urgent)
        return _describe_reopened(reopened, due, is_same=is_same)

    members = ((row.task_id, row, due) for row, due in by_number(ended.values()))
    note = _note(model, by, "reopened", targets, f"{60 * rate:g} a minute" if rate else "")
    try:
        change_targets(
            model, targets, reopen_one, note, asked, statuses=statuses, given=zip(due_times), members=members
        )
    finally:
        if at_once:
            are = f"{count(len(at_once))} {'is' if len(at_once) == 1 else 'are'}"
            warn(f"{are} due at once: repeating, or pending already")


def _describe_reopened(task: Task, due: datetime | None, *, is_same: bool) -> str:
    said = name_of(task.state) + (", as before" if is_same else "")
    if task.waits_for:
        said += f", waits for {escaped(task.waits_for)}"
    elif due is not None and task.due_time > clock.now():
        said += f", due {between(task.due_time)}"
    return Unchanged(said) if is_same else said


def _preview_rate(model: type[Task], ids: Iterable[str]) -> None:
    repeats = list[bool]()
    for task_id, row in with_rows(model, iter(ids)):
        say_id(task_id)
        repeats.append(row is not None and row.repeat is not None)
    due_now = min(1 + sum(repeats), len(repeats))
    warn(f"dry run: {count(len(repeats))} would be reopened, at most {due_now:,} of them due at once")


@opt.for_use_case
def ignore(
    model: type[Task],
    targets: opt.Targets,
    *,
    since: opt.Since = None,
    until: opt.Until = None,
    error_contains: opt.ErrorContains = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    reason: Reason,
    even_running: Annotated[bool, opt.flag("--even-running", "Also running tasks.")] = False,
    even_in_group: Annotated[
        bool, opt.flag("--even-in-group", "With --even-running: also in a group, where the next task then starts.")
    ] = False,
    by: opt.By,
) -> None:
    """Ignore tasks: they do not run until they are reopened.

    Name task ids, optionally after the step that they must be at. To select tasks with --error-contains, --since,
    --until, --limit or --dry-run, name a step or a state instead, as in ship.failed.

    A running task is refused unless you add --even-running. Its worker can then record nothing more, but its work
    outside the table continues until it notices. In a group, the next task starts in the meantime, which needs
    --even-in-group, too.

    Exits with 1 if a task was refused. The others are ignored.
    """
    flags = {"even_running": even_running, "even_in_group": even_in_group}

    def ignore_one(of: BoundStep[Any], task: Task | None, task_id: str) -> str:
        try:
            state = name_of(of.ignore(task_id, reason=reason, by=by, **flags).state)
        except TaskLockedError as error:
            more = "" if getattr(error.task, "group", None) is None else " --even-in-group"
            raise TaskLockedError(f"{for_people(error)}, or add --even-running{more} to cancel its run") from None
        is_same = task is not None and task.state == of.ignored
        return Unchanged(f"{state}, as before, with its old reason") if is_same else state

    asked = Asked(since, until, error_contains, limit, dry_run)
    note = _note(model, by, "ignored", targets, reason)
    change_targets(model, targets, ignore_one, note, asked, statuses=(Status.PENDING, Status.FAILED))


@opt.for_use_case
def cancel(
    model: type[Task],
    tasks: opt.Tasks,
    *,
    children: Annotated[bool, opt.flag("--children", "Also the tasks that it waits for.")] = False,
    go_to: Annotated[str | None, opt.value("STEP", "The branch step that ends it, such as a refund.")] = None,
    even_running: Annotated[bool, opt.flag("--even-running", "Also running tasks.")] = False,
    reason: Reason,
    by: opt.By,
) -> None:
    """End tasks at any step. Only a reopen lets them start again.

    With --go-to, or if a step has on_cancel, they first go to that branch step, such as a refund.

    A running task is refused unless you add --even-running. Its worker can then record nothing more, but its work
    outside the table continues until it notices. In a group, the next task starts in the meantime.

    Exits with 1 if a task or a child was refused. The others are cancelled.
    """
    branch = None if go_to is None else step_named(model, go_to)

    def cancel_one(task_id: str) -> str:
        done = model.cancel(task_id, reason=reason, by=by, children=children, go_to=branch, even_running=even_running)
        said = name_of(done.task.state)
        said += ", as before, with its old reason" if done.effect == "already_cancelled" else ""
        said += ", its block may still run" if done.running else ""
        if done.blocked_parent:
            said += f", {' '.join(map(escaped, done.blocked_parent))} waits for it and is blocked"
        said += f", and {count(len(done.children))} that it waited for" if done.children else ""
        return Unchanged(said) if done.effect == "already_cancelled" and not done.children else said

    change_each(((task_id,) for task_id in ids_in(tasks)), cancel_one, 1, _note(model, by, "cancelled", tasks, reason))


@opt.for_use_case
def unlock(
    model: type[Task],
    targets: opt.Targets,
    *,
    reason: Reason,
    fencing_token: Annotated[
        str | None, opt.value("TOKEN", "Only if this claim has the task, as show prints it.")
    ] = None,
    worker: Annotated[
        str | None, opt.value("NAME", "Only if this worker has the task, as show and stuck name it.")
    ] = None,
    by: opt.By,
) -> None:
    """Unlock tasks of a dead worker. They become pending at once.

    Without --fencing-token and --worker, only tasks with expired locks are unlocked.

    The attempt counts. If the worker is still alive, it can record nothing more, but its work outside the table may
    happen twice. stuck --all lists all tasks in progress, with their workers.

    Exits with 1 if a task was refused. The others are unlocked.
    """

    def unlock_one(of: BoundStep[Any], task: Task | None, task_id: str) -> str:
        unlocked = of.unlock(task_id, reason=reason, fencing_token=fencing_token, worker=worker, by=by)
        state = name_of(unlocked.state)
        if task is not None and task.state in (of.pending, of.failed):
            return Unchanged(f"{state}, as before: no worker had it")
        if unlocked.attempt >= of.max_attempts:
            return f"{state}, but that was its last attempt: the next run ignores it, unless it is reopened"
        return state

    change_targets(model, targets, unlock_one, _note(model, by, "unlocked", targets, reason))


@opt.for_use_case
def delete(
    model: type[Task], tasks: opt.Tasks, *, yes: Annotated[bool, opt.flag("--yes", "Delete without asking.")] = False
) -> None:
    """Delete tasks permanently, with all their data. Tasks in progress are refused, missing ones only reported.

    Asks for confirmation first. Exits with 1 if you answer no or a task was refused. The others are deleted.
    """
    if not yes:
        _confirm(model.__name__, tasks)

    def delete_one(task_id: str) -> str:
        try:
            model.delete_task(task_id)
        except TaskNotFoundError:
            return Unchanged("not found")
        return "deleted"

    threads = THREADS if "-" in tasks else min(len(tasks), THREADS)
    note = _note(model, opt.person(), "deleted", tasks)
    change_each(((task_id,) for task_id in ids_in(tasks)), delete_one, threads, note)


def _confirm(what: str, tasks: Sequence[str]) -> None:
    if "-" in tasks or not _is_terminal():
        warn("delete asks for confirmation, but stdin is not a terminal: add --yes")
        raise typer.Exit(CANNOT_RUN)
    named = ", ".join(map(escaped, tasks[:_NAMED])) + (", ..." if len(tasks) > _NAMED else "")
    try:
        confirmed, code = typer.confirm(f"Delete {count(len(tasks))} of {what} permanently ({named})?", err=True), FOUND
    except typer.Abort as error:
        warn("")
        confirmed, code = False, FOUND if isinstance(error.__context__, EOFError) else INTERRUPTED
    if not confirmed:
        warn("nothing was deleted")
        raise typer.Exit(code)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _note(model: type[Task], by: str, did: str, words: Sequence[str], reason: str = "") -> Callable[[int], object]:
    return lambda tasks: note(model, by, did, " ".join(words), tasks, reason=reason)
