"""Workers as programs of their own, on DynamoDB Local: signals, death, and several of them on one step."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from pynamodb_tracker import Worker
from tests.demo.test_on_server import has_ended
from tests.engine.dynamodb_local import Engine
from tests.support.engines import DynamoDBLocal
from tests.support.processes import until
from tests.worker.program import work
from tests.worker.programs import Program, Programs, programs
from tests.worker.shop import Order, ShopTask

pytestmark = [
    pytest.mark.race,
    pytest.mark.skipif(os.name == "nt", reason="POSIX signals"),
]

PROCESSES = [1, 2]


@pytest.fixture
def started(dynamodb_local: Engine) -> Iterator[Programs]:
    with DynamoDBLocal.of([ShopTask], dynamodb_local.endpoint), programs(dynamodb_local.endpoint, name()) as started:
        yield started


def name() -> str:
    return ShopTask.Meta.table_name


def heard(program: Program, *task_ids: str) -> dict[str, int]:
    """Return by task which process runs it, once all of these run."""
    return {task_id: int(pid) for task_id, pid in (program.hear() for _ in task_ids)}


@pytest.mark.parametrize("processes", PROCESSES)
def test_sigterm_while_it_works_leaves_no_task_in_progress(started: Programs, processes: int) -> None:
    Order.create_many((f"slow-{number:03}" for number in range(300)), threads=4)
    program = started.start(threads=4, processes=processes)
    program.hear()
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    assert Order.confirm.in_progress.count() == 0
    ran = [task for task, _ in program.said_at_the_end() if task != "ended"]
    assert Order.ship.pending.count() == len(ran) + 1
    assert Order.confirm.pending.count() == 300 - len(ran) - 1 > 0


@pytest.mark.parametrize("processes", PROCESSES)
def test_what_hangs_longer_than_the_grace_time_is_given_back(started: Programs, processes: int) -> None:
    Order.create_many(["hang-1", "hang-2"])
    program = started.start(threads=2, processes=processes, grace=0.1)
    heard(program, "hang-1", "hang-2")
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    [(_, told)] = program.said_at_the_end()
    assert told.startswith("0 succeeded, 0 failed, 0 ignored, ")
    assert told.endswith(" refused, 2 released")  # two processes may have met
    for task_id in ("hang-1", "hang-2"):
        task = Order.get_task(task_id)
        assert (task.state, task.attempt) == (Order.confirm.pending, 0)


def test_what_a_killed_worker_had_in_its_hands_is_taken_over_by_another_one(started: Programs) -> None:
    Order.create("hang-1")
    killed = started.start(lock=1)
    heard(killed, "hang-1")
    killed.send(signal.SIGKILL)
    killed.wait()
    other = started.start(longest_pause=1)
    heard(other, "hang-1")
    task = Order.get_task("hang-1")
    assert (task.attempt, task.worker.endswith(f":{other.pid}")) == (2, True)


def test_two_workers_on_one_step_share_its_tasks_and_run_each_once(started: Programs) -> None:
    ids = [f"slow-{number:03}" for number in range(120)]
    workers = [started.start(longest_pause=1) for _ in range(2)]
    until(lambda: all("a worker runs" in "".join(worker.err) for worker in workers))
    Order.create_many(ids, threads=4)
    until(lambda: Order.ship.pending.count() == len(ids))
    for worker in workers:
        worker.send(signal.SIGTERM)
        worker.wait()
    ran = [[task for task, _ in worker.said_at_the_end() if task != "ended"] for worker in workers]
    assert Counter([*ran[0], *ran[1]]) == Counter(ids)
    assert min(map(len, ran)) > 10


def test_processes_share_the_tasks_and_add_up_what_they_did(started: Programs) -> None:
    Order.create_many((f"slow-{number:03}" for number in range(100)), threads=4)
    program = started.start(processes=2, threads=2, until_idle=True)
    assert program.wait() == 0
    *ran, (ended, told) = program.said_at_the_end()
    assert ended == "ended"
    assert told.startswith("100 succeeded, 0 failed, 0 ignored, ")
    assert len(ran) == 100
    assert str(program.pid) not in {pid for _, pid in ran}


@pytest.mark.parametrize("processes", PROCESSES)
def test_a_second_ctrl_c_ends_it_at_once(started: Programs, processes: int) -> None:
    Order.create("hang-1")
    program = started.start(processes=processes, grace=3600)
    [worker] = heard(program, "hang-1").values()
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    until(lambda: "the worker stops" in "".join(program.err))
    os.killpg(program.pid, signal.SIGINT)
    assert program.wait() in (-signal.SIGINT, 130)  # as Python ends by a KeyboardInterrupt
    assert has_ended(worker)
    assert Order.get_task("hang-1").state == Order.confirm.in_progress


def test_one_ctrl_c_for_all_processes_of_a_terminal_stops_them_in_order(started: Programs) -> None:
    Order.create_many((f"slow-{number:03}" for number in range(100)), threads=4)
    program = started.start(processes=2)
    program.hear()
    os.killpg(program.pid, signal.SIGINT)
    assert program.wait() == 0
    assert Order.confirm.in_progress.count() == 0


def test_processes_end_when_their_parent_is_killed_and_give_back_what_they_run(started: Programs) -> None:
    Order.create_many(["hang-1", "hang-2"])
    program = started.start(processes=2, grace=0.1)
    workers = heard(program, "hang-1", "hang-2")
    program.send(signal.SIGKILL)
    program.wait()
    assert len(set(workers.values())) == 2
    assert all(has_ended(pid) for pid in workers.values())
    assert Order.confirm.in_progress.count() == 0


def test_a_process_that_dies_is_replaced(started: Programs) -> None:
    Order.create("hang-1")
    program = started.start(processes=2, threads=1, longest_pause=1, grace=0.1)
    [first] = heard(program, "hang-1").values()
    program.send(signal.SIGKILL, first)
    until(lambda: "ended by itself, with exit code -9: another one is started" in "".join(program.err))
    Order.create_many(["hang-2", "hang-3"])
    workers = heard(program, "hang-2", "hang-3")
    assert len({first, *workers.values()}) == 3
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_a_process_that_dies_is_replaced_where_the_worker_ends_when_idle_too(started: Programs) -> None:
    Order.create("hang-1")
    program = started.start(processes=2, until_idle=True, lock=1)
    pid = heard(program, "hang-1")["hang-1"]
    Order.create_many(f"o-{number}" for number in range(20))
    program.send(signal.SIGKILL, pid)
    until(lambda: any("another one is started" in line for line in program.err))
    until(lambda: Order.confirm.pending.count() == 0)
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_stop_in_a_function_of_a_process_stops_the_worker(started: Programs) -> None:
    Order.create("stop-1")
    program = started.start(processes=2)
    program.hear()
    assert program.wait() == 0
    assert Order.ship.pending.count() == 1


def test_a_process_that_somebody_stops_is_replaced(started: Programs) -> None:
    Order.create("slow-1")
    program = started.start(processes=2, longest_pause=1)
    [first] = heard(program, "slow-1").values()
    program.send(signal.SIGTERM, first)
    until(lambda: "ended by itself, with exit code 0: another one is started" in "".join(program.err))
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    assert program.said_at_the_end()[-1][1].startswith("1 succeeded")


def test_a_process_that_never_begins_to_work_ends_the_worker(started: Programs) -> None:
    program = started.start(processes=2, broken=True)
    assert program.wait() == 1
    assert "before it began to work: see what it printed" in "\n".join(program.err)


def test_sys_exit_in_a_function_of_a_process_ends_the_worker_with_it(started: Programs) -> None:
    Order.create("exit-1")
    program = started.start(processes=2)
    assert program.wait() == 7
    assert Order.get_task("exit-1").state == Order.confirm.failed  # once: the other process had nothing to do with it


def test_sigusr1_lets_each_process_print_what_it_does(started: Programs) -> None:
    Order.create("hang-1")
    program = started.start(processes=2, threads=3)
    [worker] = heard(program, "hang-1").values()
    program.send(signal.SIGUSR1)
    until(lambda: "".join(program.err).count("threads are busy") == 2)
    told = "\n".join(program.err)
    assert f"{worker}: 1 of 3 threads are busy" in told
    assert "  Order.confirm of 'hang-1' (attempt 1): " in told
    assert "its processes are " in told


def test_a_worker_goes_on_when_the_table_does_not_answer_for_a_while(started: Programs) -> None:
    """It is the program, not a part of it, that must not end."""
    program = started.start(longest_pause=0.2)
    until(lambda: "a worker runs" in "".join(program.err))
    ShopTask.delete_table()
    until(lambda: "keeps trying: QueryError" in "".join(program.err))
    ShopTask.create_table(wait=True)
    Order.create("o-1")
    assert program.hear()[0] == "o-1"
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_what_another_process_cannot_import_is_refused_before_any_request() -> None:
    with pytest.raises(ValueError, match="at the top level of a module"):
        Worker({Order.confirm: lambda _: None}, processes=2)
    Worker({Order.confirm: work}, processes=2)
