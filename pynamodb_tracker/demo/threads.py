"""Workers as threads of this process, on moto and a stopped clock: pauses and locks are over once nobody works."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pynamodb_tracker import BoundStep, ExecutionContext, GiveUp, LockLostError, State, TaskIgnoredError
from pynamodb_tracker.demo.accidents import Accidents
from pynamodb_tracker.demo.pipeline import LOCK, MARGIN, Order, OutsideError, Worker, steps
from pynamodb_tracker.testing import StoppedClock

__all__ = ["Threads"]

_IDLE = LOCK + 2 * MARGIN
"""How far the clock moves when there is nothing to do now: every pause and every lock is over then."""


class Threads:
    """Workers that each run one order; of those that die, the threads hang until the demo is over.

    A thread cannot be killed, and a `with` block that is left in any way is recorded. So a worker dies by standing
    still in the middle of its block, as a frozen machine does: the others can only take its order over once its lock
    has ended. When the demo is over it comes back, believes that it succeeded, and is told that it lost its lock.
    """

    def __init__(self, count: int, accidents: Accidents, orders: int) -> None:
        self.died = 0
        self.came_back = 0
        self._counts: Counter[State[Order]] = Counter({Order.confirm_payment.pending: orders})
        self._count = count
        self._worker = Worker(accidents, self._die)
        self._slots = threading.Semaphore(count)
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._broken: list[BaseException] = []

    @contextmanager
    def at_work(self) -> Iterator[Threads]:
        """Let those that died come back at the end, and wait for all threads."""
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def work_off(self, clock: StoppedClock, show: Callable[[Mapping[State[Order], int]], None]) -> None:
        """Run what there is to do until nothing is left, neither now nor later."""
        while True:
            if sum(self._turn(step, show) for step in steps()):
                continue
            if not any(self._counts[state] for step in steps() for state in (step.failed, step.in_progress)):
                return
            clock.advance(_IDLE)

    def _turn(self, step: BoundStep[Order], show: Callable[[Mapping[State[Order], int]], None]) -> int:
        """Give each order that there is to a worker, wait until all are through, and return how many there were."""
        given = 0
        for order in self._worker.todo(step):
            given += 1
            self._slots.acquire()
            thread = threading.Thread(target=self._run, args=(step, order), daemon=True)
            thread.start()
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
            show(self._counted())
        for _ in range(self._count):
            self._slots.acquire()
        self._slots.release(self._count)
        show(self._counted())
        if self._broken:
            raise self._broken[0]
        return given

    def _run(self, step: BoundStep[Order], order: Order) -> None:
        try:
            self._go(step, order)
        except LockLostError:
            with self._guard:
                self.came_back += 1
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the turn
            self._broken.append(error)
        if not self._over.is_set():
            self._slots.release()

    def _go(self, step: BoundStep[Order], order: Order) -> None:
        """Take the order as far as it goes: what is left then, a later turn finds again."""
        state = order.state
        for at in self._worker.way(step, order):
            self._move(state, at.in_progress)
            state = self._outcome(at, order.task_id)
            self._move(at.in_progress, state)
            if state != at.succeeded:
                return

    def _outcome(self, step: BoundStep[Order], order_id: str) -> State[Order]:
        """Run the step of an order, and return the state that it left the order in."""
        ctx: ExecutionContext[Order] | None = None
        try:
            with step.start(order_id) as ctx:
                self._worker.work(step, ctx)
        except TaskIgnoredError:
            return step.ignored
        except (OutsideError, GiveUp):
            if ctx is None:
                raise
        return ctx.task.state

    def _move(self, before: State[Order], after: State[Order]) -> None:
        with self._guard:
            self._counts[before] -= 1
            self._counts[after] += 1

    def _counted(self) -> dict[State[Order], int]:
        """Return how many orders are in each state, as the runs left them: to ask moto each time takes too long."""
        with self._guard:
            return dict(self._counts)

    def _die(self) -> None:
        with self._guard:
            self.died += 1
        self._slots.release()
        self._over.wait()
