"""Serializers of job states: as a pickle or as JSON, and either of them signed."""

from __future__ import annotations

import hmac
import json
import math
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from apscheduler.util import ref_to_obj

from pynamodb_tracker import strict_json
from pynamodb_tracker.apscheduler.triggers import stored_time, stored_trigger, time_of, trigger_of

_MAC = 32
"""Bytes of an HMAC-SHA256."""

_SHORTEST_KEY = 32
"""Bytes: a key shorter than the hash weakens it (https://datatracker.ietf.org/doc/html/rfc2104#section-3)."""

_PLAIN = (str, bool, int, float, type(None))


class JobKey(NamedTuple):
    """Which job the bytes belong to: no two jobs of a table have the same key."""

    store: str
    job_id: str


class Serializer(Protocol):
    """Turns the state that `Job.__getstate__` returns into bytes and back."""

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:
        """Return the state as bytes. Raise a TypeError or a ValueError if it could not be read back."""
        ...

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:
        """Return the state. An exception marks the job as unloadable in this process, and leaves it in the table."""
        ...


class PickleSerializer:
    """Pickles jobs with any arguments, as APScheduler itself does.

    Anyone who may write to the table can run code in every scheduler: https://docs.python.org/3/library/pickle.html

    Examples:
        >>> serializer = PickleSerializer()
    """

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:  # noqa: ARG002 - a pickle is the same for every job
        """Return the pickled state."""
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return the state from its pickle."""
        state: dict[str, Any] = pickle.loads(stored)  # noqa: S301 - documented above
        return state


class Signed:
    """Signs the bytes of another serializer: `Signed(PickleSerializer(), key)` loads only jobs that it has signed.

    Each key has 32 random bytes or more. The first key signs, and all keys verify. To replace a key, put the new one
    first, and drop the old one once every job has been written again. The signature covers the store, the job's id and
    the bytes, and is checked before anything is deserialized. It does not encrypt, and does not detect that somebody
    put back an older version of the same job.

    Examples:
        >>> serializer = Signed(JSONSerializer(allow=["shop.jobs"]), secrets.token_bytes(32))
    """

    def __init__(self, serializer: Serializer, key: bytes, *older_keys: bytes) -> None:
        keys = (key, *older_keys)
        if not all(isinstance(each, bytes) for each in keys):
            raise TypeError("a key is bytes: secrets.token_bytes(32), kept where the schedulers read their secrets")
        if any(len(each) < _SHORTEST_KEY for each in keys):
            raise ValueError(f"a key has {_SHORTEST_KEY} bytes or more: secrets.token_bytes({_SHORTEST_KEY})")
        self._serializer, self._keys = serializer, keys

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:
        """Return the signature by the first key, and the job."""
        content = self._serializer.dumps(state, key)
        return _mac(self._keys[0], key, content) + content

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:
        """Verify the signature, then load the job. Raise a ValueError if none of the keys has signed it."""
        mac, content = stored[:_MAC], stored[_MAC:]
        if not any(hmac.compare_digest(mac, _mac(each, key, content)) for each in self._keys):
            raise ValueError(
                f"job {key.job_id!r} was not signed with any of the keys, or was changed or moved afterwards"
            )
        return self._serializer.loads(content, key)


def _mac(secret: bytes, key: JobKey, content: bytes) -> bytes:
    signed = b""
    for part in (b"pynamodb_tracker.apscheduler", key.store.encode(), key.job_id.encode(), content):
        signed += len(part).to_bytes(8, "big") + part  # so that no two jobs are signed as the same bytes
    return hmac.digest(secret, signed, "sha256")


class JSONSerializer:
    """Stores jobs as JSON, with the triggers of APScheduler, and calls only functions of the modules in `allow`.

    JSON alone would not protect you: a job names its function as text, and `os:system` is a function, too. That is why
    `allow` is required. `"shop.jobs"` allows functions that are defined in it and in modules below it, but none that it
    imports from elsewhere. Arguments are text, numbers, booleans, None, and lists and dicts of them. Others raise a
    TypeError when the job is added. Time zones need a name that `zoneinfo.ZoneInfo` takes.

    Examples:
        >>> serializer = JSONSerializer(allow=["shop.jobs"])
    """

    def __init__(self, allow: Iterable[str]) -> None:
        modules: tuple[Any, ...] = () if isinstance(allow, str) else tuple(allow)
        if not modules or not all(isinstance(each, str) and each for each in modules):
            raise ValueError(f'allow={allow!r} must list the modules of your jobs: allow=["shop.jobs"]')
        self._allow: tuple[str, ...] = modules

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:  # noqa: ARG002 - the same for every job
        """Return the job as JSON. Raise ValueError for its function, TypeError for a trigger or an argument."""
        self._check(state["func"])
        args, kwargs = list(state["args"]), dict(state["kwargs"])
        _check_plain("args", args)
        _check_plain("kwargs", kwargs)
        changed = {
            "args": args,
            "kwargs": kwargs,
            "trigger": stored_trigger(state["trigger"]),
            "next_run_time": stored_time(state["next_run_time"]),
        }
        text = strict_json.dumps({**state, **changed}, separators=(",", ":"))
        if strict_json.is_too_deep([args, kwargs], text):
            raise strict_json.too_deep("args or kwargs")
        return text.encode()

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return the job. Check its function before and after the import."""
        state: dict[str, Any] = json.loads(stored)
        self._check(state["func"])
        trigger, next_run_time = trigger_of(state["trigger"]), time_of(state["next_run_time"])
        return {**state, "args": tuple(state["args"]), "trigger": trigger, "next_run_time": next_run_time}

    def _check(self, reference: str) -> None:
        """Refuse a function of another module, even if an allowed module imports it.

        Also refuse `__wrapped__` and the like, which would bypass the decorators of a function.
        """
        module, _, path = reference.partition(":")
        if self._allows(module) and not any(name.startswith("__") for name in path.split(".")):
            defined_in = getattr(ref_to_obj(reference), "__module__", None)
            if isinstance(defined_in, str) and self._allows(defined_in):
                return
        allowed = ", ".join(self._allow)
        raise ValueError(f"{reference!r} is not a function that is defined in one of the allowed modules: {allowed}")

    def _allows(self, module: str) -> bool:
        return any(f"{module}.".startswith(f"{each}.") for each in self._allow)


def _check_plain(where: str, value: object) -> None:
    """Raise TypeError unless JSON gives back the same value, of the same types."""
    if type(value) is list:
        for number, each in enumerate(value):
            _check_plain(f"{where}[{number}]", each)
    elif type(value) is dict:
        for name, each in value.items():
            if type(name) is not str:
                raise TypeError(f"the key {name!r} of {where} is not text, and JSON has no other keys")
            _check_plain(f"{where}[{name!r}]", each)
    elif type(value) not in _PLAIN or (type(value) is float and not math.isfinite(value)):
        raise TypeError(
            f"{where} is a {type(value).__name__} that JSON would not give back as it is: use text, finite numbers, "
            "booleans, None, lists and dicts; instead of an object, pass the key by which the job finds it"
        )
