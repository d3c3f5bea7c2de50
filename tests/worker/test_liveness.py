"""Whether a worker is alive, and how the probe of a container sees it."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext, Worker
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.source import Given
from pynamodb_tracker.worker import team as worker_team
from pynamodb_tracker.worker.process_team import READY, ProcessTeam
from pynamodb_tracker.worker.shutdown import Messages
from pynamodb_tracker.worker.team import SILENCE, ThreadTeam, give_signs_of_life
from tests.worker.shop import Order

pytestmark = pytest.mark.usefixtures("shop")

LONGEST = timedelta(seconds=2)
MOMENT = timedelta(seconds=1)


def nothing(_ctx: ExecutionContext[Any]) -> None:
    pass


def team_of(*, threads: int = 1, rate: float | None = None) -> ThreadTeam:
    return ThreadTeam(Worker({Order.confirm: nothing}, threads=threads, rate=rate)._settings, Messages())


def is_alive(team: ThreadTeam | ProcessTeam) -> bool:
    return team.is_alive


def test_a_worker_is_alive_as_long_as_it_looks_for_tasks(shop: StoppedClock) -> None:
    team = team_of()
    shop.advance(LONGEST + SILENCE)
    assert is_alive(team)
    shop.advance(MOMENT)
    assert not is_alive(team)
    Order.create("o-1")
    assert team.dispatcher.take() is not None
    assert is_alive(team)


def test_a_worker_whose_threads_all_run_tasks_or_that_is_stopped_is_alive(shop: StoppedClock) -> None:
    team = team_of(threads=2)
    shop.advance(LONGEST + SILENCE + MOMENT)
    [source] = team.dispatcher.sources
    team.begin(Given(source, "o-1", None, is_follow_up=False))
    assert not is_alive(team)
    team.begin(Given(source, "o-2", None, is_follow_up=False))
    assert is_alive(team)
    idle = team_of()
    shop.advance(LONGEST + SILENCE + MOMENT)
    idle.stop()
    assert is_alive(idle)


def test_a_worker_that_waits_for_its_rate_is_alive(shop: StoppedClock) -> None:
    team = team_of(rate=0.001)
    shop.advance(timedelta(seconds=1000))
    assert is_alive(team)


def test_a_worker_is_alive_if_each_of_its_processes_has_said_so_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    team = ProcessTeam(Worker({Order.confirm: nothing})._settings, 2, Messages())
    first, second = team._supervisors
    assert is_alive(team)
    monkeypatch.setattr(second, "_last_sign", second._last_sign - SILENCE.total_seconds() - 1)
    assert not is_alive(team)
    second._receive(READY)
    assert is_alive(team)
    team.stop()
    monkeypatch.setattr(first, "_last_sign", first._last_sign - SILENCE.total_seconds() - 1)
    assert is_alive(team)


def test_signs_of_life_end_when_the_worker_is_not_alive_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_team, "_SIGN_INTERVAL", 0.001)
    asked, given = threading.Semaphore(0), threading.Semaphore(0)
    answers = iter([True, True])

    def is_alive() -> bool:
        asked.release()
        return next(answers, False)

    with give_signs_of_life(is_alive, given.release):
        assert all(asked.acquire(timeout=30) for _ in range(5))
    assert [given.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]


def test_the_health_file_is_there_from_the_start_and_where_it_cannot_be_nothing_runs(tmp_path: Path) -> None:
    seen: list[bool] = []
    path = tmp_path / "alive"
    Order.create("o-1")
    Worker({Order.confirm: lambda _: seen.append(path.exists())}).run(until_idle=True, health_file=path)
    Order.create("o-2")
    with pytest.raises(FileNotFoundError):
        Worker({Order.confirm: nothing}).run(health_file=tmp_path / "missing" / "alive")
    assert seen == [True]
    assert Order.get_task("o-2").state == Order.confirm.pending
