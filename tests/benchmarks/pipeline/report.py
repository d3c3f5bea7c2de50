"""What goes wrong in a pipeline of functions within three minutes, in which everything fails now and then."""

import json
import os
import random
import re
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pynamodb_tracker import clock
from tests.benchmarks.pipeline.emulator import SWEEP_EVERY, VISIBILITY, Emulator
from tests.benchmarks.tables import table
from tests.engine.actions import PASS, Action, Delay, Fail, Rule
from tests.engine.engine import EngineUnavailable, start
from tests.engine.proxy import Proxy

RATE, SECONDS, DRAIN = 1.6, 100.0, 75.0
"""Orders per second, for how long, and how long they then have to reach their end."""

BUG, BUG_AT, BUG_SECONDS = "ship", 25.0, 60.0

THROTTLED, SLOW, SLOW_BY = 0.01, 0.03, 2.0
"""Shares of the requests to the table, and seconds."""

ENOUGH = 3.0
"""Seconds of an invocation: nearly all tasks take less than 0.2."""

BACKLOG = SWEEP_EVERY + ENOUGH

GOALS = ("0", "0", "0 %", "<= 13", "<= 60 s", "0")


def report() -> Iterator[str]:
    """Run the pipeline, and yield the rows."""
    try:
        engine = start()
    except EngineUnavailable as unavailable:
        yield str(unavailable)
        return
    try:
        with tempfile.TemporaryDirectory() as folder, Proxy(engine.endpoint) as proxy:
            os.environ["TABLE_HOST"] = engine.endpoint
            yield f"{RATE * SECONDS:.0f} orders of four steps; {BUG} has a bug for {BUG_SECONDS:.0f} s"
            yield from _rows(Run(proxy, Path(folder)))
    finally:
        engine.stop()


@dataclass
class Run:
    """One run of the pipeline."""

    proxy: Proxy
    folder: Path
    announced: dict[str, float] = field(default_factory=dict)
    overdue: float = 0
    """Seconds for which the oldest order at the step was due, at most, once the bug was gone."""
    recovered: float | None = None
    """Seconds after the bug until no order was due for longer than a sweep explains."""

    def __post_init__(self) -> None:
        from tests.benchmarks.pipeline.app import STEPS, Order, Table  # noqa: PLC0415 - its host is known by now

        self.order, self.steps, self.table = Order, STEPS, Table
        Table.create_table(wait=True)
        self.proxy.rule = _faults()
        self.emulator = Emulator(STEPS, self.folder, self.proxy.endpoint)
        self._fixed: float | None = None
        self._ended = threading.Event()
        watch = threading.Thread(target=self._watch, daemon=True)
        with self.emulator.running():
            watch.start()
            self._drive()
            self._ended.set()
            watch.join()
        self.requests = Counter(exchange.target for exchange in self.proxy.log)

    def _drive(self) -> None:
        began, plan = time.time(), [(BUG_AT, True), (BUG_AT + BUG_SECONDS, False)]
        while (passed := time.time() - began) < SECONDS + DRAIN:
            while plan and passed >= plan[0][0]:
                _, is_broken = plan.pop(0)
                self.emulator.deploy(BUG, is_broken=is_broken)
                self._fixed = None if is_broken else time.time()
            while len(self.announced) < min(passed, SECONDS) * RATE:
                name = f"o-{len(self.announced):04}"
                self.announced[name] = time.time()
                self.emulator.announce(name)
            time.sleep(0.05)

    def _watch(self) -> None:
        step = getattr(self.order, BUG)
        while not self._ended.wait(2):
            due = min(step.next_due().values(), default=clock.now())
            if self._fixed is not None:
                seconds = max(0.0, (clock.now() - due).total_seconds())
                self.overdue = max(self.overdue, seconds)
                if seconds >= BACKLOG:
                    self.recovered = None
                elif self.recovered is None:
                    self.recovered = time.time() - self._fixed

    def blocks(self) -> list[dict[str, Any]]:
        """Return the calls of other systems, as those have noted them."""
        return list(map(json.loads, (self.folder / "blocks.jsonl").read_text(encoding="utf-8").splitlines()))

    def logged(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that the library has logged."""
        for file in self.folder.glob("*.log"):
            for line in file.read_text(encoding="utf-8").splitlines():
                with_fields = json.loads(line) if line.startswith("{") else {}
                if "message" in with_fields:
                    yield with_fields


def _faults() -> Rule:
    luck = random.Random(7)
    throttled = Fail(400, "ProvisionedThroughputExceededException")

    def rule(_target: str, _body: object, _ordinal: int) -> Action:
        fault = luck.random()
        return throttled if fault < THROTTLED else Delay(SLOW_BY) if fault < THROTTLED + SLOW else PASS

    return rule


def _rows(run: Run) -> Iterator[str]:
    lines, blocks, orders = list(run.logged()), run.blocks(), len(run.announced)
    tasks = {task.task_id: task for task in run.order.get_many([*run.announced])}
    states = Counter(str(task.state) for task in tasks.values())
    first: dict[str, float] = {}
    for block in blocks:
        first.setdefault(block["order"], block["time"])
    waited = [name for name, at in run.announced.items() if first.get(name, at + VISIBILITY) - at >= VISIBILITY]
    left = {each.request_id: each.left for each in run.emulator.invocations}
    given_back = sum(
        int(found[1])
        for line in lines
        if (found := re.match(r"no time left for (\d+) records", line["message"]))
        and left.get(line["request_id"], 0) > ENOUGH
    )
    traced = {(line.get("task_id"), line.get("step"), line.get("attempt")) for line in lines if "outcome" in line}
    traced |= {(name, each.step, each.attempt) for name, task in tasks.items() for each in task.errors}
    ended = [block for block in blocks if block["time"] < time.time() - VISIBILITY / 2]
    untraced = [each for each in ended if (each["order"], each["step"], each["attempt"]) not in traced]
    figures = [
        f"{len(waited)} of {orders}",
        str(given_back),
        f"{_share_for_finished(run, lines):.0%}",
        f"{sum(run.requests.values()) / orders:.1f}; {_requests_without_bug(run, tasks):.1f} without the bug",
        f"{run.overdue:.0f} s overdue, gone after {'-' if run.recovered is None else f'{run.recovered:.0f} s'}",
        f"{len(untraced)} of {len(blocks)}",
    ]
    what = [
        "new orders that wait for the visibility timeout",
        "records given back although there was time",
        "messages for finished steps",
        "requests per order",
        f"backlog after a bug of {BUG_SECONDS:.0f} s",
        "attempts without a trace",
    ]
    yield from table(["", "measured", "goal"], [list(row) for row in zip(what, figures, GOALS, strict=True)])
    how = Counter(each.how for each in run.emulator.invocations)
    yield f"orders: {dict(states)}; invocations: {dict(how)}"
    dead = sum(len(queue.dead) for queue in run.emulator.queues.values())
    yield f"requests: {dict(run.requests)}; dead letters: {dead}"


def _requests_without_bug(run: Run, tasks: dict[str, Any]) -> float:
    """Return how many requests an order took, on average, of those that the bug has not met."""
    met = {name for name, task in tasks.items() if any(each.type == "NameError" for each in task.errors)}
    of_order, of_all = defaultdict[str, float](float), 0.0
    for exchange in run.proxy.log:
        names = {*re.findall(r"\bo-\d{4}\b", json.dumps(exchange.body))}
        of_all += not names
        for name in names:
            of_order[name] += 1 / len(names)
    others = run.announced.keys() - met
    return sum(of_order[name] for name in others) / max(1, len(others)) + of_all / len(run.announced)


def _share_for_finished(run: Run, lines: list[dict[str, Any]]) -> float:
    """Return which share of the messages to next steps was about an order that had finished that step."""
    done: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))
    for line in lines:
        if line.get("outcome") == "succeeded" and line.get("attempt") is not None:
            done[line["step"], line["task_id"]] = line["time"]
    late = [each for each in run.emulator.sends if each[0] > done[each[1], each[2]]]
    return len(late) / max(1, len(run.emulator.sends))
