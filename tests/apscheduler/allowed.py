"""Functions of jobs, and what a module of jobs imports besides."""

import os
from functools import lru_cache
from os import system

__all__ = ["Report", "guarded", "os", "report", "send", "system"]


def send(*args: object, **kwargs: object) -> None: ...


@lru_cache
def guarded() -> None:
    """Do nothing, by a decorator that must not be left out."""


class Report:
    """A class whose method is a job."""

    def send(self) -> None: ...


report = Report()
