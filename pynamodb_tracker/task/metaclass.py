"""Checks a class body, and turns it into a table or a use case with bound steps."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pynamodb.attributes import Attribute, DiscriminatorAttribute, VersionAttribute
from pynamodb.indexes import Index
from pynamodb.models import MetaModel
from pynamodb.settings import default_settings_dict, get_settings_value

from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.model.arguments import LONGEST, check_parameters, did_you_mean, shown
from pynamodb_tracker.model.results import is_reserved
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import Schema, Table, UseCase
from pynamodb_tracker.model.serialization import serialize_value
from pynamodb_tracker.model.signals import SignalName
from pynamodb_tracker.model.status import CANCELLED, END, HIGHEST, LOWEST, SPACING, Codes, Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.declared import Step
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.step.signal import Signal, signals_in
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.guarded import offered

_UNITS = ("read_capacity_units", "write_capacity_units")
_META_DEFAULTS = {"connect_timeout_seconds": 3, "read_timeout_seconds": 5, "max_pool_connections": 64}
"""PynamoDB's timeouts of 15 and 30 seconds outlast most locks and Lambda functions. It keeps only 10 connections,
and more threads would open a new one for each request."""

_PARAMETERS_OF_CREATE = frozenset(
    {"cls", "debounce", "hash_key", "merge", "range_key", "self", "until", "wait", "wait_for"}
)
"""Parameters of `create`, similar methods, and PynamoDB's constructor, which cannot name an attribute."""

_ROUND = (100, 50, 10, 5, 1)  # units of step numbers
_MOST_ATTEMPTS = 2**63 - 1
_LONGEST_SIGNAL_NAME = 64
_LONGEST_NAME = 65_535  # bytes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html


class TaskMeta(MetaModel):
    """PynamoDB's metaclass with the tracker's checks."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        base = cast("type[TaskRow] | None", next((base for base in bases if isinstance(base, TaskMeta)), None))
        model, declared = cast("type[TaskRow]", cls), _declared(cls, namespace)
        if base is None:  # Task itself
            super().__init__(name, bases, namespace, **options)
            model.tracker = Schema(model, None)
            return
        _refuse(model, _mistakes_in_names(base, declared))
        if "Meta" in namespace:
            _complete(namespace["Meta"])
        try:
            super().__init__(name, bases, namespace, **options)
        except ValueError as error:
            raise DefinitionError(f"{name}: {error}") from error
        _refuse(model, _mistakes_in_attributes(model))
        for index in model._indexes.values():  # noqa: SLF001 - PynamoDB's
            if hasattr(index, "mistakes"):  # a FindBy, which few programs import
                _refuse(model, index.mistakes(model))
        if "Meta" in namespace:
            _refuse(model, _mistakes_in_table(model, declared))
            model.tracker = Schema(model, Table(model))
        if "use_case_id" in declared:
            _declare_use_case(model, declared)
        else:
            _refuse(model, _without_use_case(model))

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            # The checks below ask a new class for each name, and a hint for them would slow down cold starts.
            has_hint = not name.startswith("_") and vars(cls).get("_bound_steps")
            hint = did_you_mean(name, dir(cls)) if has_hint else ""
            raise AttributeError(f"{cls.__name__} has no step or attribute {name!r}{hint}", name=name, obj=cls)

    def __dir__(cls) -> list[str]:
        return offered(super().__dir__())


def _declared(cls: type, namespace: dict[str, Any]) -> dict[str, Any]:
    mixins = [base for base in cls.__mro__[1:] if not isinstance(base, MetaModel) and base.__module__ != "builtins"]
    mixins = [base for base in mixins if not base.__module__.startswith("pynamodb.")]
    return {name: value for base in reversed(mixins) for name, value in vars(base).items()} | namespace


def _refuse(model: type[TaskRow], found: Iterator[str]) -> None:
    for mistake in found:
        raise DefinitionError(f"{model.__name__}{mistake}")


def _complete(meta: Any) -> None:
    if not any(hasattr(meta, name) for name in ("billing_mode", *_UNITS)):
        meta.billing_mode = "PAY_PER_REQUEST"
    for name, value in _META_DEFAULTS.items():
        if not hasattr(meta, name) and get_settings_value(name) == default_settings_dict[name]:
            setattr(meta, name, value)


def _without_use_case(model: type[TaskRow]) -> Iterator[str]:
    write = f"write use_case_id = UseCase(...) in {model.__name__}"
    if isinstance(model.use_case_id, UseCase):
        yield f" inherits the use case {model.use_case_id.name!r}, which has its own class: {write}, with another name"
    for step in _steps(model):
        yield f".{step.name} is a step, but the class lacks a use case: {write}"


def _declare_use_case(model: type[TaskRow], declared: dict[str, Any]) -> None:
    use_case = declared["use_case_id"]
    _refuse(model, _mistakes_in_use_case(model, use_case, declared))
    steps = sorted(_steps(model), key=lambda step: step.number if type(step.number) is int else 0)
    _refuse(model, _mistakes_in_steps(steps))
    signals = signals_in(model)
    _refuse(model, _mistakes_in_signals(signals))
    plain = [step for step in steps if not step.branch]
    following = [step.number for step in plain[1:]] + [END] * (1 + len(steps) - len(plain))
    codes = [
        Codes(use_case.name, step.name, step.number, after, branch=step.branch)
        for step, after in zip(steps, following, strict=True)
    ]
    table = model.tracker.table
    awaited = frozenset(each.stored_name for each in signals)
    model.tracker = Schema(model, table, use_case, codes, awaited=awaited)
    states = {code: State(model, each.step, status, code) for each in codes for code, status in each.own.items()}
    states[END] = State(model, plain[-1].name, Status.SUCCEEDED, END)
    states[CANCELLED] = State(model, "", None, CANCELLED)
    definitions = [StepDefinition(model, step, each, states) for step, each in zip(steps, codes, strict=True)]
    bound = {step.name: BoundStep(of) for step, of in zip(steps, definitions, strict=True)}
    model._bound_steps, model._states = bound, states  # noqa: SLF001 - the metaclass makes them
    for name, step in bound.items():
        setattr(model, name, step)
    for each, of in zip(steps, definitions, strict=True):
        try:
            of.also_from = of.codes_to_start_from(each.also_from)
        except ValueError as error:
            raise DefinitionError(f"{model.__name__}.{each.name}: {error}: write also_from=(ship.failed,)") from None
    table.claim(use_case.name, model)


def _steps(model: type) -> Iterator[Step]:
    found = {name: value for base in reversed(model.__mro__) for name, value in vars(base).items()}
    declared = (value._definition.declared if isinstance(value, BoundStep) else value for value in found.values())
    return (value for value in declared if isinstance(value, Step))


def _mistakes_in_names(base: type[TaskRow], declared: Mapping[str, Any]) -> Iterator[str]:
    users = base.get_attributes().keys() - base.tracker_attributes - {"data"}
    for name, value in declared.items():
        if name in (base.tracker_attributes | {"data", "tracker"}) - {"use_case_id"}:
            yield f".{name} clashes with a name in the model: choose another, such as my_{name}"
        if isinstance(value, Attribute | Signal | BoundStep | Step | Index):
            yield from _mistakes_in_name(base, name, value, is_users=name in users)


def _mistakes_in_name(base: type[TaskRow], name: str, value: object, *, is_users: bool) -> Iterator[str]:
    taken = getattr(base, name, None)
    declared = value._definition.declared if isinstance(value, BoundStep) else value
    is_step = isinstance(taken, BoundStep | Step)
    is_again = isinstance(taken, SignalName) and isinstance(value, Signal)
    if name == "use_case_id" and isinstance(value, UseCase):
        return
    if not name.isidentifier():
        yield f".{name!r} is not a valid name in Python: use letters, digits and underscores"
    elif name == "use_case_id":
        yield '.use_case_id: write use_case_id = UseCase("..."), with the name to store'
    elif isinstance(value, UseCase):
        yield f".{name}: write use_case_id = UseCase({value.name!r})"
    elif (hasattr(base, name) and not (is_step or is_users or is_again)) or (
        isinstance(value, Attribute) and name in _PARAMETERS_OF_CREATE
    ):
        yield f".{name} clashes with a name in the model: choose another, such as my_{name}"
    elif taken is not None and is_step != isinstance(value, BoundStep | Step):
        yield f".{name} is both a step and an attribute: rename one of them"
    elif isinstance(declared, Step) and declared.name != name:
        yield f".{name} and {declared.name} are one Step: write a Step(...) for each"
    elif name.startswith("_"):
        yield f".{name} starts with an underscore, like the model's names: write {name.lstrip('_') or 'value'}"


def _mistakes_in_attributes(model: type[TaskRow]) -> Iterator[str]:
    reserved = (*model.tracker_attributes, "data")
    stored: dict[str, str] = {}
    for name, attribute in sorted(model.get_attributes().items(), key=lambda pair: pair[0] not in reserved):
        if attribute.attr_name in stored:
            taken = stored[attribute.attr_name]
            yield f".{name} is stored as {attribute.attr_name!r}, and so is {taken}: write another attr_name"
        elif name not in reserved and (attribute.is_hash_key or attribute.is_range_key):
            yield f".{name} is a key, but the keys are task_id and use_case_id: leave out hash_key and range_key"
        elif not _is_stored_name(attribute.attr_name):
            yield (
                f".{name} has the attr_name {shown(attribute.attr_name)}, which cannot be stored: write one of at most "
                f"{_LONGEST_NAME:,} bytes, without [ and ]"
            )
        elif is_reserved(attribute.attr_name):
            yield f".{name} is stored as {attribute.attr_name!r}, which steps use: write another attr_name"
        elif isinstance(attribute, DiscriminatorAttribute):
            yield f".{name} is a discriminator, but the use case decides a row's class: leave it out"
        elif isinstance(attribute, VersionAttribute):
            yield f".{name} is a version, but the lock already guards the row: leave it out"
        stored[attribute.attr_name] = name
        if name not in reserved:
            yield from _mistakes_in_default(model, name, attribute)


def _is_stored_name(name: str) -> bool:
    """Return whether DynamoDB accepts a name that PynamoDB does not take for a list entry."""
    encoded = name.encode(errors="ignore")
    return name == encoded.decode() and len(encoded) <= _LONGEST_NAME and not {"[", "]"} & {*name}


def _mistakes_in_default(model: type[TaskRow], name: str, attribute: Attribute[Any]) -> Iterator[str]:
    """Yield a default that cannot be stored: loading an old row would fail after its claim."""
    default = attribute.default if attribute.default is not None else attribute.default_for_new
    is_users = not type(attribute).serialize.__module__.startswith("pynamodb.")  # it may need a network or a secret
    if default is None or callable(default) or is_users:
        return
    try:
        value = serialize_value(model, name, attribute, default)
        if value is not None:
            check(model.__name__, name, attribute, value)
    except ValueError as error:  # the library's, or an attribute's that converts its value
        yield f".{name} has a default that cannot be stored: {error}"


def _mistakes_in_table(model: type[TaskRow], declared: Mapping[str, Any]) -> Iterator[str]:
    name, margin = getattr(model.Meta, "table_name", None), getattr(model.Meta, "clock_margin", timedelta(0))
    if "use_case_id" in declared:
        yield (
            f" is a use case and has a Meta: write class AppTask(Task) with the Meta, and class "
            f"{model.__name__}(AppTask) for the use case"
        )
    if not name or not isinstance(name, str):
        yield '.Meta names no table: write table_name = "tasks"'
    if sum(getattr(model.Meta, units, None) is not None for units in _UNITS) == 1:
        yield f".Meta has only one of {' and '.join(_UNITS)}: write both, or neither for a table on demand"
    for setting in dir(model.Meta):
        if setting.startswith("dax_") or (setting == "host" and str(model.Meta.host).startswith(("dax:", "daxs:"))):
            yield f".Meta.{setting}: DAX is not supported, because its responses may be stale: leave it out"
    if not (isinstance(margin, timedelta) and timedelta(0) <= margin <= LONGEST):
        yield f".Meta.clock_margin = {margin!r}: write a timedelta of zero or more, at most {LONGEST.days} days"


def _mistakes_in_use_case(model: type[TaskRow], use_case: object, declared: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(use_case, UseCase):
        yield f".use_case_id = {use_case!r}: write use_case_id = UseCase({use_case!r})"
        return
    yield from (f": {mistake}" for mistake in use_case.mistakes())
    if not model.tracker.has_table:
        yield (
            " lacks a table: write class AppTask(Task) with class Meta: table_name = ..., and "
            f"class {model.__name__}(AppTask)"
        )
    for name, value in declared.items():
        if isinstance(value, Index):
            yield f".{name} is an index on a use case: write it in {model.tracker.table.owner.__name__}, the table"


def _mistakes_in_signals(signals: Sequence[Signal]) -> Iterator[str]:
    names = [each.stored_name for each in signals]
    for name in names:
        if not name.isidentifier() or len(name) > _LONGEST_SIGNAL_NAME:
            yield f" has Signal({shown(name)}): write letters, digits and underscores, at most {_LONGEST_SIGNAL_NAME}"
        elif names.count(name) > 1:
            yield f" stores two signals as {name!r}: give one of them another name, as in Signal({name + '_2'!r})"


def _mistakes_in_steps(steps: Sequence[Step]) -> Iterator[str]:
    if not steps:
        yield " has no step: write, for example, ship = Step(100)"
    elif [step.on_cancel for step in steps].count(True) > 1:
        yield " has two steps with on_cancel=True: choose one of them"
    elif all(step.branch for step in steps):
        yield f" has only branch steps: declare the step from which a run chooses {steps[0].name}"
    for place, step in enumerate(steps):
        number, before = step.number, steps[place - 1]
        declared = f".{step.name} = Step({shown(number)})"
        if type(number) is not int or not LOWEST <= number <= HIGHEST:
            yield f"{declared}: write a whole number from {LOWEST} to {HIGHEST}"
        if place and number - before.number < SPACING:
            yield (
                f"{declared} is {number - before.number} after {before.name} = Step({before.number}), and steps need a "
                f"gap of {SPACING}: {_other_number(steps, place)}"
            )
        if place and before.branch and not step.branch:
            yield (
                f"{declared} comes after {before.name} = Step({before.number}, branch=True), but branch steps have the "
                f"highest numbers: write {before.name} = Step(900, branch=True), if no task is stored at it yet"
            )
        yield from (f"{declared} has {mistake}" for mistake in _mistakes_in_settings(step))


def _other_number(steps: Sequence[Step], place: int) -> str:
    """Return advice for two steps that are too close: a number for the less round, probably newer one."""
    pair = (place - 1, place)
    rough = min(_unit_of(steps[new].number) for new in pair)
    inserted = [new for new in pair if _unit_of(steps[new].number) == rough]
    free = [
        f"if {steps[new].name} is the new step, write {steps[new].name} = Step({_roundest(lowest, highest)})"
        for new in inserted
        for lowest, highest in [_room(steps, new)]
        if lowest <= highest
    ]
    if free:
        return f"{', or '.join(free)}. Never renumber a step that tasks are stored with"
    beside = [steps[at] for at in (inserted[-1] - 1, inserted[-1] + 1) if 0 <= at < len(steps)]
    return (
        f"there is no room for {steps[inserted[-1]].name} beside "
        f"{' and '.join(f'{step.name} = Step({step.number})' for step in beside)}. If no task is stored yet, write "
        "100, 200, 300. Otherwise, never renumber a step, but do its work in the function of a neighbour, or in a task "
        "that ctx.create(..., wait=True) creates"
    )


def _room(steps: Sequence[Step], new: int) -> tuple[int, int]:
    lowest = steps[new - 1].number + SPACING if new else LOWEST
    last = new + 1 == len(steps)
    return lowest, min(HIGHEST, lowest + 100 - SPACING) if last else steps[new + 1].number - SPACING


def _unit_of(number: int) -> int:
    return next(unit for unit in _ROUND if number % unit == 0)


def _roundest(lowest: int, highest: int) -> int:
    """Return the roundest number within these bounds, the nearest to the middle."""
    unit = next(unit for unit in _ROUND if highest // unit * unit >= lowest)
    numbers = range(-(-lowest // unit) * unit, highest + 1, unit)
    return min(numbers, key=lambda number: abs(2 * number - lowest - highest))


def _mistakes_in_flags(step: Step) -> Iterator[str]:
    flags: dict[str, object] = {"branch": step.branch, "on_cancel": step.on_cancel}
    for name, given in flags.items():
        if not isinstance(given, bool):
            yield f"{name}={shown(given)}: write True or False"
    if step.on_cancel is True and not step.branch:
        yield "on_cancel=True: write branch=True, on_cancel=True"


def _mistakes_in_settings(step: Step) -> Iterator[str]:
    delay: object = step.retry_delay
    if type(step.max_attempts) is not int or not 1 <= step.max_attempts <= _MOST_ATTEMPTS:
        yield f"max_attempts={shown(step.max_attempts)}: write a whole number from 1 to {_MOST_ATTEMPTS}"
    times: dict[str, object] = {"lock_for": step.lock_for, "give_up_after": step.give_up_after}
    for name, given in times.items():
        is_time = isinstance(given, timedelta) and timedelta(0) < given <= LONGEST
        if not (is_time or (given is None and name == "give_up_after")):
            yield f"{name}={given!r}: write a timedelta above zero, at most {LONGEST.days} days"
    if not (delay is None or callable(delay) or (isinstance(delay, timedelta) and delay >= timedelta(0))):
        yield f"retry_delay={delay!r}: write a timedelta, or a function that takes the attempt's number and returns one"
    if not isinstance(step.give_up_on, tuple | list) or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in step.give_up_on
    ):
        yield f"give_up_on={step.give_up_on!r}: write a tuple of exception classes, (AddressUnknown,)"
    yield from _mistakes_in_flags(step)
    if step.when_ignored is not None:
        try:
            check_parameters(step.when_ignored, "task", "create")
        except TypeError as error:
            yield f"when_ignored={shown(step.when_ignored)}: {error}"
    if not isinstance(step.also_from, tuple | list):
        yield f"also_from={step.also_from!r}: write a tuple of states, (confirm_payment.failed,)"
