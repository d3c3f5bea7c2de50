"""Converts APScheduler's own triggers and their times to JSON and back."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

_KINDS: dict[str, type[BaseTrigger]] = {
    "date": DateTrigger,
    "interval": IntervalTrigger,
    "cron": CronTrigger,
    "calendarinterval": CalendarIntervalTrigger,
    "and": AndTrigger,
    "or": OrTrigger,
}


def encode_trigger(trigger: BaseTrigger) -> dict[str, Any]:
    """Return one of APScheduler's own triggers as JSON values. Raise TypeError for others."""
    kind = next((kind for kind, of in _KINDS.items() if of is type(trigger)), None)
    if kind is None:
        raise TypeError(
            f"{type(trigger).__name__} is not APScheduler's own trigger, so JSON cannot express it: use "
            f"{', '.join(_KINDS)}, or Signed(PickleSerializer(), key)"
        )
    state = dict(trigger.__getstate__())
    if "triggers" in state:
        state["triggers"] = [encode_trigger(each) for each in trigger.triggers]
    if "fields" in state:
        state["fields"] = {field.name: str(field) for field in trigger.fields if not field.is_default}
    return {"kind": kind, **{name: _encode(value) for name, value in state.items()}}


def decode_trigger(stored: Mapping[str, Any]) -> BaseTrigger:
    kind = _KINDS[stored["kind"]]
    state = {name: _decode(value) for name, value in stored.items() if name != "kind"}
    if "fields" in state:
        state["fields"] = CronTrigger(**stored["fields"], timezone=UTC).fields
    trigger: BaseTrigger = object.__new__(kind)
    if "triggers" in state:
        trigger.__setstate__({**state, "triggers": []})
        trigger.triggers = [decode_trigger(each) for each in stored["triggers"]]
    else:
        trigger.__setstate__(state)
    return trigger


def encode_time(time: datetime | None) -> dict[str, Any] | None:
    """Return a time with its zone's name. None stays None."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise TypeError(f"{time!r} has no time zone")
    return {"time": time.astimezone(UTC).isoformat(), **_encode_zone(time.tzinfo)}


def decode_time(stored: Mapping[str, Any] | None) -> datetime | None:
    return None if stored is None else datetime.fromisoformat(stored["time"]).astimezone(_decode_zone(stored["zone"]))


def _encode(value: object) -> object:
    match value:
        case datetime():
            return encode_time(value)
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
            return decode_time(stored)
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
