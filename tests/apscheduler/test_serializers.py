"""What a serializer gives back, and what it refuses to load."""

import pickle
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from apscheduler.job import Job
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from pynamodb_tracker.apscheduler import JobKey, JSONSerializer, PickleSerializer, Signed
from tests.support.rows import nested

BERLIN = ZoneInfo("Europe/Berlin")
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
PLACE = JobKey("default", "j-1")
MODULE = "tests.apscheduler.allowed"
JSON = JSONSerializer(allow=[MODULE])


def state_of(**changes: Any) -> dict[str, Any]:
    settings = {
        "id": PLACE.job_id,
        "func": f"{MODULE}:send",
        "trigger": DateTrigger(datetime(2026, 3, 29, 4, tzinfo=BERLIN)),
        "args": ("a", 1, 1.5, None, True, ["ä", {"k": [2]}]),
        "kwargs": {"to": {"name": "x"}},
        "executor": "default",
        "name": "send",
        "misfire_grace_time": None,
        "coalesce": False,
        "max_instances": 1,
        "next_run_time": datetime(2026, 3, 29, 4, 0, 0, 123457, tzinfo=BERLIN),
    }
    job = Job(mock.Mock(timezone=UTC), **settings | changes)
    state: dict[str, Any] = job.__getstate__()
    return state


def fire_times(trigger: BaseTrigger, first: datetime, number: int = 40) -> list[float]:
    """Return when a scheduler runs the job, if each look comes a second after the time.

    As timestamps, because two times of one zone are equal for Python in both of the hours that the clocks repeat.
    """
    random.seed(1)  # of the jitter
    times: list[float] = []
    previous, now = None, first
    while len(times) < number and (previous := trigger.get_next_fire_time(previous, now)) is not None:
        times.append(previous.timestamp())
        now = previous + timedelta(seconds=1)
    return times


TRIGGERS: dict[str, BaseTrigger] = {
    "date": DateTrigger(datetime(2026, 10, 25, 2, 30, 0, 123457, tzinfo=BERLIN, fold=1)),
    "interval": IntervalTrigger(hours=5, start_date=datetime(2026, 1, 1, tzinfo=BERLIN), timezone=BERLIN, jitter=90),
    "interval_of_microseconds": IntervalTrigger(seconds=0.25, timezone=UTC, end_date=datetime(2999, 1, 1, tzinfo=UTC)),
    "interval_at_an_offset": IntervalTrigger(days=1, timezone=timezone(timedelta(hours=5, minutes=30))),
    "cron": CronTrigger(hour="4", minute="*/20", jitter=5, timezone=BERLIN),
    "cron_of_words": CronTrigger(month="jan-mar,oct", day_of_week="mon-fri,sun", hour="1-23/11", timezone=BERLIN),
    "cron_of_positions": CronTrigger(day="last,1st mon,3rd fri,5-9/2", hour=4, timezone=BERLIN),
    "cron_of_weeks": CronTrigger(year="2026-2028", week="10-14,*/9", second="5,7", timezone=BERLIN),
    "cron_until": CronTrigger(
        hour=4, start_date="2026-03-28", end_date=datetime(2026, 11, 1, tzinfo=UTC), timezone=BERLIN
    ),
    "crontab": CronTrigger.from_crontab("30 4 1-7,29 * sat", timezone="America/New_York"),
    "calendarinterval": CalendarIntervalTrigger(
        months=1, days=1, hour=2, minute=30, start_date=date(2026, 1, 28), end_date=date(2031, 1, 1), timezone=BERLIN
    ),
    "and": AndTrigger([CronTrigger(hour=4, timezone=BERLIN), CronTrigger(day_of_week="sun", hour=4, timezone=BERLIN)]),
    "or": OrTrigger([CronTrigger(hour=4, timezone=BERLIN), OrTrigger([IntervalTrigger(days=1, timezone=UTC)])], 7),
}


@pytest.mark.parametrize("name", TRIGGERS)
@pytest.mark.parametrize("first", [datetime(2026, 3, 27, 12, tzinfo=BERLIN), datetime(2026, 10, 23, 12, tzinfo=BERLIN)])
def test_a_trigger_from_json_fires_at_the_same_times_when_the_clocks_change(name: str, first: datetime) -> None:
    trigger = TRIGGERS[name]
    number = 1 if name == "and" else 40  # APScheduler's own does not return once it has a previous time
    back = JSON.loads(JSON.dumps(state_of(trigger=trigger), PLACE), PLACE)["trigger"]
    assert type(back) is type(trigger)
    assert fire_times(back, first, number) == fire_times(trigger, first, number)
    assert str(back) == str(trigger)


@pytest.mark.parametrize("serializer", [PickleSerializer(), JSON, Signed(JSON, KEY)], ids=["pickle", "json", "signed"])
def test_a_job_comes_back_as_it_was(serializer: Any) -> None:
    state = state_of()
    back = serializer.loads(serializer.dumps(state, PLACE), PLACE)
    assert back | {"trigger": None} == state | {"trigger": None}
    assert back["next_run_time"].timestamp() == state["next_run_time"].timestamp()
    assert back["next_run_time"].tzinfo is BERLIN


def test_a_paused_job_comes_back_from_json_without_a_time() -> None:
    assert JSON.loads(JSON.dumps(state_of(next_run_time=None), PLACE), PLACE)["next_run_time"] is None


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1: "x"}, {"deep": [b"x"]}, float("nan"), datetime(2026, 1, 1, tzinfo=UTC), object(), True.__class__],
    ids=["tuple", "key", "bytes", "nan", "time", "object", "class"],
)
def test_an_argument_that_json_would_change_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match=r"args\[0\]"):
        JSON.dumps(state_of(args=(value,)), PLACE)
    with pytest.raises(TypeError, match=r"kwargs\['of'\]"):
        JSON.dumps(state_of(kwargs={"of": value}), PLACE)


def test_arguments_that_are_nested_too_deep_are_refused() -> None:
    JSON.dumps(state_of(args=(nested(197),)), PLACE)
    with pytest.raises(ValueError, match="args or kwargs is nested more than 200 levels deep"):
        JSON.dumps(state_of(args=(nested(198),)), PLACE)


def test_a_trigger_of_ones_own_and_a_zone_without_a_name_are_a_type_error() -> None:
    class Own(CronTrigger):  # type: ignore[misc]  # APScheduler is untyped
        pass

    with pytest.raises(TypeError, match="Own is not APScheduler's own trigger"):
        JSON.dumps(state_of(trigger=Own(hour=4, timezone=UTC)), PLACE)
    local = mock.Mock(tzinfo, key="local", **{"utcoffset.return_value": None})  # what tzlocal makes of a file
    with pytest.raises(TypeError, match="has no name"):
        JSON.dumps(state_of(trigger=CronTrigger(hour=4, timezone=local)), PLACE)


@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        f"{MODULE}:system",
        f"{MODULE}:os.system",
        f"{MODULE}:send.__globals__",
        f"{MODULE}:guarded.__wrapped__",
        f"{MODULE}:Report.mro",
        f"{MODULE}s:send",
    ],
)
def test_a_function_that_is_not_defined_in_an_allowed_module_is_neither_stored_nor_loaded(function: str) -> None:
    stored = JSON.dumps(state_of(), PLACE).replace(f"{MODULE}:send".encode(), function.encode())
    with pytest.raises(ValueError, match="allowed modules"):
        JSON.loads(stored, PLACE)
    with pytest.raises(ValueError, match="allowed modules"):
        JSON.dumps(state_of() | {"func": function}, PLACE)


def test_a_module_that_is_not_allowed_is_not_even_imported() -> None:
    stored = JSON.dumps(state_of(), PLACE).replace(MODULE.encode(), b"antigravity")
    with mock.patch("builtins.__import__") as imported, pytest.raises(ValueError, match="allowed modules"):
        JSON.loads(stored, PLACE)
    imported.assert_not_called()


@pytest.mark.parametrize("allow", [[], "shop.jobs", [""], [pickle]])
def test_json_needs_a_list_of_modules(allow: Any) -> None:
    with pytest.raises(ValueError, match="must list the modules"):
        JSONSerializer(allow)
    with pytest.raises(TypeError, match="allow"):
        JSONSerializer()  # type: ignore[call-arg]  # the mistake


def test_a_package_allows_the_modules_below_it() -> None:
    assert JSONSerializer(["tests"]).dumps(state_of(func=f"{MODULE}:report.send", args=(), kwargs={}), PLACE)


def swapped(signed: Signed) -> bytes:
    return signed.dumps(state_of(), JobKey("default", "j-2"))


def of_another_store(signed: Signed) -> bytes:
    return signed.dumps(state_of(), JobKey("other", "j-1"))


def tampered(signed: Signed) -> bytes:
    stored = signed.dumps(state_of(), PLACE)
    return stored[:-1] + bytes([stored[-1] ^ 1])


def foreign(signed: Signed) -> bytes:  # noqa: ARG001 - its writer has no key
    return PickleSerializer().dumps(state_of(), PLACE)


def cut_short(signed: Signed) -> bytes:
    return signed.dumps(state_of(), PLACE)[:31]


def signed_with_another_key(signed: Signed) -> bytes:  # noqa: ARG001 - as above
    return Signed(PickleSerializer(), OTHER_KEY).dumps(state_of(), PLACE)


@pytest.mark.parametrize("row", [swapped, of_another_store, tampered, foreign, cut_short, signed_with_another_key])
def test_what_was_not_signed_for_this_job_is_never_unpickled(row: Callable[[Signed], bytes]) -> None:
    signed = Signed(PickleSerializer(), KEY)
    stored = row(signed)
    with (
        mock.patch.object(pickle, "loads") as loads,
        pytest.raises(ValueError, match="job 'j-1' was not signed with any"),
    ):
        signed.loads(stored, PLACE)
    loads.assert_not_called()


def test_an_older_key_verifies_and_the_first_one_signs() -> None:
    old, new = Signed(JSON, KEY), Signed(JSON, OTHER_KEY, KEY)
    assert new.loads(old.dumps(state_of(), PLACE), PLACE)["id"] == "j-1"
    assert Signed(JSON, OTHER_KEY).loads(new.dumps(state_of(), PLACE), PLACE)["id"] == "j-1"


def test_a_key_is_32_bytes_and_is_not_shown() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Signed(JSON, b"short")
    with pytest.raises(ValueError, match="32 bytes"):
        Signed(JSON, KEY, b"")
    with pytest.raises(TypeError, match="bytes"):
        Signed(JSON, "k" * 32)  # type: ignore[arg-type]  # the mistake
    assert "kkk" not in repr(Signed(JSON, KEY))
