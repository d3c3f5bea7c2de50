"""Workers as programs of their own, on dynoxide: signals, death, and several of them on one step."""

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pynamodb_tracker import Worker
from pynamodb_tracker.control.limit import SlotTable
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.processes import has_ended, until
from tests.worker.program import work
from tests.worker.programs import Program, Programs, programs
from tests.worker.shop import Order, Parcel, ShopTask

pytestmark = [pytest.mark.race, pytest.mark.skipif(os.name == "nt", reason="POSIX signals")]

PROCESSES = [1, 2]


@pytest.fixture
def started(dynamodb: Engine) -> Iterator[Programs]:
    with Dynoxide.of([ShopTask], dynamodb.endpoint), programs(dynamodb.endpoint, name()) as started:
        yield started


@pytest.fixture(scope="module")
def pair(dynamodb: Engine) -> Iterator[Program]:
    """Have one program with two processes for the tests that leave both at work; both are ready for signals."""
    with Dynoxide.of([ShopTask], dynamodb.endpoint), programs(dynamodb.endpoint, name()) as started:
        program = started.start(processes=2, threads=2, max_poll_interval=0.2)
        ids = [f"hold-first-{number}" for number in range(4)]
        Order.create_many(ids)
        assert len(set(heard(program, *ids).values())) == 2
        release(*ids)
        yield program
        program.send(signal.SIGTERM)
        assert program.wait() == 0
        *_, (ended, _) = program.said_at_the_end()
        assert ended == "ended"


def name() -> str:
    return ShopTask.Meta.table_name


def heard(program: Program, *task_ids: str) -> dict[str, int]:
    return {task_id: int(pid) for task_id, pid in (program.hear() for _ in task_ids)}


def statuses(program: Program) -> dict[int, str]:
    """Let a program print its status, and return the first line of each of its two processes."""
    before = len(program.err)
    program.send(signal.SIGUSR1)
    until(lambda: "\n".join(program.err[before:]).count("threads are busy") == 2)
    printed = program.err[before:]
    pids: Any = re.search(r"with the processes (\d+), (\d+)", "\n".join(printed))
    lines = {int(pid): line for line in printed for pid in pids.groups() if f":{pid}:" in line}
    assert len(lines) == 2
    return lines


def test_a_deployment_of_a_web_service_releases_the_tasks_of_its_worker(started: Programs) -> None:
    """The server owns SIGTERM, and ends the lifespan; no attempt is spent."""
    Order.create("o-1")
    service = started.start(main="tests.worker.service", grace=0)
    assert service.hear()[0] == "o-1"
    service.send(signal.SIGTERM)
    assert service.wait() in (0, -signal.SIGTERM)  # uvicorn sends itself the signal once it has ended
    assert service.said_at_the_end() == [("cancelled", ""), ("ended", "")]
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm.pending, 0)


def test_what_hangs_longer_than_the_grace_time_is_given_back(started: Programs) -> None:
    Order.create_many(["hang-1", "hang-2"])
    program = started.start(threads=2, processes=2, grace=0.1)
    heard(program, "hang-1", "hang-2")
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    [(_, tally)] = program.said_at_the_end()
    assert tally.startswith("0 succeeded, 0 failed, 0 ignored, ")
    assert tally.endswith(" refused, 2 released")  # two processes may have met
    for task_id in ("hang-1", "hang-2"):
        task = Order.get_task(task_id)
        assert (task.state, task.attempt) == (Order.confirm.pending, 0)


@pytest.mark.parametrize("processes", PROCESSES)
def test_an_exiting_process_gives_back_its_slots_although_its_functions_run(started: Programs, processes: int) -> None:
    Order.create_many(["hang-1", "hang-2"])
    slots = SlotTable(ShopTask.tracker.connection(), "desk", ShopTask.tracker.margin)
    program = started.start(threads=2 // processes, processes=processes, grace=0.1, limited=True)
    heard(program, "hang-1", "hang-2")
    assert [slot.until is None for slot in slots.read(range(2))] == [False, False]
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    assert [slot.until is None for slot in slots.read(range(2))] == [True, True]


def test_the_task_of_a_killed_worker_is_taken_over_by_another_one(started: Programs) -> None:
    Order.create("hang-1")
    killed = started.start(lock=1)
    heard(killed, "hang-1")
    killed.send(signal.SIGKILL)
    killed.wait()
    other = started.start(max_poll_interval=0.2)
    heard(other, "hang-1")
    task = Order.get_task("hang-1")
    assert (task.attempt, f":{other.pid}:" in str(task.worker)) == (2, True)


def test_a_task_that_kills_its_process_takes_no_other_task_with_it(started: Programs) -> None:
    Order.create_many(["poison", *(f"nap-{number:02}" for number in range(20))])
    program = started.start(processes=2, threads=3, lock=2, max_poll_interval=0.2)
    until(lambda: Order.ship.pending.count() + Order.confirm.ignored.count() == 21)
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    [poison] = Order.confirm.ignored.query()
    assert (poison.task_id, poison.attempt) == ("poison", 3)
    died = [sum(each.type == "abandoned" for each in task.errors) for task in Order.ship.pending.query()]
    assert max(died) == 1


def test_two_workers_on_one_step_share_its_tasks_and_run_each_once(started: Programs) -> None:
    ids = [f"hold-{number}" for number in range(12)]
    workers = [started.start(threads=4, max_poll_interval=0.2) for _ in range(2)]
    Order.create_many(ids)
    until(lambda: Order.confirm.in_progress.count() == 8)  # four of each: nothing ends before the release
    release(*ids)
    for worker in workers:
        worker.send(signal.SIGTERM)
        worker.wait()
    ran = [[task for task, _ in worker.said_at_the_end() if task != "ended"] for worker in workers]
    assert Counter([*ran[0], *ran[1]]) == Counter(ids)
    assert min(map(len, ran)) >= 4


def test_processes_end_when_their_parent_is_killed_and_give_back_what_they_run(started: Programs) -> None:
    Order.create_many(["hang-1", "hang-2"])
    program = started.start(processes=2, grace=0.1)
    workers = heard(program, "hang-1", "hang-2")
    program.send(signal.SIGKILL)
    program.wait()
    assert len(set(workers.values())) == 2
    assert all(has_ended(pid) for pid in workers.values())
    assert Order.confirm.in_progress.count() == 0


def test_a_process_that_dies_is_replaced_where_the_worker_ends_when_idle_too(started: Programs) -> None:
    Order.create("hang-1")
    program = started.start(processes=2, until_idle=True, lock=1, grace=0.1)
    pid = heard(program, "hang-1")["hang-1"]
    Order.create_many(f"o-{number}" for number in range(20))
    Order.confirm.ignore("hang-1", reason="it would be taken over first, and hang again", even_running=True)
    program.send(signal.SIGKILL, pid)
    until(lambda: any("a new process takes over" in line for line in program.err))
    until(lambda: Order.confirm.pending.count() == 0)
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_stop_in_a_function_of_a_process_stops_the_worker(started: Programs) -> None:
    Order.create("stop-1")
    program = started.start(processes=2)
    program.hear()
    assert program.wait() == 0
    assert Order.ship.pending.count() == 1


def test_sys_exit_in_a_function_of_a_process_ends_the_worker_with_it(started: Programs) -> None:
    Order.create("exit-1")
    assert started.start(processes=2).wait() == 7
    assert Order.get_task("exit-1").state == Order.confirm.failed  # once: the other process had nothing to do with it


def test_sigusr1_lets_each_process_print_what_it_does(pair: Program) -> None:
    Order.create("hold-1")
    [busy] = heard(pair, "hold-1").values()

    def busy_threads() -> dict[bool, str]:
        return {pid == busy: line.rpartition(": ")[2] for pid, line in statuses(pair).items()}

    # The other process may still be at its refused try to start the task.
    until(lambda: busy_threads() == {True: "1 of 2 threads are busy", False: "0 of 2 threads are busy"})
    until(lambda: any(line.startswith("  Order.confirm of 'hold-1' (attempt 1): ") for line in pair.err))
    release("hold-1")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0)], ids=["dies", "is stopped"])
def test_a_process_that_dies_or_that_somebody_stops_is_replaced(pair: Program, number: int, code: int) -> None:
    first, other = statuses(pair)
    pair.send(number, first)
    until(lambda: any(f"process {first} of the worker ended by itself, with exit code {code}" in x for x in pair.err))
    ids = [f"hold-{code}-{each}" for each in range(4)]
    Order.create_many(ids)
    at_work = set(heard(pair, *ids).values())  # two threads of each process
    assert first not in at_work
    assert other in at_work
    assert len(at_work) == 2
    release(*ids)


def release(*task_ids: str) -> None:
    Parcel.create("release")
    until(lambda: all(Order.get_task(task_id).state == Order.ship.pending for task_id in task_ids))
    Parcel.delete_task("release")


def test_a_worker_survives_that_its_table_is_gone_for_a_while(started: Programs) -> None:
    """It is the program, not a part of it, that must not end."""
    program = started.start(max_poll_interval=0.2)
    until(lambda: "a worker runs" in "".join(program.err))
    ShopTask.delete_table()
    until(lambda: "keeps trying: MissingTableError" in "".join(program.err))
    ShopTask.create_table(wait=True)
    Order.create("o-1")
    assert program.hear()[0] == "o-1"
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_what_another_process_cannot_import_is_refused_before_any_request() -> None:
    with pytest.raises(ValueError, match="at the top level of a module"):
        Worker({Order.ship: lambda _: None}, processes=2)
    Worker({Order.confirm: work}, processes=2)
