"""Promises about signals: the first one counts, none comes too late for a decision, and nobody waits forever."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checks_of_queues import END
from tests.chaos.final import Final
from tests.chaos.runs import History
from tests.chaos.signals import ANSWERS

ReceivedSignal = tuple[str, str]


def first_signals_count(history: History, final: Final) -> Iterator[str]:
    """Expect that all who saw a signal of a bill saw the same value, and somebody sent it."""
    known, sent = _known(history), defaultdict[ReceivedSignal, set[str]](set)
    for event in history.of_queues("send"):
        sent[event.task, event.facts["name"]].add(event.facts["value"])
    left = {(named, name): value for named, row in final.queues.items() for name, value in row.facts["signals"].items()}
    for (named, name), values in known.items():
        if (named, name) not in left and named in final.queues:
            yield f"{named} has lost its signal {name}: {sorted(values)}"
    for (named, name), value in left.items():
        values = {value} | known.get((named, name), set())
        if len(values) > 1:
            yield f"{named} had several signals {name}: {sorted(values)}"
        if value not in sent[named, name]:
            yield f"{named} has the signal {name} {value}, which nobody sent"


def one_event_counts(history: History, _: Final) -> Iterator[str]:
    """Expect that at most one key of a signal counts, however often it is sent, even with equal values."""
    keys = defaultdict[ReceivedSignal, set[str]](set)
    for event in history.of_queues("counted"):
        if "key" in event.facts:
            keys[event.task, event.facts["name"]].add(event.facts["key"])
    yield from (
        f"{named}: several {name} count: {sorted(each)}" for (named, name), each in keys.items() if len(each) > 1
    )


def _known(history: History) -> dict[ReceivedSignal, set[str]]:
    """Return by signal which values senders were told, and which ones blocks have seen."""
    known = defaultdict[ReceivedSignal, set[str]](set)
    for event in history.of_queues("counted"):
        known[event.task, event.facts["name"]].add(event.facts["value"])
    for event in history.of_queues("settle"):
        for name, value in event.facts["found"].items():
            if value is not None:
                known[event.task, name].add(value)
    return known


def decisions_know_all_signals(_: History, final: Final) -> Iterator[str]:
    """Expect that a bill was settled with exactly the signals in its row: none was left out."""
    for named, row in final.queues.items():
        if named.startswith("bill/") and row.code == END:
            has = {name: row.facts["signals"].get(name) for name in ANSWERS}
            if row.facts["decided"] != has:
                yield f"{named} was settled with {row.facts['decided']}, and has {has}"


def bills_wait_for_their_signals(history: History, final: Final) -> Iterator[str]:
    """Expect that no step began before its signals or its limit, and no ended bill waits."""
    for event in history.of_queues("settle"):
        if event.facts["missing"] and not event.facts["is_late"]:
            yield f"{event} began without {', '.join(event.facts['missing'])}"
    for named, row in final.queues.items():
        if row.code == END and row.facts["awaits"]:
            yield f"{named} has ended, and awaits {row.facts['awaits']}"


CHECKS = (first_signals_count, one_event_counts, decisions_know_all_signals, bills_wait_for_their_signals)
