"""A history folded into runs: each with its claim, its observations, and every write."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.events import Event
from tests.chaos.records import Record

OF_QUEUES = {
    "ask",
    "asked",
    "make",
    "made",
    "try",
    "began",
    "denied",
    "stopped",
    "done",
    "occurrence",
    "collect",
    "send",
    "counted",
    "settle",
    "command",
    "cancelled",
}
"""Kinds of events about queues. Their checks read the events themselves."""
OF_WORKERS = {"freeze", "wake"}
OF_PAUSES = {"pause", "paused", "resume", "unread"}

OF_SLOTS = {"take", "renew", "return"}

ENDINGS = {"succeed", "fail", "postpone", "give_up", "release"}


@dataclass
class Write:
    what: str
    """save, extend, commit, succeed, fail, postpone, give_up, release."""
    records: int
    """How many of the run's records it stores, if any."""
    invoked: float
    outcome: str = "unknown"
    """ok: acknowledged. lost, or none: the library says that it was not applied, because the lock is lost, or for
    another reason. unknown: no response, or the worker died."""
    or_released: bool = False
    """Whether the run was cancelled in its block, so that it succeeded or released its task."""


@dataclass
class Part:
    """A part that a run has done, or got the result of."""

    name: str
    time: float
    key: str = ""
    """The idempotency key, if it was done."""
    result: int = 0
    """The fence of the run that did it."""
    stored: bool = False
    """Whether it is known to be in the row."""


@dataclass
class Run:
    worker: str
    number: int
    task: str
    step: str
    outcome: str = "unknown"
    """The claim: ok, refused, lost (taken, but over before the block began), unknown."""
    why: str = ""
    controlled: bool = False
    """Whether the library started it, because it was due."""
    begun: float = math.inf
    """When it was about to claim the task."""
    calls: list[Part] = field(default_factory=list)
    """Parts that were called."""
    got: list[Part] = field(default_factory=list)
    """Parts with results that it got."""
    announced: bool = True
    """Whether the task may be locked without a worker: the error said so, or the worker died before that."""
    fence: int = 0
    attempt: int = 0
    claimed: float = math.inf
    """When the claim was known to be taken."""
    late: float = -math.inf
    """Seconds since its lock had expired at the first line of its block, by the worker's clock."""
    seen: Sequence[Record] = ()
    """The records in the claimed row."""
    whole: bool = True
    looked: bool = False
    """Whether the worker lived long enough to look into the row."""
    effects: list[tuple[float, bool]] = field(default_factory=list)
    """When the block did something, and whether it still held its lock by its own clock."""
    writes: list[Write] = field(default_factory=list)
    released: float = math.inf
    """When it was known that a person had released its task."""

    def __str__(self) -> str:
        return f"{self.step} of {self.task} by {self.worker}/{self.number} (fence {self.fence})"

    @property
    def end(self) -> Write | None:
        """How it ended, or None if the worker did not get that far."""
        return next((write for write in self.writes if write.what in ENDINGS), None)

    @property
    def succeeded(self) -> bool:
        return self.end is not None and (self.end.what, self.end.outcome) == ("succeed", "ok")

    @property
    def may_have_succeeded(self) -> bool:
        """Whether its success was acknowledged, or got no response."""
        return self.end is not None and self.end.what == "succeed" and self.end.outcome != "lost"

    @property
    def commits(self) -> list[Write]:
        """Its transactions before the end, from number 1."""
        return [write for write in self.writes if write.what == "commit"]

    def stores(self, *outcomes: str) -> set[int]:
        """Return after which of its records a write with one of these outcomes stored the row."""
        stores = (write for write in self.writes if write.what in {"save", "succeed"})
        return {write.records for write in stores if write.outcome in outcomes}


@dataclass
class History:
    runs: list[Run] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    """Tasks with an acknowledged create."""
    asked: set[str] = field(default_factory=set)
    """Tasks with a sent create."""
    orders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """People's commands by task: reopen, ignore, release."""
    releases: dict[tuple[str, int], float] = field(default_factory=dict)
    """When a claim was known to be released by a person, by task and fence."""
    doubtful: Counter[str] = field(default_factory=Counter)
    """By task, how many releases may have released any of its claims."""
    children: list[str] = field(default_factory=list)
    """Forked children that have written something."""
    crashes: list[str] = field(default_factory=list)
    frozen: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """When workers were frozen."""
    torn: list[str] = field(default_factory=list)
    """Rows of a query with parts of two versions."""
    pauses: list[Event] = field(default_factory=list)
    """Pauses and resumes, and which workers could not read them."""
    slots: list[Event] = field(default_factory=list)
    """The workers' use of the limit's slots."""
    queues: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, events: Iterable[Event]) -> "History":
        """Fold the events, each worker's in order."""
        history, runs, told = cls(), dict[tuple[str, int], Run](), list(events)
        history.queues = [event for event in told if event.kind in OF_QUEUES]
        history.pauses = [event for event in told if event.kind in OF_PAUSES]
        history.slots = [event for event in told if event.kind in OF_SLOTS]
        history._add_freezes(event for event in told if event.kind in OF_WORKERS)
        for event in (event for event in told if event.kind not in OF_QUEUES | OF_WORKERS | OF_PAUSES | OF_SLOTS):
            match event.kind:
                case "create":
                    history.asked.add(event.task)
                case "created":
                    history.created.add(event.task)
                case "reopen" | "ignore" | "release" | "kept" | "released":
                    history._add_order(event)
                case "child" if event.facts["wrote"]:
                    history.children.append(f"{event}")
                case "child" | "fork":
                    pass
                case "crash":
                    history.crashes.append(f"{event}")
                case "torn":
                    history.torn.append(f"{event}")
                case "claim":
                    run = Run(event.worker, event.run, event.task, event.facts["step"], begun=event.time)
                    run.controlled = event.facts.get("controlled", False)
                    runs[event.worker, event.run] = run
                    history.runs.append(run)
                case _:
                    _fold(runs[event.worker, event.run], event)
        return history._with_releases()

    def _add_freezes(self, events: Iterable[Event]) -> None:
        for event in events:
            pauses = self.frozen[event.task]
            begin = event.time if event.kind == "freeze" else pauses.pop()[0]
            pauses.append((begin, math.inf if event.kind == "freeze" else event.time))

    def _with_releases(self) -> "History":
        for run in self.runs:
            run.released = self.releases.get((run.task, run.fence), math.inf)
        return self

    def _add_order(self, event: Event) -> None:
        if event.kind in {"release", "released", "kept"}:
            self.doubtful[event.task] += 1 if event.kind == "release" else -1
        if event.kind == "released":
            self.releases[event.task, event.facts["fence"]] = event.time
        self.orders[event.task].add(event.kind)

    def of_queues(self, *kinds: str) -> Iterator[Event]:
        return (event for event in self.queues if event.kind in kinds)

    def of_tasks(self) -> dict[str, list[Run]]:
        """Return the runs with an acknowledged claim, by task, in fence order."""
        by_task: dict[str, list[Run]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.fence):
            if run.outcome == "ok":
                by_task[run.task].append(run)
        return by_task

    def unheard(self) -> Counter[str]:
        """Return by task how many claims may or may not have been taken."""
        return Counter(run.task for run in self.runs if run.outcome == "unknown")


def _fold(run: Run, event: Event) -> None:
    facts = event.facts
    match event.kind:
        case "claimed":
            run.outcome, run.claimed = "ok", event.time
            run.fence, run.attempt, run.late = facts["fence"], facts["attempt"], facts["late"]
        case "refused":
            run.outcome, run.why = facts["outcome"], facts.get("why", "")
            run.announced = facts.get("announced", True)
        case "seen":
            run.seen, run.whole, run.looked = [(f, n) for f, n in facts["seen"]], facts["whole"], True
        case "effect":
            run.effects.append((event.time, facts["held"]))
        case "call":
            run.calls.append(Part(facts["name"], event.time, key=facts["key"]))
        case "got":
            run.got.append(Part(facts["name"], event.time, result=facts["result"], stored=facts["stored"]))
        case "write":
            run.writes.append(Write(facts["what"], facts["records"], event.time))
        case "written":
            run.writes[-1].outcome = facts["outcome"]
            run.writes[-1].what = facts.get("what", run.writes[-1].what)  # an end may come out as another one
            run.writes[-1].or_released = facts.get("or_released", False)
        case other:
            raise ValueError(f"a history has no {other}")
