"""Functions of jobs, and what a module of jobs imports besides."""

from functools import lru_cache


def send(*args: object, **kwargs: object) -> None:
    """Do nothing."""


@lru_cache
def guarded() -> None:
    """Do nothing, by a decorator that must not be left out."""


class Report:
    """A class whose method is a job."""

    def send(self) -> None:
        """Do nothing."""


report = Report()
