"""The connection of a table: one botocore client for all use cases on it, and quicker ones for requests in a hurry."""

from __future__ import annotations

import threading
from typing import Any

import botocore.client
import botocore.session
from botocore.config import Config
from pynamodb.connection.base import Connection

__all__ = ["SharedConnection"]

_SHORTEST = 0.5
"""Seconds below which no timeout is cut: also a finish after the end of its lock is worth an honest try."""

_TRIES_OF_SDK = {"legacy": 10, "standard": 4, "adaptive": 4}
"""How often the SDK sends a request to DynamoDB in each retry mode, where nobody set a number."""


def _name_once(session: botocore.session.Session) -> None:
    """Let clients of the session send one user agent: botocore puts its own together twice for each request.

    What it would say of the application, `AWS_SDK_UA_APP_ID`, stays in it.
    """
    known = session.get_default_client_config()
    if known is not None and known.user_agent:
        return
    app_id = session.get_config_variable("user_agent_appid")
    parts = [session.user_agent(), "pynamodb_tracker", *([f"app/{app_id}"] if app_id else [])]
    named = Config(user_agent=" ".join(parts))
    session.set_default_client_config(named if known is None else known.merge(named))


class SharedConnection(Connection):
    """PynamoDB's connection, whose client is built once however many threads ask for it first.

    Timeouts are a client's own, so what is sent shortly before the end of a lock goes by a hurried connection: one with
    the same settings, retries included, and shorter timeouts. Its client is built when it is first needed.
    """

    def __init__(self, *, like: SharedConnection | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.building: threading.RLock = like.building if like else threading.RLock()
        self._settings = settings
        self._session: botocore.session.Session | None = like.session if like else None
        self._measured: tuple[float, list[tuple[float, SharedConnection]]] | None = None

    @property
    def session(self) -> botocore.session.Session:
        """Return the session of all clients of the table: with it, a further client takes 3 ms instead of 70."""
        with self.building:
            if self._session is None:
                self._session = super().session
                _name_once(self._session)
            return self._session

    @property
    def client(self) -> botocore.client.BaseClient:
        """Return the one botocore client of the table, or of those requests that are in the same hurry."""
        with self.building:
            return super().client

    def within(self, seconds: float) -> SharedConnection:
        """Return the connection by which a request has its answer or none in that time, the SDK's tries included.

        It is this one while there is time, and the quickest where there is too little for any.
        """
        longest, hurried = self._measured or self._measure()
        if seconds >= longest or not hurried:
            return self
        return next((quick for longest, quick in hurried if seconds >= longest), hurried[-1][1])

    def _measure(self) -> tuple[float, list[tuple[float, SharedConnection]]]:
        """Find out how long a request can take; halve the timeouts as often as that leaves an honest try."""
        with self.building:
            if self._measured is not None:
                return self._measured
            config = self.client.meta.config
            tries = config.retries.get("total_max_attempts") or _TRIES_OF_SDK[config.retries["mode"]]
            connect, read, hurried = config.connect_timeout, config.read_timeout, []
            longest = tries * (connect + read)
            while max(connect, read) >= 2 * _SHORTEST:
                connect, read = (min(each, max(each / 2, _SHORTEST)) for each in (connect, read))
                timeouts = {"connect_timeout_seconds": connect, "read_timeout_seconds": read}
                hurried.append((tries * (connect + read), type(self)(like=self, **{**self._settings, **timeouts})))
            self._measured = longest, hurried
            return self._measured
