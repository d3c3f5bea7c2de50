"""What needs people: each need with a title, details, and the views and commands that help."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.overflow import group_range_key
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import task_facts as facts
from pynamodb_tracker.presentation.children import families_of
from pynamodb_tracker.presentation.errors import NO_ERROR, ErrorGroup, ErrorGroups, error_pattern
from pynamodb_tracker.presentation.glance import MOST, Glance, StepGlance
from pynamodb_tracker.presentation.schedules import LATE_AFTER, Schedule
from pynamodb_tracker.presentation.sentence import Link, Part, Sentence, joined, sentence, strong, task_link, tasks_link
from pynamodb_tracker.presentation.steps import StepRow, count_waits, error_of, find_rows, is_set_aside, time_of
from pynamodb_tracker.presentation.text import count, span
from pynamodb_tracker.presentation.waiting import Number
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

MANY = 10  # fewer failed tasks with one cause are left to their retries
_MOST_CAUSES = 3
_MOST_GROUPS = 50
_MOST_CHILDREN = 100

# The worst first.
KINDS = ("failures", "nobody_runs", "signals", "gave_up", "blocked", "schedule", "groups", "paused")


@dataclass(frozen=True, slots=True)
class Action:
    """A view or a command that helps with a need, or both."""

    label: str
    link: Link | None
    command: Sequence[str] = ()
    verb: str = ""  # the action that `authorize` allows or denies. Empty for a view


@dataclass(frozen=True, slots=True)
class Need:
    kind: str
    model: type[Task]
    step: str | None
    tasks: Number
    since: datetime | None
    title: Sentence
    detail: Sentence
    actions: Sequence[Action] = ()
    hours: Sequence[int] = ()  # failures or successes by hour, for a chart


def find_needs(
    found: Glance, steps: Sequence[tuple[StepGlance, StepRow]], schedules: Sequence[Schedule], known: list[type[Task]]
) -> tuple[list[Need], int]:
    """Return what needs people, the worst first, and how many failed tasks will be tried again."""
    needs, retrying = list[Need](), 0
    overdue = Counter((type(each.task), each.state.step) for each in schedules if each.overdue)
    for step, row in steps:
        failures, few = _find_failures(found, step, row)
        retrying += few
        late = overdue[step.step.model, step.step.name]
        idle = [each for each in _find_idle_step(step, row) if each.tasks.tasks > late]
        needs += [*failures, *idle, *_find_signals(found, step, row), *_find_given_up(step, row), *_find_pause(row)]
    needs += [*_find_blocked(found, known), *_find_stuck_groups(found), *_find_bad_schedules(schedules)]
    needs.sort(key=lambda need: (KINDS.index(need.kind), -need.tasks.tasks))
    return needs, retrying


def _group_errors(state: State[Any], entries: Sequence[Item]) -> list[ErrorGroup[State[Any]]]:
    groups = ErrorGroups[State[Any]]()
    for entry in entries:
        groups.add(state, entry["task_id"]["S"], error_of(entry), time_of(entry))
    return groups.sorted()


def _time_part(time: datetime) -> Part:
    return Part(clock.in_words(time), time=time)


def _find_failures(found: Glance, step: StepGlance, row: StepRow) -> tuple[list[Need], int]:
    """Return a need per cause with many failed tasks, and how many other failed tasks there are."""
    of, state, more = step.step, step.step.failed, row.failed.more
    needs, few = list[Need](), 0
    for group in _group_errors(state, step.states[Status.FAILED].entries):
        if group.tasks < MANY:
            few += group.tasks
            continue
        same = [
            time_of(each)
            for each in step.oldest_failed
            if error_pattern(error_of(each), each["task_id"]["S"]) == group.pattern
        ]
        first, rate, number = min([group.first, *same]), row.failure_rate, Number(group.tasks, more)
        link, error = tasks_link(state, newest=1), Part(group.error, "code")
        title = sentence(strong(number.at_least), " failed at ", link, ": ", error)
        last = f"{' or earlier' if more else ''}, the last one {span(found.now - group.newest)} ago"
        share = f"{rate:.0%} of the attempts at {of.name} failed in 24 hours" if rate else None
        detail = joined(sentence("since ", _time_part(first), last), share)
        actions = [_reopen_action(group)]
        if of.model.tracker.obeys_control() and row.pause is None:
            pause = ("pause", of.name, "--until", "1h", "--reason", "…")
            actions.append(Action(f"Pause {of.name}…", Link(of.model, "", {"pause": of.name}), pause, "pause"))
        hours = group.spread(found.now - timedelta(hours=24), found.now, 24)
        needs.append(Need("failures", of.model, of.name, number, first, title, detail, actions, hours))
    return needs, few


def _bulk_link(verb: str, group: ErrorGroup[State[Any]]) -> Link:
    which = {"step": group.state.step, "state": group.state.status, "error": group.pattern, "exactly": 1}
    return Link(group.state.model, "bulk", {"verb": verb, **which})


def _reopen_action(group: ErrorGroup[State[Any]]) -> Action:
    text = max(group.error.replace("…", "#").split("#"), key=len).strip()
    command = ("reopen", f"{group.state.step}.{group.state.status}", "--error-contains", text)
    return Action("Reopen…", _bulk_link("reopen", group), command, "reopen")


def _verb(number: Number, one: str, many: str) -> str:
    return one if number == Number(1) else many


def _find_idle_step(step: StepGlance, row: StepRow) -> list[Need]:
    """Return a need if a step has late tasks or expired locks, and no worker with a valid lock."""
    of, passing = step.step, row.passing
    late = max(filter(None, (row.oldest, row.failed_for, row.first_expired)), default=timedelta(0))
    works = row.running.tasks > row.expired or (passing is not None and passing.succeeded[-1] and not row.expired)
    if late <= LATE_AFTER or works or row.pause is not None:
        return []
    number = row.due + (row.failed if row.failed_for else Number(0))
    title = sentence(
        "Nobody runs ",
        tasks_link(of.pending),
        ": ",
        *((strong(row.expired), f" lock{'' if row.expired == 1 else 's'} expired, ") if row.expired else ()),
        strong(number.at_least),
        f" {'is' if number.tasks == 1 else 'are'} due",
    )
    hour = None if passing is None else passing.last_success
    is_new = passing is not None and passing.failure_rate is not None and not hour
    detail = joined(
        sentence("nothing succeeded since ", _time_part(hour)) if hour else None,
        "no success was counted in 24 hours" if is_new else None,
        f"the first lock expired {span(row.first_expired)} ago" if row.first_expired else None,
        f"the first has been due for {span(row.oldest or row.failed_for or late)}" if number.tasks else None,
    )
    command = ("stuck",) if row.expired else ("list", f"{of.name}.{Status.PENDING}")
    actions, hours = [Action("Workers", Link(None, "workers"), command)], passing.succeeded if passing else ()
    number += Number(row.expired)
    return [Need("nobody_runs", of.model, of.name, number, clock.now() - late, title, detail, actions, hours)]


def _find_signals(found: Glance, step: StepGlance, row: StepRow) -> list[Need]:
    waiting: dict[str, list[Task]] = defaultdict(list)
    for task in find_rows(found, step, step.later):
        if facts.kind_of_wait(task) == "signal":
            for name in task.awaited_signals:
                waiting[name].append(task)
    needs, of = [], step.step
    for name, tasks in sorted(waiting.items()):
        number, unread = Number(len(tasks), row.waits["signal"].more), row.waits.get("not read")
        read = f", {unread.at_least} more tasks that wait or are due later were not read" if unread else ""
        first = min(tasks, key=lambda task: task.update_time)
        limits = [task.wait_until for task in tasks if task.wait_until is not None]
        link = tasks_link(of.pending, name, newest=1)
        name_of_step = f"{of.model.__name__}.{of.name}"
        wait = _verb(number, f" task of {name_of_step} waits", f" tasks of {name_of_step} wait")
        title = sentence(strong(number.at_least), wait, " for the signal ", link)
        detail = joined(
            f"the oldest for {span(found.now - first.update_time)}{read}",
            f"the first stops waiting in {span(min(limits) - found.now)}, and continues without it" if limits else None,
        )
        actions = [
            Action("Send…", Link(of.model, "task", {"id": first.task_id}), verb="signal"),
            *(
                Action(label, None, ("signal", first.task_id, name, "--value", value))
                for label, value in (facts.choices_of(of.model).get(name) or {"": "JSON"}).items()
            ),
            Action("List", link.link or Link(of.model), ("list", "--waiting")),
        ]
        needs.append(Need("signals", of.model, of.name, number, first.update_time, title, detail, actions))
    return needs


def _find_given_up(step: StepGlance, row: StepRow) -> list[Need]:
    """Return a need per frequent error of tasks that gave up, except tasks that people have set aside."""
    of, state = step.step, step.step.ignored
    entries = [each for each in step.states[Status.IGNORED].entries if not is_set_aside(each)]
    if not entries:
        return []
    groups, needs = _group_errors(state, entries), list[Need]()
    for group in groups[:_MOST_CAUSES]:
        number = Number(group.tasks, row.gave_up.more)
        link = tasks_link(state, error=group.pattern, exactly=1, newest=1)
        title = sentence(strong(number.at_least), " gave up at ", link, ": ", Part(group.error, "code"))
        detail = sentence(f"reopen or cancel {_verb(number, 'it', 'them')}")
        reopen, cancel = _reopen_action(group), Action("Cancel…", _bulk_link("cancel_task", group), (), "cancel_task")
        actions = [reopen, cancel, Action("List", link.link, ("list", *reopen.command[1:]))]
        needs.append(Need("gave_up", of.model, of.name, number, group.first, title, detail, actions))
    causes, aside = len(groups) - len(needs), row.set_aside
    more = joined(
        needs[-1].detail,
        count(causes, "more cause") if causes else None,
        f"{count(aside)} that people have set aside {'is' if aside == 1 else 'are'} not counted" if aside else None,
    )
    return [*needs[:-1], replace(needs[-1], detail=more)]


def _find_pause(row: StepRow) -> list[Need]:
    pause, of = row.pause, row.step
    if pause is None:
        return []
    until = sentence(" is paused until ", _time_part(pause.until) if pause.until else "it is resumed")
    title = sentence(tasks_link(of.pending), until, f": “{pause.reason}”")
    detail = joined(
        f"by {pause.by}, {span(clock.now() - pause.time)} ago",
        f"{row.due.at_least} due" + (f", the first for {span(row.oldest)}" if row.oldest else ""),
    )
    actions = [Action("Resume", Link(of.model), ("resume", of.name), "resume")]
    return [Need("paused", of.model, of.name, row.due, pause.time, title, detail, actions)]


def _find_blocked(found: Glance, known: Collection[type[Task]]) -> Iterator[Need]:
    """Yield a need per task that waits for a child that gave up."""
    waiting = {
        (row.task_id, row.use_case_id): (step.step, row)
        for each in found.models.values()
        for step in each.steps
        for row in find_rows(found, step, step.later)
        if row.blockers
    }
    parents = [row for _, row in waiting.values()]
    for key, family in (found.attempt("children", partial(families_of, parents, _MOST_CHILDREN)) or {}).items():
        if not family.blockers:
            continue
        step, row = waiting[key]
        child, more = family.blockers[0], len(family.blockers) - 1
        its_model = next((each for each in known if each.tracker.use_case.name == child.use_case), None)
        title = sentence(
            f"{step.model.__name__} ",
            task_link(step.model, row.task_id),
            f" is blocked by {child.use_case} ",
            Part(child.task_id) if its_model is None else task_link(its_model, child.task_id),
            f", which gave up{f', and {more} more' if more else ''}",
        )
        left = len(family.children) + family.unlisted - len(family.blockers)
        others = f"{left} other {'child is' if left == 1 else 'children are'} not done"
        detail = joined(f"{span(found.now - row.update_time)} ago", others if left > 0 else None)
        actions = [Action("Open", Link(step.model, "task", {"id": row.task_id}), ("show", row.task_id))]
        if its_model is not None:
            link = Link(its_model, "task", {"id": child.task_id})
            reopen = ("reopen", "--use-case", child.use_case, child.task_id)
            actions = [Action("Reopen child…", link, reopen, "reopen"), *actions]
        yield Need("blocked", step.model, step.name, Number(1), row.update_time, title, detail, actions)


def _find_stuck_groups(found: Glance) -> Iterator[Need]:
    """Yield a need per use case with groups in which tasks wait behind one that failed or gave up."""
    queued: dict[type[Task], Counter[str]] = {}
    for model, each in found.models.items():
        waiting = (row for step in each.steps for row in find_rows(found, step, step.later))
        queued[model] = Counter(str(row.group) for row in waiting if row.turn_due_time is not None)
    keys = {
        (group, group_range_key(model.tracker.use_case.name)): model
        for model, groups in queued.items()
        for group, _ in groups.most_common(_MOST_GROUPS)
    }
    items = found.attempt("groups", partial(found.read_items, keys)) or {}
    turns = {
        key: (stored["turn"]["S"], keys[key].tracker.use_case.name) for key, stored in items.items() if "turn" in stored
    }
    heads = found.read_rows(turns.values())
    for model, groups in queued.items():
        stuck = {
            key[0]: heads[turn]
            for key, turn in turns.items()
            if keys[key] is model and turn in heads and heads[turn].state.status in (Status.FAILED, Status.IGNORED)
        }
        if stuck:
            yield _need_of_groups(found, model, groups, stuck)


def _need_of_groups(found: Glance, model: type[Task], groups: Counter[str], stuck: Mapping[str, Task]) -> Need:
    """Return the need of groups, given their numbers of waiting tasks and the tasks that `stuck` groups wait behind."""
    is_cut = any("not read" in count_waits(found, step) for step in found.models[model].steps)
    number = Number(sum(groups[group] for group in stuck), is_cut)
    longest = max(stuck, key=lambda group: groups[group])
    queue = found.attempt("groups", partial(model.group(longest).waiting, limit=MOST)) or ()
    head, link = stuck[longest], Link(model, "group", {"name": longest})
    title = sentence(
        strong(number.at_least),
        _verb(number, f" task of {model.__name__} waits", f" tasks of {model.__name__} wait"),
        f" behind {len(stuck)} that failed or gave up",
    )
    detail = sentence(
        "the longest queue: ",
        Part(longest, link=link),
        f", {len(queue) or groups[longest]:,} behind ",
        task_link(model, head.task_id),
        f", for {span(found.now - head.update_time)}",
    )
    since = min(task.update_time for task in stuck.values())
    actions = [Action("Open group", link, ("group", longest))]
    return Need("groups", model, None, number, since, title, detail, actions)


def _find_bad_schedules(schedules: Sequence[Schedule]) -> Iterator[Need]:
    """Yield a need per schedule that is overdue or did not succeed in its last round."""
    for each in schedules:
        if not (each.needs_look or each.overdue):
            continue
        task, model, last = each.task, type(each.task), each.last_run
        title = sentence(Part(task.task_id, "strong"))
        if each.overdue:
            title = sentence(title, f" ({each.rule}) is overdue for {span(each.overdue)}")
        if each.needs_look:
            both = " and" if each.overdue else ""
            title = sentence(title, f"{both} failed: ", Part(task.last_error or NO_ERROR, "code"))
        rounds = sentence(f"last {last.outcome} at ", _time_part(last.ended)) if last else "never ran"
        link = Link(model, "task", {"id": task.task_id})
        actions = [Action("Open", link, ("show", task.task_id))]
        if facts.is_only_due_later(task):
            actions = [Action("Run now", link, ("create", task.task_id, "--merge"), "run_now"), *actions]
        actions.append(Action("Schedules", Link(model, "schedules"), ("schedules",)))
        step = task.state.step or facts.steps_of(model)[0].name
        since = last.ended if last and each.needs_look else each.due_time
        yield Need("schedule", model, step, Number(1), since, title, joined(rounds, each.next), actions)
