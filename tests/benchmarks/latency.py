"""Measure how long tasks wait in a small shop at real speed: three minutes, two workers, a restart and a kill."""

import itertools
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.latency_shop import LOCK_FOR, RETRY_DELAY, Booking, Order, ShopTask, has_parcel, waits_for_payment
from tests.benchmarks.tables import table
from tests.benchmarks.ways import engine

SECONDS = 180
ORDERS_A_SECOND = 2
RESTART_AT, KILL_AT = 60, 110
"""Seconds after the begin."""
PATIENCE = 20
"""Seconds for the last orders."""
STEPS = ("order.reserve", "order.pay", "order.ship", "order.mail")

Note = dict[str, Any]


def report() -> Iterator[str]:
    yield f"Seconds that tasks wait, {ORDERS_A_SECOND} orders a second for {SECONDS} s, workers with default settings"
    with engine() as found, tempfile.TemporaryDirectory() as folder:
        if isinstance(found, str):
            yield found
            return
        ShopTask.Meta.host = found.endpoint  # type: ignore[attr-defined]  # PynamoDB reads it
        ShopTask.create_table(wait=True)
        begin = time.time()
        yield from open_shop(found.endpoint, Path(folder))
        notes = sorted(
            (json.loads(line) for path in Path(folder).iterdir() for line in path.read_text().splitlines()),
            key=lambda note: note["at"],
        )
    rows = [[name, str(len(waits)), *figures(waits)] for name, waits in measured(notes).items()]
    yield from table(["from ... to ...", "cases", "median", "95 %", "maximum"], rows)
    done = sum(note["kind"] == "end" and note["outcome"] == "succeeded" for note in notes)
    yield f"{done:,} steps succeeded in {time.time() - begin:.0f} s"


def figures(waits: Sequence[float]) -> list[str]:
    if not waits:
        return ["-", "-", "-"]
    ordered = sorted(waits)
    chosen = (statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1])
    return [f"{seconds:.2f}" for seconds in chosen]


def open_shop(endpoint: str, folder: Path) -> Iterator[str]:
    """Let orders come while workers run, and note when each was created and paid."""
    numbers = itertools.count()

    def start(kind: str) -> subprocess.Popen[bytes]:
        path = folder / f"{kind}-{next(numbers)}.jsonl"
        command = [sys.executable, "-m", "tests.benchmarks.latency_shop", kind, endpoint, str(path)]
        return subprocess.Popen(command)  # noqa: S603 - our own module

    workers = [start("threads"), start("loop")]
    restarted = killed = False
    try:
        with (folder / "shop.jsonl").open("w", buffering=1) as file:
            for elapsed in orders(file):
                if not restarted and elapsed >= RESTART_AT:
                    restarted = True
                    workers[0].send_signal(signal.SIGTERM)
                    workers.append(start("threads"))
                    yield "a worker was restarted"
                if not killed and elapsed >= KILL_AT:
                    killed = True
                    workers[1].kill()
                    workers.append(start("loop"))
                    yield "a worker was killed"
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait(60)


def orders(file: Any) -> Iterator[float]:
    """Create orders and bookings at their times, and pay what waits for payment. Yield the seconds since the begin."""

    def note(step: str, task: str) -> None:
        file.write(json.dumps({"kind": "shop", "at": time.time(), "step": step, "task": task}) + "\n")

    begin, unpaid = time.time(), list[tuple[float, str]]()
    for number in range(SECONDS * ORDERS_A_SECOND):
        task_id, at = f"o-{number:04}", begin + number / ORDERS_A_SECOND
        while (left := at - time.time()) > 0:
            time.sleep(min(left, 0.05))
            while unpaid and unpaid[0][0] < time.time():
                paid = unpaid.pop(0)[1]
                note("paid", paid)
                Order.paid.send(paid, "paid", key=paid)
        note("order", task_id)
        Order.create(task_id, number=number)
        if waits_for_payment(number):
            unpaid.append((time.time() + random.uniform(3, 4), task_id))
        if number % 2 == 0:
            note("booking", f"b-{number:04}")
            Booking.create(f"b-{number:04}", group=f"c-{number % 8}")
        yield time.time() - begin
    time.sleep(PATIENCE)


def measured(notes: Sequence[Note]) -> dict[str, list[float]]:
    starts, ends, shop = defaultdict[Any, list[Note]](list), defaultdict[Any, list[Note]](list), {}
    for note in notes:
        place = note["task"], note["step"]
        if note["kind"] == "shop":
            shop[place] = note["at"]
        else:
            (starts if note["kind"] == "start" else ends)[place].append(note)
    found: dict[str, list[float]] = {}
    tasks = [task for task, step in shop if step == "order"]
    plain = [task for task in tasks if not (waits_for_payment(number_of(task)) or has_parcel(number_of(task)))]
    done = {place: last["at"] for place, each in ends.items() if (last := each[-1])["outcome"] == "succeeded"}
    first = {place: each[0]["at"] for place, each in starts.items()}

    def between(begin: dict[Any, float], end: dict[Any, float], pairs: Iterator[tuple[Any, Any]]) -> list[float]:
        return [max(0.0, end[b] - begin[a]) for a, b in pairs if a in begin and b in end]

    following = list(itertools.pairwise(STEPS))
    found["creation elsewhere to the start"] = between(shop, first, (((t, "order"), (t, STEPS[0])) for t in tasks))
    found["end of a step to the start of the next"] = between(
        done, first, (((t, one), (t, other)) for t in plain for one, other in following)
    )
    found["creation in the worker's process to the start"] = between(
        done, first, (((t, STEPS[3]), (f"{t}/receipt", "receipt.file")) for t in tasks)
    )
    found["signal to the start"] = between(shop, first, (((t, "paid"), (t, STEPS[1])) for t in tasks))
    found["end of the child to the start of the parent"] = between(
        done, first, (((f"{t}/parcel", "parcel.pack"), (t, STEPS[2])) for t in tasks)
    )
    bookings = [[f"b-{n:04}" for n in range(place, SECONDS * ORDERS_A_SECOND, 8)] for place in range(0, 8, 2)]
    members = (pair for group in bookings for pair in itertools.pairwise(group))
    ready = {
        (other, "booking.book"): max(done[one, "booking.book"], shop[other, "booking"])
        for one, other in members
        if (one, "booking.book") in done
    }
    found["the turn of a task in its group to its start"] = between(ready, first, ((at, at) for at in ready))
    found["a due retry to its start"] = [
        max(0.0, start["at"] - end["at"] - RETRY_DELAY.total_seconds())
        for place, each in ends.items()
        for end in each
        if end["outcome"] == "failed"
        for start in starts[place]
        if start["attempt"] == end["attempt"] + 1 and not start["took_over"]
    ]
    found["an occurrence to its start"] = [
        note["at"] - note["occurrence"] for note in notes if note["kind"] == "start" and "occurrence" in note
    ]
    found["an expired lock to the takeover"] = [
        max(0.0, note["at"] - before["at"] - LOCK_FOR.total_seconds())
        for each in starts.values()
        for before, note in itertools.pairwise(each)
        if note["took_over"]
    ]
    found["an order without waits, four steps with 0.46 s of work"] = between(
        shop, done, (((t, "order"), (t, STEPS[3])) for t in plain)
    )
    return found


def number_of(task: str) -> int:
    return int(task.removeprefix("o-"))
