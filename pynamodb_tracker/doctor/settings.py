"""Checks settings, from the table's status to pauses and limits."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any

from pynamodb.constants import NUMBER

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import read
from pynamodb_tracker.control.limit import LIFETIME, MOST_SLOTS
from pynamodb_tracker.control.slots import limits_of, slots_of
from pynamodb_tracker.doctor.description import Description, Finding, Unknown, advice, danger, wrong
from pynamodb_tracker.execution.retry_policy import is_delay
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.cost import Load, write_units
from pynamodb_tracker.model.row import StatusIndex, TaskRow

_CHECK_AGAIN = "Wait, and check again when it is ACTIVE."

_STATES = {
    "UPDATING": ("Its settings are changing. You can use it in the meantime.", _CHECK_AGAIN),
    "CREATING": ("Requests fail until it is ACTIVE.", _CHECK_AGAIN),
    "DELETING": ("It is being deleted, with all its tasks.", "If that was a mistake, restore it from a backup."),
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": (
        "Requests fail, because DynamoDB cannot use the table's KMS key. After seven days it archives the table.",
        "Let DynamoDB use the key again.",
    ),
    "ARCHIVED": (
        "Requests fail: DynamoDB has archived the table, because it could not use its KMS key for seven days.",
        "Restore the backup that DynamoDB made of it.",
    ),
}
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""

_EXPIRE_TIME = TaskRow.expire_time.attr_name

_TABLE_UNITS, _INDEX_UNITS = map(int, write_units(Load(rate=1)))
"""Write units for creating a task and running its only step, with a row up to 1 KB."""
_LOW_RATE = 10  # Tasks per second. A lower capacity is a finding
_NO_LIMIT = -1
_ATTEMPTS_TRIED = 1000
_FORGOTTEN = timedelta(days=1)
_SLOTS_ABOVE = 100  # how many slots above a limit to read, in case a program still has a higher limit


def check_status(description: Description) -> Iterator[Finding]:
    status = description.table["TableStatus"]
    if status != "ACTIVE":
        finding = advice if status == "UPDATING" else wrong
        meaning, to_do = _STATES.get(status, ("DynamoDB may refuse requests.", "Check the table on AWS."))
        yield finding("table status", status, "ACTIVE", meaning, to_do)


def check_retry_delays(description: Description) -> Iterator[Finding]:
    for model in description.models[1:]:
        for step in model._bound_steps.values():
            retry_delay = step._definition.declared.retry_delay
            if callable(retry_delay) and (problem := _find_delay_problem(retry_delay, step.max_attempts)):
                yield danger(
                    f"retry_delay of {model.__name__}.{step}",
                    problem,
                    "a timedelta of zero or more for each attempt",
                    "The pause doubles with each attempt instead, from 2 seconds up to an hour.",
                    "Correct the function.",
                )


def _find_delay_problem(retry_delay: Callable[[int], object], max_attempts: int) -> str:
    for attempt in range(1, min(max_attempts, _ATTEMPTS_TRIED) + 1):
        try:
            delay = retry_delay(attempt)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            return f"retry_delay({attempt}) raises {error!r}"
        if not is_delay(delay):
            return f"retry_delay({attempt}) returns {shown(delay)}"
    return ""


def check_control(description: Description) -> Iterator[Finding]:
    for model in description.models[1:]:
        if not model.tracker.obeys_control():
            continue
        control, name = read(model), model.tracker.use_case.name
        for line in control.undeclared(model):
            yield danger(
                f"required step of {model.__name__}",
                line,
                "a program that declares it",
                "Successes lead to this step, but no program runs its tasks.",
                f"Deploy the program, or write: pynamodb-tracker steps require {name} NUMBER --remove",
            )
        for pause in control.in_force:
            if pause.time < clock.now() - _FORGOTTEN:
                yield advice(
                    f"pause of {model.__name__}.{pause.step}",
                    str(pause),
                    "no pause older than a day",
                    "Workers, batches and handlers do not start tasks of this step.",
                    f"Resume it: pynamodb-tracker resume {pause.step} --use-case {name}",
                )


def check_limits(description: Description) -> Iterator[Finding]:
    models = description.models[1:]
    found = {limit.name: (model, limit) for model in models for limit in limits_of(model)}
    for name, (model, limit) in sorted(found.items()):
        numbers = {each.slots for of in models for each in limits_of(of) if each.name == name}
        most, of_limit = max(numbers), partial(danger, f"limit {name}")
        if len(numbers) > 1:
            yield of_limit(
                f"limits of {' and '.join(map(str, sorted(numbers)))}",
                "the same number in all steps",
                f"Up to {most:,} tasks run at once, because the steps with the highest number take that many slots.",
                f"Share one limit: bank = ConcurrencyLimit({name!r}, ...), and concurrency_limit=bank.",
            )
        table, soon = slots_of(model, limit).table, clock.now() + LIFETIME + model.tracker.margin
        slots = sorted(table.read(range(min(most + _SLOTS_ABOVE, MOST_SLOTS))), key=attrgetter("number"))
        lost = [each for each in slots[:most] if each.is_damaged or (each.until is not None and each.until > soon)]
        if lost:
            yield of_limit(
                f"{len(lost):,} of {most:,} slots cannot be taken, such as {table.key_text(lost[0].number)}",
                f"tokens, and times at most {LIFETIME.seconds} seconds from now",
                "That many fewer tasks run at once. Another program changed these items, or a worker's clock is ahead.",
                "Correct that clock, and delete the items in the console.",
            )
        if above := sum(not each.is_free(timedelta(0)) for each in slots[most:]):
            yield of_limit(
                f"{above:,} slots above {most:,} are taken",
                f"at most {most:,}",
                "More tasks run at once, because an outdated program has a higher limit.",
                "Deploy the lower number to all workers, and check again.",
            )


def check_time_to_live(description: Description) -> Iterator[Finding]:
    # Strongly consistent global tables do not support it:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/globaltables-CoreConcepts.html
    kept = ", ".join(model.__name__ for model in description.models[1:] if model.tracker.use_case.has_expiry)
    if kept:
        effect = f"Without it, ended tasks of {kept} are not deleted in time. "
        effect += "Queries and counts hide them, but they stay in the table."
    else:
        effect = "No imported use case has keep_for or keep_ignored_for, so this does not matter yet."
    subject, expected, actual = "time to live", f"on, by {_EXPIRE_TIME}", description.time_to_live
    turn_on = f"{description.owner}.update_ttl(ignore_update_ttl_errors=False)"
    if description.is_strongly_consistent:
        if kept:
            found = "not available in a strongly consistent global table"
            to_do = "Remove keep_for and keep_ignored_for, and delete tasks with delete_task."
            yield wrong(subject, found, "no keep_for or keep_ignored_for", effect, to_do)
    elif isinstance(actual, Unknown):
        yield advice(subject, str(actual), expected, effect, actual.to_do)
    elif actual.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        finding = wrong if kept else advice
        to_do = f"Call {turn_on}." if kept else f"Call {turn_on} before you set keep_for."
        yield finding(subject, "off", expected, effect, to_do)
    elif (other := actual.get("AttributeName")) not in {None, _EXPIRE_TIME}:
        deletes = _is_number(description, str(other))
        if deletes:
            by_other = f"DynamoDB deletes tasks at the time in {other}, even while they are in progress."
        else:
            by_other = f"No imported class stores {other} as a number, so it deletes no tasks."
        finding = wrong if kept else danger if deletes else advice
        yield finding(
            subject,
            f"on, by {other}",
            expected,
            f"{effect} {by_other}" if kept else by_other,
            f"Turn it off, wait an hour, and call {turn_on}.",
        )


def _is_number(description: Description, name: str) -> bool:
    # Time to live ignores attributes of other types:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-before-you-start.html
    declared = [attribute for model in description.models for attribute in model.get_attributes().values()]
    return any((each.attr_name, each.attr_type) == (name, NUMBER) for each in declared)


def check_replicas(description: Description) -> Iterator[Finding]:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html and
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/globaltables-CoreConcepts.html
    if not description.other_regions:
        return
    regions = f"also in {', '.join(description.other_regions)}"
    if description.is_strongly_consistent:
        yield advice(
            "replicas",
            f"{regions}, strongly consistent",
            "none, if transactions or time to live are used",
            "A lock holds in all regions. But without transactions and time to live, creating a task with data too "
            "large for its row fails, ctx.transaction fails, and keep_for and keep_ignored_for delete nothing.",
            "Create tasks without large data, and let a run save it, or raise max_inline_data. Delete ended tasks with "
            "delete_task.",
        )
    else:
        yield danger(
            "replicas",
            f"{regions}, eventually consistent",
            "none, or strongly consistent ones",
            "Each region checks conditions against its own copy. Workers in two regions can hold the same task's lock "
            "at the same time, and the later write replaces the earlier one.",
            "Let workers and people write in one region only. For strong consistency, create a new table.",
        )


def check_protection(description: Description) -> Iterator[Finding]:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Point-in-time-recovery.html and
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html#WorkingWithTables.Basics.DeletionProtection
    backups = description.backups
    if not isinstance(backups, Unknown):
        backups = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED"
    protection = description.table.get("DeletionProtectionEnabled", Unknown())
    restore = "Without it, you cannot restore tasks that are deleted or overwritten by mistake."
    delete = "Without it, a single DeleteTable request deletes all tasks."
    for subject, is_on, request, meaning in (
        ("point-in-time recovery", backups, "UpdateContinuousBackups", restore),
        ("deletion protection", protection, "UpdateTable", delete),
    ):
        if isinstance(is_on, Unknown):
            yield advice(subject, str(is_on), "on", meaning, is_on.to_do)
        elif not is_on:
            to_do = f"Turn it on in the table's template or with {request}."
            yield advice(subject, "off", "on", meaning, to_do)


def check_capacity(description: Description) -> Iterator[Finding]:
    # An index with too few units throttles its table, too:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes
    table, index = description.table, description.indexes.get(StatusIndex.Meta.index_name, {})
    on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    table_units, index_units = (_write_units(each, on_demand=on_demand) for each in (table, index))
    limits: list[str] = []
    rate = _LOW_RATE
    for name, units, per_task in (("table", table_units, _TABLE_UNITS), ("index", index_units, _INDEX_UNITS)):
        if units is not None:
            limits.append(f"{name} {units}")
            rate = min(rate, units // per_task)
    if rate < _LOW_RATE:
        scaling = "" if on_demand else ", unless auto scaling raises it"
        yield advice(
            "write capacity",
            f"{'on demand, at most ' if on_demand else 'provisioned, '}{' and '.join(limits)} units per second",
            "on demand without a limit, or more units",
            f"Creating a task and running one step takes {_TABLE_UNITS} units in the table and {_INDEX_UNITS} in the "
            f"index, with a row up to 1 KB. The limit allows {rate or 'less than one'} per second{scaling}, and "
            "DynamoDB throttles the rest.",
            "Switch the table to on demand with UpdateTable, or raise both limits.",
        )


def _write_units(described: Mapping[str, Any], *, on_demand: bool) -> int | None:
    of, name = ("OnDemand", "MaxWriteRequestUnits") if on_demand else ("Provisioned", "WriteCapacityUnits")
    units = described.get(f"{of}Throughput", {}).get(name, _NO_LIMIT)
    return None if units == _NO_LIMIT else int(units)
