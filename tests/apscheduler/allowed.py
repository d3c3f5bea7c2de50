"""Functions of jobs, and what a module of jobs imports besides."""

from __future__ import annotations

import os
from os import system

__all__ = ["Report", "os", "report", "send", "system"]


def send(*args: object, **kwargs: object) -> None:
    """Do nothing."""


class Report:
    """A class whose method is a job."""

    def send(self) -> None:
        """Do nothing."""


report = Report()
