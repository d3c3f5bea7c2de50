"""The checker finds each broken promise in a handmade history, and nothing in a correct one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.breaks import BREAKS, Action, did, got, paused, slot
from tests.chaos.checker import OF_ROWS, OF_RUNS, violations
from tests.chaos.events import Event, Log, read
from tests.chaos.faults import drawn
from tests.chaos.nemesis import blows
from tests.chaos.queue_story import change_queue, told
from tests.chaos.script import script
from tests.chaos.settings import Settings
from tests.chaos.story import sound


def test_a_history_without_a_fault_breaks_no_promise() -> None:
    story = sound()
    assert violations(story.history, story.final) == []


@pytest.mark.parametrize(
    ("promise", "actions"),
    [
        pytest.param(promise, actions, id=f"{promise}: {name}")
        for promise, ways in BREAKS.items()
        for name, actions in ways.items()
    ],
)
def test_a_broken_promise_is_found(promise: str, actions: Sequence[Action]) -> None:
    story = sound()
    for act in actions:
        act(story)
    assert promise in {violation.promise for violation in violations(story.history, story.final)}


def test_a_worker_that_was_frozen_before_the_first_line_of_its_block_may_be_late() -> None:
    story = sound()
    story.events += [Event(at, "crew", 0, kind, "worker-0-1", {}) for at, kind in ((8.5, "freeze"), (9.5, "wake"))]
    story.retell()
    run = story.run(2)
    run.claimed, run.late = 10.0, 0.6
    assert violations(story.history, story.final) == []

    run.late = 0.51
    story.history.frozen["worker-0-1"] = [(8.5, 9.4)]
    assert [each.promise for each in violations(story.history, story.final)] == ["no block begins after its lock"]


def test_a_claim_that_a_person_released_before_its_answer_arrived_may_be_taken_again_by_the_same_call() -> None:
    story = sound()
    story.history.releases["parcel-0", 5] = story.run(5).claimed - 0.5
    story.run(5).fence = 6
    story.book(deliver=[(6, 0)], progress=[(fence, 1) for fence in (1, 2, 3, 4, 6)])
    story.change(fence=6, unfinished=[1, 5], records=[*story.row.records[:-1], (6, 1)])
    assert violations(story.history, story.final) == []


def test_every_check_is_tried_on_a_history_that_it_refuses() -> None:
    assert {check.__name__.replace("_", " ") for check in (*OF_RUNS, *OF_ROWS)} == BREAKS.keys()


def test_a_success_without_an_answer_may_be_on_record_or_not() -> None:
    story = sound()
    story.end(5).outcome = "unknown"
    assert violations(story.history, story.final) == []

    story.change(code=33, attempt=4, records=story.row.records[:-1], unfinished=[1, 5])
    story.run(5).writes = [story.end(5)]
    story.book(deliver=[], progress=story.ledger["progress"][:-1])
    assert violations(story.history, story.final) == []


def test_a_cancelled_run_that_may_have_succeeded_has_otherwise_given_its_attempt_back() -> None:
    story = sound()
    story.end(2).what, story.end(2).outcome = "succeed", "unknown"
    story.run(3).attempt = 2
    assert [each.promise for each in violations(story.history, story.final)] == ["attempts are counted"]
    story.end(2).or_released = True
    assert violations(story.history, story.final) == []


def test_a_claim_without_an_answer_may_have_been_given_back() -> None:
    story = sound()
    story.change(fence=6)
    assert violations(story.history, story.final)
    story.tell(9, "claim", step="deliver")
    story.retell()
    assert violations(story.history, story.final) == []


def test_a_claim_whose_error_says_so_may_have_left_a_lock() -> None:
    story = sound()
    story.tell(9, "claim", step="deliver")
    story.tell(9, "refused", outcome="unknown", announced=True)
    story.retell()
    story.change(fence=6, unfinished=[1, 6])
    assert violations(story.history, story.final) == []


@pytest.mark.parametrize("excuse", ["too soon", "too late", "frozen", "unread", "resumed", "by name"])
def test_a_step_may_start_while_nobody_can_know_that_it_is_paused(excuse: str) -> None:
    story = sound()
    run = paused(story, {"too soon": 15.5, "too late": 23.0}.get(excuse, 17.0))
    run.controlled = excuse != "by name"
    if excuse == "frozen":
        story.history.frozen[run.worker].append((5.0, 14.0))
    elif excuse != "by name":
        worker = run.worker if excuse == "unread" else "worker-2-1"
        story.history.pauses.append(Event(10.0, worker, 7, "unread", "", {}))
    if excuse == "resumed":
        story.history.pauses.append(Event(10.0, "worker-2-1", 8, "resume", "", {"step": "weigh"}))

    assert violations(story.history, story.final) == []


def test_a_part_whose_result_is_not_known_to_be_stored_may_be_done_again() -> None:
    story = sound()
    for act in (did(1, stored=False), did(2), got(3, 2)):
        act(story)
    assert violations(story.history, story.final) == []


def test_a_released_worker_may_believe_that_it_holds_its_task() -> None:
    story = sound()
    story.run(1).effects.append((story.run(2).claimed + 1, True))
    assert violations(story.history, story.final)

    story.tell(9, "release", step="collect")
    story.tell(9, "released", fence=1)
    effects = story.run(1).effects
    story.retell()
    story.run(1).effects = effects

    assert violations(story.history, story.final) == []


def test_nobody_knows_which_claim_a_release_without_an_answer_has_released() -> None:
    story = sound()
    story.run(1).effects.append((story.run(2).claimed + 1, True))
    assert violations(story.history, story.final)
    story.history.doubtful["parcel-0"] += 1
    assert violations(story.history, story.final) == []


def test_a_slot_whose_response_came_after_its_end_was_never_held() -> None:
    story = sound()
    for act in (slot(1.0, "take", "a", left=2.0), slot(2.5, "take", "b", left=-0.1)):
        act(story)
    assert violations(story.history, story.final) == []


def test_a_cancelled_report_that_was_reopened_continues_after_its_branch() -> None:
    story = sound()
    change_queue(story.final, "report/r", marks=[(90, 1), (10, 2), (20, 3)])
    story.history.queues = [event for event in story.history.queues if (event.kind, event.task) != ("done", "report/r")]
    assert [each.promise for each in violations(story.history, story.final)] == ["steps of queues take turns"]
    told(story.history, "command", "report/r", what="reopen")
    assert violations(story.history, story.final) == []


def test_a_history_is_read_without_the_line_that_a_kill_tore(tmp_path: Path) -> None:
    log = Log(tmp_path, "worker-1-1")
    log.tell("create", "parcel-1")
    log.tell("created", "parcel-1", at=5.0)
    log.close()
    with (tmp_path / "worker-1-1.jsonl").open("ab") as file:
        file.write(b'[1.0,"worker-1-1"')

    told = read(tmp_path)

    assert [(event.kind, event.task) for event in told] == [("create", "parcel-1"), ("created", "parcel-1")]
    assert told[1].time == 5.0


def test_one_seed_means_the_same_faults_blows_and_scripts() -> None:
    one, same, other = (_decisions(Settings(seed=seed)) for seed in (7, 7, 8))
    assert one == same
    assert one != other


def _decisions(settings: Settings) -> list[object]:
    faults = [drawn(settings, "UpdateItem", ordinal)[0] for ordinal in range(200)]
    scripts = [script(settings, settings.drawn("script", "worker-0-1", number)) for number in range(50)]
    return [faults, blows(settings), scripts]
