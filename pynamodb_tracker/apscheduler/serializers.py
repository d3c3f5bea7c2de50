"""How the state of a job becomes bytes in the table, and is read back."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple, Protocol


class JobKey(NamedTuple):
    """Which job the bytes belong to: no two jobs of a table have the same key."""

    store: str
    job_id: str


class Serializer(Protocol):
    """What turns the state of a job, as `Job.__getstate__` returns it, into bytes and back."""

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:
        """Return the state as bytes; raise a TypeError or a ValueError for a state that cannot be read back."""
        ...

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:
        """Return the state; any exception marks the job as unloadable in this process, and leaves it in the table."""
        ...


class PickleSerializer:
    """APScheduler's own convention: takes any argument that can be pickled.

    Anyone who may write to the table can then run code in every scheduler:
    https://docs.python.org/3/library/pickle.html
    """

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:  # noqa: ARG002 - a pickle is the same for every job
        """Return the pickled state."""
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return the state from its pickle."""
        state: dict[str, Any] = pickle.loads(stored)  # noqa: S301 - documented above
        return state
