"""Commands that are interrupted, as processes on a real server: nothing stays locked, and the report is true."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.cli.server import Environment, ended, on_server, started
from tests.cli.shop import Order, counted, go_on, stalling
from tests.engine.engine import Engine
from tests.support.processes import until

pytestmark = [pytest.mark.race, pytest.mark.skipif(os.name == "nt", reason="POSIX signals")]

MANY = 20
DAWDLE, STALL, CHATTER = (f"tests.cli.shop:{name}" for name in ("dawdle", "stall", "chatter"))


@pytest.fixture
def server(dynamodb: Engine) -> Iterator[Environment]:
    with on_server(dynamodb) as environment:
        Order.create_many(({"task_id": f"o-{n:03}", "state": Order.pay.failed} for n in range(MANY)), threads=4)
        yield environment


@pytest.mark.parametrize(("threads", "number"), [(1, signal.SIGINT), (6, signal.SIGTERM), (6, signal.SIGHUP)])
def test_an_interrupted_retry_leaves_nothing_locked(server: Environment, threads: int, number: signal.Signals) -> None:
    with started(server, "retry", "pay", DAWDLE, "--threads", str(threads)) as process:
        until(Order.ship.pending.count)
        process.send_signal(number)
        go_on()
        code, out, err = ended(process)
    assert code == 128 + number
    output = re.fullmatch(
        r"stopped: pay: (\d+) succeeded in .+\n((\d) tasks? released, pending again\n)?(\d+ tasks? not started\n)?", out
    )
    assert output is not None, out
    succeeded, released = int(output[1]), int(output[3] or 0)
    assert 0 < succeeded < MANY
    expected = {"pay failed": MANY - succeeded - released, "pay pending": released, "ship pending": succeeded}
    assert counted() == {state: number for state, number in expected.items() if number}
    assert re.fullmatch(
        r"(stopping(: waiting for \d tasks? to finish \(Ctrl-C again leaves them locked\))?\n)?", err
    ), err


def test_a_second_interrupt_does_not_wait_and_names_what_stays_locked(server: Environment) -> None:
    with started(server, "retry", "pay", STALL, "--threads", "2") as process:
        until(lambda: stalling() == 2)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("stopping: waiting for 2 tasks to finish")
        process.send_signal(signal.SIGINT)
        code, out, err = ended(process)
    assert (code, out) == (130, "")
    held = ", ".join(sorted(order.task_id for order in Order.pay.in_progress.query()))
    assert (
        err
        == f"stopped at once: these tasks stay in progress until their locks expire, and are then taken over: {held}\n"
    )


def test_nobody_waits_for_a_turn_at_a_slow_rate(server: Environment) -> None:
    with started(server, "retry", "pay", DAWDLE, "--rate", "6/h", "--threads", "3") as process:
        until(Order.ship.pending.count)
        process.send_signal(signal.SIGINT)
        code, out, _ = ended(process)  # the next turn is in ten minutes
    assert (code, out.partition(" in ")[0]) == (130, "stopped: pay: 1 succeeded")
    assert "pay in_progress" not in counted()


def test_an_interrupt_is_ignored_where_the_shell_says_so(server: Environment) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with started(server, "retry", "pay", DAWDLE, "--threads", "6", "--limit", "12") as process:
            until(Order.ship.pending.count)
            process.send_signal(signal.SIGINT)
            go_on()
            assert ended(process)[0] == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_is_loaded_as_it_comes_and_an_interrupted_load_goes_on(server: Environment, *, closes: bool) -> None:
    with started(server, "load", "-", "--threads", "2") as process:
        process.stdin.write("".join(f'{{"task_id": "n-{n}"}}\n' for n in range(20)))
        process.stdin.flush()
        until(lambda: Order.pay.pending.count() == 20)
        process.send_signal(signal.SIGINT)
        if not closes:
            output = "stopping: waiting for requests in progress (Ctrl-C again does not wait)\n"
            assert process.stderr.readline() == output
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
        code, out, err = ended(process)
    assert code == 130
    # Two requests in progress may have created their tasks before it was stopped at once.
    assert re.search("20 tasks created" if closes else "(18|19|20) tasks created", out if closes else err)
    with started(server, "load", "-", "--skip-existing") as process:
        out, _ = process.communicate("".join(f'{{"task_id": "n-{n}"}}\n' for n in range(30)), timeout=60)
    assert (process.returncode, out) == (0, "10 tasks created, 20 already existed\n")


@pytest.mark.parametrize("threads", [1, 4])
def test_a_reader_that_goes_ends_a_run_in_order_and_fails_no_task(server: Environment, threads: int) -> None:
    with started(server, "retry", "pay", CHATTER, "--threads", str(threads)) as process:
        process.stderr.read(100)
        process.stderr.close()
        out = process.stdout.read()
        process.wait(timeout=60)
    assert process.returncode == 141
    assert re.match(r"stopped: pay: \d+ succeeded in ", out), out
    counts = counted()
    assert 0 < counts["ship pending"] < MANY
    assert counts["ship pending"] + counts["pay failed"] + counts.get("pay pending", 0) == MANY
    assert all(order.attempt == 0 for order in Order.pay.failed.query())


def test_a_report_that_nobody_reads_changes_no_exit_code(server: Environment) -> None:
    go_on()
    with started(server, "retry", "pay", DAWDLE, "--limit", "2") as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(timeout=60)
    assert process.returncode == 0
    assert Order.ship.pending.count() == 2


def test_a_reader_that_goes_ends_a_load_in_order(server: Environment) -> None:
    with started(server, "load", "-", "--keep-going", "--threads", "2") as process:
        process.stderr.close()
        with suppress(BrokenPipeError):
            process.stdin.write("[1]\n" * 10_000)
            process.stdin.close()
        out = process.stdout.read()
        process.wait(timeout=60)
    assert process.returncode == 141
    assert re.fullmatch(r"stopped: 0 tasks created, [\d,]+ bad lines?\n", out)
