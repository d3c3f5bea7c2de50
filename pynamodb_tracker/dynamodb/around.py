"""Context managers from generators that do not touch their block's exception."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

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


@around
def set_variable(variable: ContextVar[V], value: V) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
