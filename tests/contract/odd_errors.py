"""Unusual exceptions, which are hard to record because of what their classes do."""

from datetime import timedelta
from typing import NoReturn

from pynamodb_tracker import RetryLater


class StrError(Exception):
    def __str__(self) -> str:
        text: str = self.args[0]()
        return text


class ReprError(Exception):
    def __repr__(self) -> NoReturn:
        raise RuntimeError


class NotesError(Exception):
    @property
    def __notes__(self) -> NoReturn:  # type: ignore[override]  # that is what is odd about it
        raise RuntimeError


class TruthError(Exception):
    def __bool__(self) -> NoReturn:
        raise RuntimeError


class EqualError(Exception):
    __hash__ = None  # type: ignore[assignment]  # that is what is odd about it

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError


class AskingError(Exception):
    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


class LyingError(Exception):
    """One that says that it is Ctrl-C."""

    __class__ = KeyboardInterrupt  # type: ignore[assignment]  # that is what is odd about it


class ClasslessError(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]  # that is what is odd about it
        raise RuntimeError


class ClosedError(Exception):
    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


class HidingGroup(ExceptionGroup[Exception]):
    exceptions = ()  # that is what is odd about it


class Nameless(type):
    __name__ = property(lambda _: 5)  # that is what is odd about it


class NamelessError(Exception, metaclass=Nameless):
    pass


class BriefRetryError(RetryLater):
    """Its author forgot to call what it derives from."""

    def __init__(self) -> None:
        pass


def said(**attributes: object) -> Exception:
    return _made(ValueError("said"), **attributes)


def later(delay: object) -> BaseException:
    return _made(RetryLater(timedelta(1), "said"), delay=delay)


def linked(depth: int, by: str) -> Exception:
    error = ValueError("first")
    for number in range(depth):
        after = ValueError(f"number {number}")
        setattr(after, by, error)
        error = after
    return error


def circle(by: str) -> Exception:
    first, second = ValueError("first"), ValueError("second")
    setattr(first, by, second)
    setattr(second, by, first)
    return first


def grouped(depth: int) -> Exception:
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("group", [error])
    return error


def named(name: str) -> Exception:
    error: Exception = type(name, (Exception,), {})("said")
    return error


def forever() -> str:
    return forever()


def _made(error: Exception, **attributes: object) -> Exception:
    vars(error).update(attributes)
    return error
