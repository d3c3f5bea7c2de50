"""Context managers that do not touch their block's exception."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from functools import wraps
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
V = TypeVar("V")


def around(steps: Callable[P, Iterator[None]]) -> Callable[P, AbstractContextManager[None]]:
    """Make a context manager from a generator that yields once.

    Unlike contextlib, it does not set the exception's traceback, which fails for a frozen dataclass.
    """

    @wraps(steps)
    def surround(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[None]:
        return _Around(steps(*args, **kwargs))

    return surround


class _Around(AbstractContextManager[None]):
    __slots__ = ("_steps",)

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        next(self._steps, None)


class SettingVariable(AbstractContextManager[None], Generic[V]):
    """Sets a context variable for its block."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[V], value: V) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[V] = self._variable.set(self._value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._variable.reset(self._token)
