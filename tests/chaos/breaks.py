"""Ways to break each promise in a correct history, by name. The checker must find every one."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.chaos.events import Event
from tests.chaos.final import Entry
from tests.chaos.pipeline import END
from tests.chaos.queue_story import change_queue, told
from tests.chaos.runs import Part, Run, Write
from tests.chaos.story import TASK, Story

Action = Callable[[Story], object]
PROGRESS = [(fence, 1) for fence in range(1, 6)]


def change(**facts: Any) -> Action:
    return lambda story: story.change(**facts)


def book(**accounts: Any) -> Action:
    """Replace accounts of the task's ledger."""
    return lambda story: story.book(**accounts)


def run(number: int, /, **facts: Any) -> Action:
    return lambda story: vars(story.run(number)).update(facts)


def end(number: int, /, **facts: Any) -> Action:
    return lambda story: vars(story.end(number)).update(facts)


def refused(error: str) -> Action:
    return lambda story: story.history.runs.append(Run("worker-0-1", 9, TASK, "deliver", "refused", error))


def sent(fence: int, what: str, *, after: int) -> Action:
    """Let that run send a write after a later claim."""
    return lambda story: story.run(fence).writes.append(Write(what, 0, story.run(after).claimed + 1))


def released(fence: int) -> Action:
    """Let a person release that run's task before its next claim."""
    return lambda story: vars(story.run(fence)).update(released=story.run(fence + 1).claimed - 1)


def tell(kind: str, **facts: Any) -> Action:
    return lambda story: story.tell(9, kind, **facts)


def called(fence: int, *, key: str = "key", time: float = 0.0) -> Action:
    return lambda story: story.run(fence).calls.append(part(fence, key=key, time=time))


def got(fence: int, result: int, *, stored: bool = True) -> Action:
    return lambda story: story.run(fence).got.append(part(result, stored=stored))


def part(fence: int, *, stored: bool = True, time: float = 0.0, key: str = "key") -> Part:
    return Part("charge", time, key=key, result=fence, stored=stored)


def did(fence: int, *, stored: bool = True) -> Action:
    """Let that run do the part, and get its own result."""

    def do(story: Story) -> None:
        called(fence)(story)
        got(fence, fence, stored=stored)(story)

    return do


def paused(story: Story, begun: float) -> Run:
    """Let the step be paused, and its run begin at that time."""
    for at, kind, facts in ((0.0, "pause", {"step": "weigh", "seconds": 25.0}), (1.0, "paused", {})):
        story.history.pauses.append(Event(at, "worker-1-1", 7, kind, "", facts))
    run = story.run(4)
    run.controlled, run.begun = True, begun
    return run


def slot(at: float, kind: str, token: str, *, number: int = 0, **facts: Any) -> Action:
    """Add an event of the worker with that token."""
    event = Event(at, f"worker-{token}", number, kind, "", {"token": token, **facts})
    return lambda story: vars(story.history).update(slots=[*story.history.slots, event])


def chunks(task: str, *keys: str) -> Action:
    return lambda story: story.final.chunks.update({task: list(keys)})


def queue(named: str, **facts: Any) -> Action:
    return lambda story: change_queue(story.final, named, **facts)


def gone(named: str) -> Action:
    return lambda story: story.final.queues.pop(named)


def say(kind: str, named: str, **facts: Any) -> Action:
    """Add an event about a task of a queue."""
    return lambda story: told(story.history, kind, named, **facts)


def begin_as_tried_last(story: Story) -> None:
    *_, tried, began = story.history.queues
    story.history.queues[-1] = replace(began, run=tried.run)


def group(**facts: Any) -> Action:
    return lambda story: story.final.groups.update(van=replace(story.final.groups["van"], **facts))


def group_log(*places: int) -> Action:
    """Let the group's log have these entries in this order."""
    return lambda story: group(log=[story.final.groups["van"].log[place] for place in places])(story)


BREAKS: dict[str, dict[str, Sequence[Action]]] = {
    # A task's runs.
    "fences are unique": {"two claims with one fence": [run(4, fence=5)]},
    "one owner at a time": {
        "effect after a later claim": [
            lambda story: story.run(2).effects.append((story.run(3).claimed + 1, True)),
        ],
    },
    "no block begins after its lock": {"block after its lock": [run(4, late=1.0)]},
    "losers write nothing": {
        "late finish accepted": [lambda story: vars(story.end(2)).update(invoked=story.run(3).claimed + 1)],
    },
    "no success is repeated": {"success and again": [run(5, step="weigh")]},
    "no step is skipped": {
        "step without the one before": [end(4, what="fail")],
        "back to an earlier step": [end(4, outcome="unknown"), run(5, step="collect")],
    },
    "attempts are counted": {
        "attempts beyond the limit": [run(3, attempt=5)],
        "attempt of a dead worker forgotten": [run(2, attempt=1), run(3, attempt=2)],
    },
    "refusals are true": {
        "refused as done by nobody": [end(5, what="fail"), refused("TaskAlreadySucceededError")],
        "refused as missing": [refused("TaskNotFoundError")],
    },
    "nothing crashed": {"error of another kind": [lambda story: story.history.crashes.append("KeyError")]},
    # A task's row.
    "rows are whole": {
        "torn row seen": [run(4, whole=False)],
        "torn row left": [change(whole=False)],
        "row of a query torn": [lambda story: story.history.torn.append("torn parcel-0")],
    },
    "records only grow": {
        "older version seen": [run(5, seen=[(3, 1)])],
        "records out of order": [change(records=[(3, 1), (2, 1), (4, 1), (5, 1)])],
    },
    "acknowledged records stay": {
        "acknowledged save gone": [
            run(3, seen=[]),
            run(4, seen=[(3, 1)]),
            run(5, seen=[(3, 1), (4, 1)]),
            change(records=[(3, 1), (4, 1), (5, 1)]),
        ],
        "acknowledged save gone in the end": [change(records=[(2, 1), (3, 1), (4, 1)])],
    },
    "losers leave no record": {
        "record of a loser": [run(5, writes=[Write("succeed", 1, 30.0, "lost")])],
        "record of nobody": [change(records=[(2, 1), (3, 1), (4, 1), (5, 1), (5, 2)])],
        "record without the one before": [change(records=[(2, 1), (3, 1), (4, 1), (5, 2)])],
        "records out of order": [change(records=[(3, 1), (2, 1), (4, 1), (5, 1)])],
    },
    "every task ended": {
        "left in progress": [change(code=31)],
        "created and gone": [lambda story: story.history.created.add("parcel-9")],
        "there and never created": [lambda story: story.history.asked.clear()],
    },
    "successes are on record": {
        "success forgotten": [change(code=33, attempt=4)],
        "success of nobody": [lambda story: story.history.runs.remove(story.run(5))],
    },
    "nothing is ignored without a reason": {"ignored for nothing": [end(5, what="fail"), change(code=33, attempt=1)]},
    "counts are within bounds": {
        "too many attempts left": [change(attempt=1)],
        "fence went back": [change(fence=4)],
    },
    "ends are remembered": {
        "finished and unfinished": [change(unfinished=[1, 3])],
        "died and finished": [change(unfinished=[])],
        "fence of nobody": [change(fence=6)],
        # It left without a note, and without a line in the log.
        "interrupted and not recorded": [
            lambda story: story.events[-1].facts.update(interrupt="OutOfTime"),
            Story.retell,
            change(code=31, unfinished=[1, 5]),
        ],
    },
    "the index is exact": {
        "entry missing": [lambda story: vars(story).update(final=replace(story.final, index=Counter()))],
        "entry stale": [
            lambda story: story.final.index.update([Entry(TASK, "parcel#31#0", "2026-01-01T00:00:05")]),
        ],
        "key of another state": [
            lambda story: story.change(entry=replace(story.row.entry, status_key="parcel#30#0")),
        ],
        "times out of order": [change(update_time="2026-01-01T00:00:10")],
    },
    "queries agree with the rows": {
        "wrong counts": [lambda story: story.final.counts.update({END: 2})],
        "queried twice": [lambda story: story.final.queried[END].append(TASK)],
    },
    "chunks are bounded": {
        "third slot": [chunks(TASK, "parcel#data#A#0", "parcel#data#C#0")],
        "without a row": [chunks("parcel-9", "parcel#data#A#0")],
        "with a gap": [chunks(TASK, "parcel#data#B#0", "parcel#data#B#2")],
    },
    # Branches, postponements, parts and pauses.
    "branches are chosen": {
        "step that nobody has chosen": [
            lambda story: story.history.runs.append(Run("worker-0-1", 9, TASK, "send_back", "ok", fence=6)),
        ],
        "passed over and not told": [change(skipped_steps=[])],
    },
    "ends leave nothing of attempts": {"parts left behind": [change(of_round=["checkpoints"])]},
    "fatal tasks are ignored": {
        "fatal task that succeeded": [lambda story: story.final.rows.update({"parcel-20": story.row})],
    },
    "postponements use up no attempt": {"attempt of a postponement": [end(2, what="postpone")]},
    "stored parts are not repeated": {
        "stored and repeated": [did(1), did(2)],
        "taken along and repeated": [did(2, stored=False), did(3)],
        "another result": [did(2), got(3, 1)],
        "result of nobody": [got(3, 2)],
    },
    "keys of parts stay": {
        "another key": [called(1), called(2, key="other")],
        "one key for two": [did(4), did(5)],
    },
    "losers store no part": {
        "stored by a loser": [got(2, 2), lambda story: called(2, time=story.run(3).claimed + 1)(story)],
    },
    "paused steps stand still": {"started while it was paused": [lambda story: paused(story, 17.0)]},
    # Transactions.
    "successes are booked exactly once": {
        "booked twice": [book(weigh=[(4, 0), (4, 0)])],
        "booked by two": [end(3, outcome="unknown"), run(3, step="weigh"), book(weigh=[(3, 0), (4, 0)])],
        "succeeded and not booked": [book(deliver=[])],
        "succeeded without an answer and not booked": [end(5, outcome="unknown"), book(deliver=[])],
        "booked for another": [book(weigh=[(3, 0)])],
        "booked and not on record": [end(5, outcome="unknown"), change(code=33, attempt=1, unfinished=[1, 5])],
        "booked where none is to be": [book(collect=[(3, 0)])],
        "ledger of no task": [lambda story: story.final.ledger.update({"parcel-9": {"weigh": [(1, 0)]}})],
    },
    "booked successes are whole": {
        "booked for another": [book(weigh=[(3, 0)])],
        "booked for a failure": [end(5, what="fail")],
        "booked for a loser": [end(5, outcome="lost")],
        "booked and unfinished": [end(5, outcome="unknown"), change(unfinished=[1, 5])],
        "booked without its records": [
            end(5, outcome="unknown"),
            lambda story: story.change(records=story.row.records[:-1]),
        ],
    },
    "transactions are as told": {
        "applied and not counted": [book(progress=PROGRESS[:-1])],
        "applied twice": [
            lambda story: vars(story.run(2).commits[0]).update(outcome="unknown"),
            book(progress=[(1, 1), (2, 1), *PROGRESS[1:]]),
        ],
        "told as not applied and counted": [lambda story: vars(story.run(2).commits[0]).update(outcome="none")],
        "told as lost and counted": [lambda story: vars(story.run(2).commits[0]).update(outcome="lost")],
        "counted for nobody": [book(progress=[(1, 1), (2, 1), (2, 2), *PROGRESS[2:]])],
    },
    "losers leave no mark": {
        "counted after a later fence": [book(progress=[(1, 1), (3, 1), (2, 1), (4, 1), (5, 1)])],
        "counted though it was taken over": [
            sent(2, "commit", after=3),
            book(progress=[(1, 1), (2, 1), (2, 2), *PROGRESS[2:]]),
        ],
        "booked though it was taken over": [
            lambda story: vars(story.end(4)).update(outcome="unknown", invoked=story.run(5).claimed + 1),
        ],
    },
    # People, interrupts and forks.
    "released runs record nothing": {
        "ended though it was released": [released(2)],
        "saved after it was released": [
            released(1),
            lambda story: story.run(1).writes.append(Write("save", 0, story.run(1).released + 0.5, "ok")),
        ],
    },
    "children of forks write nothing": {
        "written by a child": [lambda story: story.history.children.append("child parcel-0")],
    },
    "losses are true": {
        "released and finished": [released(3), end(3, outcome="unknown")],
        "told as lost and finished": [end(2, outcome="lost")],
    },
    "locks of nobody are announced": {
        "locked by nobody": [change(fence=6, unfinished=[1, 6])],
        "locked though the error denied it": [
            tell("claim", step="deliver"),
            tell("refused", outcome="unknown", announced=False),
            Story.retell,
            change(fence=6, unfinished=[1, 6]),
        ],
    },
    # A limit's slots.
    "no slot is held twice": {
        "before it has expired": [slot(1.0, "take", "a", left=2.0), slot(2.9, "take", "b", left=2.0)],
        "although it was renewed": [
            slot(1.0, "take", "a", left=2.0),
            slot(2.0, "renew", "a", left=2.0),
            slot(3.5, "take", "b", left=2.0),
        ],
        "after another one was returned": [
            slot(1.0, "take", "a", left=2.0),
            slot(1.0, "take", "c", left=2.0, number=1),
            slot(1.5, "return", "c", number=1),
            slot(2.0, "take", "b", left=2.0),
        ],
    },
    "slots above the number are not taken": {"above the number": [slot(1.0, "take", "a", left=2.0, number=3)]},
    "slots come back": {
        "locked forever": [lambda story: vars(story).update(final=replace(story.final, lost_slots=[0]))],
    },
    # Merges, schedules, follow-ups, joins and groups.
    "groups are worked off": {"turn left": [group(turn="m")]},
    "groups have what their tasks did": {"success without its group": [group_log(1, 2, 3)]},
    "groups keep their order": {"two at once": [group_log(0, 2, 1, 3)], "out of order": [group_log(2, 3, 0, 1)]},
    "tasks of queues are there": {
        "created and lost": [gone("sale/s")],
        "created by nobody": [lambda story: story.final.queues.update({"sale/t": story.final.queues["sale/s"]})],
    },
    "queues are worked off": {
        "left waiting": [queue("report/r", code=20, waits=1)],
        "part left": [queue("part/r/0", code=12)],
    },
    "marks are those of successes": {
        "acknowledged without a mark": [queue("part/r/0", marks=[])],
        "marked though it failed": [queue("poll/bank", marks=[(10, 1), (10, 2), (10, 3), (10, 9)])],
        "marked out of order": [queue("poll/bank", marks=[(10, 2), (10, 1), (10, 9)])],
        "text of a loser": [queue("part/r/0", text=2)],
        "created and lost": [gone("sale/s")],
    },
    "steps of queues take turns": {
        "step done twice": [queue("sale/s", marks=[(10, 1), (10, 2)])],
        "step left out": [queue("index/key-0", marks=[(10, 1), (20, 2), (20, 4)])],
    },
    "cancelled runs record nothing": {"succeeded though cancelled": [say("cancelled", "sale/s", fence=1)]},
    "requests are counted once": {
        "request lost": [queue("index/key-0", done=["a", "c"])],
        "request done twice": [queue("index/key-0", done=["a", "b", "b", "c"])],
        "request in two places": [queue("index/key-1", asks=["d", "e"])],
        "request of nobody": [queue("index/key-0", done=["a", "b", "c", "x"])],
    },
    "nothing is asked of the dead": {"request left in an end": [queue("index/key-0", done=["a", "b"], again=["c"])]},
    "occurrences are on the grid and once": {
        "off the grid": [queue("poll/bank", occurrences=[100.0, 101.2, 103.0])],
        "twice": [queue("poll/bank", occurrences=[100.0, 101.0, 101.0, 103.0])],
    },
    "extra turns were asked for": {"extra turn of nobody": [queue("poll/bank", extras=[100.2])]},
    "no occurrence is early": {
        "occurrence early": [
            say("occurrence", "poll/bank", occurrence=103.0, early=0.1, fence=9, attempt=1, ending="succeed"),
        ],
    },
    "no occurrence is left out": {"occurrence left out": [queue("poll/bank", occurrences=[100.0, 103.0])]},
    "schedules go on": {"schedule ended": [queue("poll/bank", code=1000)]},
    "follow ups come with their success": {
        "follow-up missing": [gone("notice/s/10/1")],
        "follow-up of a loser": [queue("notice/s/10/1", made_by=2)],
        "follow-up without a success": [queue("sale/s", marks=[])],
    },
    "alerts are for what is ignored": {
        "ignored without an alert": [gone("alert/s")],
        "alert for nothing": [queue("sale/s", code=20)],
    },
    "joins are not early": {
        "collected before its parts": [say("collect", "report/r", found={"r/0": 12}, is_late=False, waits=None)],
        "collected while it waited": [say("collect", "report/r", found={"r/0": 1000}, is_late=False, waits=1)],
    },
    "what is cancelled stays so": {
        "begun though cancelled": [
            say("stopped", "report/r", children=["part/r/0"]),
            say("try", "part/r/0", step=10),
            say("began", "part/r/0", step=10, fence=9, attempt=1, ending="boom"),
            begin_as_tried_last,
        ],
    },
    "parts come with their report": {
        "part missing": [gone("part/r/1")],
        "part without a split": [queue("report/r", marks=[])],
    },
    "first signals count": {
        "another answer": [say("counted", "bill/b", name="paid", value="y")],
        "signal of nobody": [
            say("send", "bill/b", name="approved", value="x"),
            queue("bill/b", signals={"paid": "x", "approved": "y"}),
        ],
        "answer lost": [queue("bill/b", signals={})],
    },
    "one event counts": {
        "paid twice": [say("counted", "bill/b", name="paid", value="x", key=key) for key in "ab"],
    },
    "decisions know all signals": {
        "cancelled though paid": [queue("bill/b", decided={"paid": None, "approved": None})],
    },
    "bills wait for their signals": {
        "settled too early": [say("settle", "bill/b", found={"paid": "x"}, missing=["approved"], is_late=False)],
        "still awaited": [queue("bill/b", awaits=["approved"])],
    },
    "counters are exact": {
        "counter left": [queue("report/r", waits=1)],
        "parent left": [queue("part/r/1", parent="report#0#r")],
    },
}
