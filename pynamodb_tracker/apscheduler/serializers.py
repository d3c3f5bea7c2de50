"""Serializes job states as pickles or as JSON, optionally signed."""

import hmac
import json
import math
import pickle
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from apscheduler.util import ref_to_obj

from pynamodb_tracker.model import strict_json

_MAC = 32
_SHORTEST_KEY = 32  # in bytes: https://datatracker.ietf.org/doc/html/rfc2104#section-3
_PLAIN = (str, bool, int, float, type(None))


class JobKey(NamedTuple):
    """Identifies a serialized job within the table."""

    store: str
    job_id: str


class Serializer(Protocol):
    """Converts states from `Job.__getstate__` to bytes and back."""

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:
        """Return the state as bytes. Raise TypeError or ValueError if it could not be read back."""

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:
        """Return the state. After an exception, this process skips the job, which stays in the table."""


class PickleSerializer:
    """Pickles jobs with any arguments, like APScheduler itself.

    Anyone who can write to the table can run code in all schedulers: https://docs.python.org/3/library/pickle.html

    Examples:
        >>> serializer = PickleSerializer()
    """

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:  # noqa: ARG002 - a pickle does not depend on the key
        """Return the pickled state."""
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return the state from its pickle."""
        state: dict[str, Any] = pickle.loads(stored)  # noqa: S301 - the class documents the risk
        return state


class Signed:
    """Signs another serializer's jobs, and loads only signed ones.

    A signature covers the store, the job id and the bytes, and is checked before deserializing. It neither encrypts the
    job nor detects that somebody restored an older version of it.

    Args:
        serializer: Converts the jobs.
        key: Signs and verifies jobs. At least 32 random bytes.
        older_keys: Only verify jobs. To replace a key, put the new one first, and drop the old one once every job was
            written again.

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
        """Return the first key's signature and the job."""
        content = self._serializer.dumps(state, key)
        return _compute_mac(self._keys[0], key, content) + content

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:
        """Verify the signature, then load the job. Raise ValueError if no key signed it."""
        mac, content = stored[:_MAC], stored[_MAC:]
        if not any(hmac.compare_digest(mac, _compute_mac(each, key, content)) for each in self._keys):
            raise ValueError(
                f"job {key.job_id!r} was not signed with any of these keys, or was changed or moved afterwards"
            )
        return self._serializer.loads(content, key)


def _compute_mac(secret: bytes, key: JobKey, content: bytes) -> bytes:
    signed = b""
    for part in (b"pynamodb_tracker.apscheduler", key.store.encode(), key.job_id.encode(), content):
        signed += len(part).to_bytes(8, "big") + part  # so that different jobs never give the same bytes
    return hmac.digest(secret, signed, "sha256")


class JSONSerializer:
    """Stores jobs as JSON, and only calls functions from the modules in `allow`.

    JSON alone would not protect you, because a job can name any function, such as `os:system`. `"shop.jobs"` allows
    functions that this module or a module below it defines, but not the ones that it imports.

    Triggers must be APScheduler's own. Arguments may be text, numbers, booleans, None, and lists and dicts of these.
    Others raise TypeError when the job is added. Time zones need a name for `zoneinfo.ZoneInfo`.

    Examples:
        >>> serializer = JSONSerializer(allow=["shop.jobs"])
    """

    def __init__(self, allow: Iterable[str]) -> None:
        modules: tuple[Any, ...] = () if isinstance(allow, str) else tuple(allow)
        if not modules or not all(isinstance(each, str) and each for each in modules):
            raise ValueError(f'allow={allow!r} must list the modules of your jobs: allow=["shop.jobs"]')
        self._allow: tuple[str, ...] = modules

    def dumps(self, state: dict[str, Any], key: JobKey) -> bytes:  # noqa: ARG002 - the same for every job
        """Return the job as JSON. Raise ValueError for the function, TypeError for the trigger or an argument."""
        self._check(state["func"])
        args, kwargs = list(state["args"]), dict(state["kwargs"])
        _check_plain("args", args)
        _check_plain("kwargs", kwargs)
        trigger, time = _encode_trigger(state["trigger"]), _encode_time(state["next_run_time"])
        changed = {"args": args, "kwargs": kwargs, "trigger": trigger, "next_run_time": time}
        text = strict_json.dumps({**state, **changed}, separators=(",", ":"))
        if strict_json.is_too_deep([args, kwargs], text):
            raise strict_json.too_deep("args or kwargs")
        return text.encode()

    def loads(self, stored: bytes, key: JobKey) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return the job, unless its function is not allowed."""
        state: dict[str, Any] = json.loads(stored)
        self._check(state["func"])
        trigger, next_run_time = _decode_trigger(state["trigger"]), _decode_time(state["next_run_time"])
        return {**state, "args": tuple(state["args"]), "trigger": trigger, "next_run_time": next_run_time}

    def _check(self, reference: str) -> None:
        """Refuse a function from another module, and names like `__wrapped__`, which bypass decorators."""
        module, _, path = reference.partition(":")
        if self._allows(module) and not any(name.startswith("__") for name in path.split(".")):
            defined_in = getattr(ref_to_obj(reference), "__module__", None)
            if isinstance(defined_in, str) and self._allows(defined_in):
                return
        allowed = ", ".join(self._allow)
        raise ValueError(f"{reference!r} is not a function defined in one of the allowed modules: {allowed}")

    def _allows(self, module: str) -> bool:
        return any(f"{module}.".startswith(f"{each}.") for each in self._allow)


def _check_plain(where: str, value: object) -> None:
    if type(value) is list:
        for number, each in enumerate(value):
            _check_plain(f"{where}[{number}]", each)
    elif type(value) is dict:
        for name, each in value.items():
            if type(name) is not str:
                raise TypeError(f"the key {name!r} of {where} is not text, which JSON needs")
            _check_plain(f"{where}[{name!r}]", each)
    elif type(value) not in _PLAIN or (type(value) is float and not math.isfinite(value)):
        raise TypeError(
            f"{where} is a {type(value).__name__}, which JSON does not preserve: use text, finite numbers, booleans, "
            "None, lists and dicts. Instead of an object, pass the key with which the job finds it"
        )


# APScheduler's own triggers, and their times, as JSON.

_KINDS: dict[str, type[BaseTrigger]] = {
    "date": DateTrigger,
    "interval": IntervalTrigger,
    "cron": CronTrigger,
    "calendarinterval": CalendarIntervalTrigger,
    "and": AndTrigger,
    "or": OrTrigger,
}


def _encode_trigger(trigger: BaseTrigger) -> dict[str, Any]:
    """Return one of APScheduler's own triggers as JSON values. Raise TypeError for others."""
    kind = next((kind for kind, of in _KINDS.items() if of is type(trigger)), None)
    if kind is None:
        raise TypeError(
            f"{type(trigger).__name__} is not APScheduler's own trigger, so JSON cannot express it: use "
            f"{', '.join(_KINDS)}, or Signed(PickleSerializer(), key)"
        )
    state = dict(trigger.__getstate__())
    if "triggers" in state:
        state["triggers"] = [_encode_trigger(each) for each in trigger.triggers]
    if "fields" in state:
        state["fields"] = {field.name: str(field) for field in trigger.fields if not field.is_default}
    return {"kind": kind, **{name: _encode(value) for name, value in state.items()}}


def _decode_trigger(stored: Mapping[str, Any]) -> BaseTrigger:
    kind = _KINDS[stored["kind"]]
    state = {name: _decode(value) for name, value in stored.items() if name != "kind"}
    if "fields" in state:
        state["fields"] = CronTrigger(**stored["fields"], timezone=UTC).fields
    trigger: BaseTrigger = object.__new__(kind)
    if "triggers" in state:
        trigger.__setstate__({**state, "triggers": []})
        trigger.triggers = [_decode_trigger(each) for each in stored["triggers"]]
    else:
        trigger.__setstate__(state)
    return trigger


def _encode_time(time: datetime | None) -> dict[str, Any] | None:
    """Return a time with its zone's name. None stays None."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise TypeError(f"{time!r} has no time zone")
    return {"time": time.astimezone(UTC).isoformat(), **_encode_zone(time.tzinfo)}


def _decode_time(stored: Mapping[str, Any] | None) -> datetime | None:
    return None if stored is None else datetime.fromisoformat(stored["time"]).astimezone(_decode_zone(stored["zone"]))


def _encode(value: object) -> object:
    match value:
        case datetime():
            return _encode_time(value)
        case date():
            return {"date": value.isoformat()}
        case timedelta():
            return {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
        case tzinfo():
            return _encode_zone(value)
        case _:
            return value


def _decode(stored: Any) -> object:
    match stored:
        case {"time": _}:
            return _decode_time(stored)
        case {"date": day}:
            return date.fromisoformat(day)
        case {"days": _, "seconds": _, "microseconds": _}:
            return timedelta(**stored)
        case {"zone": name}:
            return _decode_zone(name)
        case _:
            return stored


def _encode_zone(zone: tzinfo) -> dict[str, str | float]:
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # for zoneinfo and pytz
    if name is not None:
        with suppress(ValueError, ZoneInfoNotFoundError):  # tzlocal calls a zone "local" if it comes from a file
            ZoneInfo(name)
            return {"zone": name}
    offset = zone.utcoffset(None) if name is None else None
    if offset is None:
        raise TypeError(f"the time zone {zone!r} has no name: use a zoneinfo.ZoneInfo, as in ZoneInfo('Europe/Berlin')")
    return {"zone": offset.total_seconds()}


def _decode_zone(name: str | float) -> tzinfo:
    return ZoneInfo(name) if isinstance(name, str) else timezone(timedelta(seconds=name))
