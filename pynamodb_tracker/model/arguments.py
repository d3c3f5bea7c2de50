"""Argument checks that run before any request. Each error quotes the value and says what to write instead."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

LONGEST = timedelta(days=36_500)
"""The longest lock or retention. Much more would overflow `datetime`."""

_LONGEST_ID = 1024
_SHOWN = 200  # characters of a value in an error


def check_task_ids(method: str, task_ids: object) -> Iterator[str]:
    """Return an iterator that checks each task id as it is taken."""
    if isinstance(task_ids, str | bytes | bytearray | Mapping) or not isinstance(task_ids, Iterable):
        raise TypeError(f"{method} takes an iterable of ids, not {shown(task_ids)}")
    return map(check_task_id, task_ids)


def check_group(name: object) -> str | None:
    return None if name is None else check_key("group name", name)


def check_key(what: str, key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a {what} must be text, not {shown(key)}{_text_hint(key)}")
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the {what} {shown(key)} has a lone surrogate, which UTF-8 cannot encode") from None
    if not 1 <= length <= _LONGEST_ID:
        raise ValueError(f"a {what} has 1 to {_LONGEST_ID} bytes, not {length}: {key[:40]!r}")
    return str.__str__(key)  # an enum member becomes its text


check_task_id = partial(check_key, "task id")


def _text_hint(task_id: object) -> str:
    is_number = isinstance(task_id, int) and not isinstance(task_id, bool) and task_id.bit_length() <= _LONGEST_ID
    return f": write {str(task_id)!r}" if is_number or isinstance(task_id, UUID) else ""


def check_time(name: str, time: object) -> datetime | None:
    if time is None:
        return None
    if not isinstance(time, datetime):
        raise TypeError(f"{name} must be an aware datetime, not {shown(time)}")
    if time.tzinfo is None or time.utcoffset() is None:
        raise ValueError(f"{name}={time!r} has no time zone: add tzinfo=UTC, or write datetime.now(UTC)")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{name}={time!r} is outside the years 1 to 9999 in UTC") from None


def check_due_time(due_time: object, name: str = "due_time") -> datetime | timedelta | None:
    if due_time is None or isinstance(due_time, datetime):
        return check_time(name, due_time)
    if not isinstance(due_time, timedelta):
        raise TypeError(f"{name} must be an aware datetime, not {shown(due_time)}, or a timedelta from now")
    if not timedelta(0) <= due_time <= LONGEST:
        raise ValueError(f"{name} must be from zero to {LONGEST.days} days from now, not {due_time!r}")
    return due_time


def check_repeat(repeat: object) -> None:
    if repeat is not None and not hasattr(repeat, "to_json"):  # few programs import its class
        raise TypeError(f"repeat must be a Repeat, not {shown(repeat)}: write Repeat.cron('0 2 * * *')")


def check_new_task(
    task_id: object, due_time: object, group: object, repeat: object
) -> tuple[str, datetime | timedelta | None, str | None]:
    checked = check_task_id(task_id), check_due_time(due_time), check_group(group)
    check_repeat(repeat)
    if group is not None and repeat is not None:  # the task would give up its turn after each round
        raise ValueError(
            "a task of a group cannot repeat: let a repeating task without a group call ctx.create(..., group=...)"
        )
    return checked


def check_duration(name: str, duration: object) -> timedelta:
    if not isinstance(duration, timedelta):
        raise TypeError(f"{name} must be a timedelta, not {shown(duration)}: write timedelta(seconds=...)")
    if not timedelta(0) < duration <= LONGEST:
        raise ValueError(f"{name} must be above zero and at most {LONGEST.days} days, not {duration!r}")
    return duration


def is_async(function: object) -> bool:
    return callable(function) and any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def check_function(function: object, *, may_be_async: bool = False) -> None:
    """Refuse a function that would return before its work is done."""
    if not callable(function):
        raise TypeError(f"this takes a function of the context, not {shown(function)}")
    for called in (function, type(function).__call__):
        ended, kind, advice = "when it returns", "generator", "write return for yield"
        if inspect.isasyncgenfunction(called) and may_be_async:
            ended, kind = "once it is awaited", "async generator"
        elif inspect.isasyncgenfunction(called) or (inspect.iscoroutinefunction(called) and not may_be_async):
            kind, advice = "async", "write def, without async"
        elif not inspect.isgeneratorfunction(called):
            continue
        raise TypeError(f"this takes a function that has finished {ended}, not the {kind} {shown(function)}: {advice}")


def check_parameters(function: Callable[..., object], *names: str, may_be_async: bool = False) -> None:
    """Refuse a function that does not accept these arguments."""
    check_function(function, may_be_async=may_be_async)
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may add its own arguments
    except ValueError:  # some C functions have none
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        given = f"{getattr(function, '__name__', shown(function))}{signature}"
        raise TypeError(f"this takes a function of ({', '.join(names)}), not {given}: {error}") from None


def check_function_of_context(function: Any, *, may_be_async: bool = False) -> None:
    check_function(function, may_be_async=may_be_async)
    code = getattr(function, "__code__", None)
    if code is None or (code.co_argcount, code.co_kwonlyargcount) != (1, 0) or inspect.ismethod(function):
        check_parameters(function, "ctx", may_be_async=may_be_async)  # slow, and rarely needed


def named_as(public: str) -> Callable[[C], C]:
    """Let Python's own errors about arguments use a class's public name instead of `SyncStep`."""

    def rename(kind: C) -> C:
        for name, member in vars(kind).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not name.startswith("_"):
                function.__qualname__ = f"{public}.{name}"
                if (inner := inspect.unwrap(function)).__name__ == name:  # decorated with `written_as`
                    inner.__qualname__ = function.__qualname__
        return kind

    return rename


def written_as(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add an example to Python's own errors about arguments, which show no line of the called function.

    `{0}` stands for the called object.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            try:
                return function(*args, **options)
            except TypeError as error:
                if error.__traceback__ and error.__traceback__.tb_next is None:
                    known = _list_options(function) if "unexpected keyword" in str(error) else ""
                    error.args = (f"{error}; write {example.format(*args)}{known}",)
                raise

        return call

    return decorate


def _list_options(function: Callable[..., object]) -> str:
    parameters = inspect.signature(function).parameters.values()
    return ", with any of " + ", ".join(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, not {shown(flag)}")


def check_limit(name: str, limit: object) -> int | None:
    if limit is None:
        return None
    if type(limit) is not int:
        raise TypeError(f"{name} must be a whole number, not {shown(limit)}")
    if not 1 <= limit <= sys.maxsize:
        raise ValueError(f"{name} must be from 1 to {sys.maxsize}, not {shown(limit)}: leave it out for no limit")
    return limit


def check_threads(threads: object, name: str = "threads") -> int:
    if type(threads) is not int or threads < 1:
        raise ValueError(f"{name} must be a whole number from 1, not {shown(threads)}")
    return threads


def shown(value: object) -> str:
    """Return a value as short text for an error message. This never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the caller reports the value
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the closest known name, or an empty text."""
    import difflib  # noqa: PLC0415 - only errors need it

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_rate(name: str, rate: object) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise TypeError(f"{name} must be a number of starts per second, not {shown(rate)}")
    if not 0.001 <= rate <= 1_000_000:  # noqa: PLR2004 - also refuses NaN
        raise ValueError(f"{name} must be between 0.001 and 1,000,000 starts per second, not {rate!r}")
    return float(rate)


def check_reason(reason: object) -> str:
    if not isinstance(reason, str):
        raise TypeError(f"the reason must be text, not {shown(reason)}")
    return reason


def check_name(name: str, given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise TypeError(f"{name} must be text, not {shown(given)}")
    if not given.strip():
        raise ValueError(f"{name} is empty: leave it out")
    return given


def check_text(name: str, text: object) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be text, not {shown(text)}")
    return text
