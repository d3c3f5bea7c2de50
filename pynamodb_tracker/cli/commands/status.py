"""`status`: how many tasks are in each state, as a table with bars."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import UseCases, location
from pynamodb_tracker.cli.tasks import held_back
from pynamodb_tracker.cli.terminal import COLOURS, console, say, say_json
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.presentation.as_json import plain
from pynamodb_tracker.presentation.children import MOST_CHECKED, Blocked, find_blocked
from pynamodb_tracker.presentation.task_facts import BRANCH, GAVE_UP, is_branch, name_of, steps_of
from pynamodb_tracker.presentation.text import age, count, escaped
from pynamodb_tracker.presentation.waiting import Number, control_of, lateness_of, limits_in_use, waiting_of
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.step.state import State, counted
from pynamodb_tracker.task.task import Task

_WIDEST, _WIDEST_IN_PIPE = 60, 40  # the longest bar at a terminal with enough room, and elsewhere

_EIGHTHS = " ▏▎▍▌▋▊▉"


@opt.for_use_cases
def status(among: UseCases, *, as_json: opt.Json = False) -> None:
    """Count the tasks in each state, for one use case or all use cases of a table.

    12 (9 wait) means that 9 of 12 pending tasks wait for signals or other tasks. Below are how long the first tasks
    have been due, how many locks have expired, and which waiting tasks an ignored one blocks, among the first 20.

    Each count reads the use case's whole index, at about one read unit per 20 to 40 tasks.
    """
    if as_json:
        say_json(plain(_build_document(among.models)))
        return
    on = console()
    for number, model in enumerate(among.models):
        for line in ([Text()] if number else []) + list(_build_lines(model, on)):
            say(line, on)


def _build_document(models: Sequence[type[Task]]) -> dict[str, Any]:
    use_cases = []
    for model in models:
        counts = counted(model)
        waits = _count_waits(model, counts)
        states = [
            {"step": state.step, "state": state.status or end_of(state.code), "code": state.code, "tasks": found.tasks}
            | ({"waiting": waits[state].tasks} if waits[state].tasks else {})
            | ({"more_waiting": True} if waits[state].more else {})
            for state, found in counts.items()
            if found.tasks or state != model.cancelled
        ]
        use_case, total = model.tracker.use_case.name, sum(found.tasks for found in counts.values())
        control, late = control_of(model), lateness_of(steps_of(model))
        optional = {
            "required": control.undeclared(model),
            "limits": [asdict(use) for use in limits_in_use(model)],
            "due_for": {f"{each.step.name}.{status}": since for each in late for status, since in each.late.items()},
            "lock_expired_for": {each.step.name: each.abandoned for each in late if each.abandoned is not None},
            "blocked": [each.as_json() for each in _find_blocked(model, waits)],
        }
        facts = {name: each for name, each in optional.items() if each}
        paused = [asdict(pause) for pause in control.in_force]
        use_cases.append({"use_case": use_case, "tasks": total, "paused": paused, **facts, "states": states})
    return {"table": models[0].Meta.table_name, "use_cases": use_cases}


def _count_waits(model: type[Task], counts: Mapping[State[Any], Any]) -> dict[State[Any], Number]:
    """Count the waiting tasks per state, with requests for tasks that may wait until a time."""
    waits = {state: Number(found.waiting) for state, found in counts.items()}
    for state, found in counts.items():
        if state.status is Status.PENDING and signals_in(model) and found.tasks > found.waiting:
            number = waiting_of(model._bound_steps[state.step])
            waits[state] = Number(max(number.tasks, found.waiting), number.more)
    return waits


def _find_blocked(model: type[Task], waits: Mapping[State[Any], Number]) -> list[Blocked]:
    """Return the blocked tasks, without a request for steps without waiting ones."""
    return find_blocked([step for step in steps_of(model) if step.pending in waits and waits[step.pending].tasks])[0]


def _build_lines(model: type[Task], on: Console) -> Iterator[Text]:
    counts = counted(model)
    if not counts[model.cancelled].tasks:
        del counts[model.cancelled]
    total = sum(found.tasks for found in counts.values())
    note = "" if model.tracker.use_case.index_succeeded else ", without succeeded ones"
    late = lateness_of(steps_of(model))
    yield Text.assemble((model.__name__, "bold"), f": {count(total)} in {location(model)}{note}")
    control = control_of(model)
    yield from held_back(control.in_force, control.undeclared(model), limits_in_use(model))
    branch = {state.step: BRANCH for state in counts if is_branch(model, state.step)}
    names = [(state.step + branch.get(state.step, ""), _word(state)) for state, found in counts.items()]
    steps, states = (max(len(each) for each in column) for column in zip(*names, strict=True))
    digits = len(f"{total:,}")
    numbers = _count_waits(model, counts)
    waits = {state: f" ({number} wait)" if number.tasks else "" for state, number in numbers.items()}
    longest = max(map(len, waits.values()))
    room = (on.width if on.is_terminal else 2 * _WIDEST_IN_PIPE) - steps - states - digits - longest - 6
    widest = max(min(room, _WIDEST if on.is_terminal else _WIDEST_IN_PIPE), 0)
    most, before = max((found.tasks for found in counts.values()), default=0), None
    for (step, name), (state, found) in zip(names, counts.items(), strict=True):
        number, style = found.tasks, COLOURS[state.status]
        bar = _draw_bar(number, most, widest, blocks=on.encoding.startswith("utf"))
        line = Text(f"{'' if step == before else step:{steps}}  ")
        line.append(f"{name:{states}}", style if number else "dim").append("  ")
        line.append(f"{number:>{digits},}", "" if number else "dim")
        line.append(f"{waits[state]:{longest}}", "dim").append("  ").append(bar, style)
        line.rstrip()
        yield line
        before = step
    if parts := [f"{view.step.name} {status} {age(since)}" for view in late for status, since in view.late.items()]:
        yield Text(f"due for: {', '.join(parts)}")
    for view in late:
        if view.expired:
            yield Text(f"{view.step.name}: {view.expired}: stuck lists them", "red")
    blocked, waits_in_all = _find_blocked(model, numbers), sum(numbers.values(), Number(0))
    for each in blocked:
        yield Text(escaped(str(each)), "red")
    if blocked and waits_in_all.tasks > MOST_CHECKED:
        yield Text(f"{MOST_CHECKED} of {waits_in_all} waiting tasks were checked")


def _word(state: State[Any]) -> str:
    if state.status is None:
        return name_of(state)
    return GAVE_UP if state.status is Status.IGNORED else str(state.status)


def _draw_bar(number: int, most: int, widest: int, *, blocks: bool) -> str:
    """Return a proportional bar, with at least one character unless the number is zero."""
    if not number or not widest:
        return ""
    if not blocks:
        return "#" * max(round(widest * number / most), 1)
    eighths = max(round(8 * widest * number / most), 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
