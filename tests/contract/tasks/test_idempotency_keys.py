"""`ctx.idempotency_key` and `ctx.key`: one key for one effect, however often it is tried, and never one for two."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from pynamodb_tracker import AsyncContext, ExecutionContext, GiveUp, Repeat, Step, UseCase
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.clock import StoppedClock
from tests.cli.command import run as command
from tests.support.rows import change, put, remove, stored
from tests.support.shop import AppTask
from tests.support.workers import Broken, succeed

# A key is a function of the row and of the step: the engine makes no difference.
pytestmark = [pytest.mark.usefixtures("table"), pytest.mark.parametrize("engine", ["moto"], indirect=True)]

DAY = timedelta(days=1)


class Charge(AppTask):
    use_case_id = UseCase("charge")

    charge = Step(100)
    book = Step(200)


class Fee(AppTask):
    use_case_id = UseCase("fee")

    charge = Step(100, max_attempts=1)


def run(of: Any = Charge.charge, **options: Any) -> str:
    found: str = of.run("c-1", lambda ctx: ctx.idempotency_key, **options)
    return found


def raising(error: BaseException, of: Any = Charge.charge) -> str:
    """Do the same with a block that raises."""
    with pytest.raises(type(error)), of.start("c-1") as ctx:
        raise error
    key: str = ctx.idempotency_key
    return key


def fail() -> str:
    return raising(Broken())


def release() -> str:
    return raising(KeyboardInterrupt())


def give_up() -> str:
    return raising(GiveUp("no"))


def die() -> str:
    run = Charge.charge.start("c-1")
    _DEAD.append(run)  # the garbage collector would end it
    return run.__enter__().idempotency_key


_DEAD: list[object] = []


def finish() -> str:
    key = run()
    succeed(Charge.book, "c-1")
    return key


def nothing() -> None:
    """Let only time pass."""


def reopen() -> None:
    Charge.charge.reopen("c-1")


def merge() -> None:
    assert Charge.create_or_merge("c-1").effect == "merged"


def anew() -> None:
    assert Charge.create_or_merge("c-1").effect == "restarted"


def expire() -> None:
    """Remove the row past the library, as time to live does."""
    key = {name: stored(Charge, "c-1")[name] for name in ("task_id", "use_case_id")}
    remove(Charge, key)


def replicate() -> None:
    """Put the row into an empty table, as replication to another region and a restore do."""
    row = stored(Charge, "c-1")
    expire()
    put(Charge, row)


def expire_and_create() -> None:
    expire()
    Charge.create("c-1")


def delete_and_create() -> None:
    Charge.delete_task("c-1")
    Charge.create("c-1")


def delete_and_load() -> None:
    Charge.delete_task("c-1")
    ended = command("load", "-", of=f"{__name__}:Charge", text='{"task_id": "c-1"}\n')
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("before", "meanwhile", "options"),
    [
        pytest.param(fail, nothing, {}, id="attempts"),
        pytest.param(die, nothing, {}, id="a takeover"),
        pytest.param(release, nothing, {}, id="a release"),
        pytest.param(give_up, reopen, {}, id="reopen"),
        pytest.param(give_up, nothing, {"also_from": (Charge.charge.ignored,)}, id="also_from ignored"),
        pytest.param(run, nothing, {"also_from": (Charge.book.pending,)}, id="also_from a later step"),
        pytest.param(fail, merge, {}, id="merged into what waits"),
        pytest.param(fail, replicate, {}, id="fail-over"),
    ],
)
def test_it_is_the_same_key(
    clock: StoppedClock, before: Callable[[], str], meanwhile: Callable[[], None], options: dict[str, Any]
) -> None:
    Charge.create("c-1")
    key = before()
    clock.advance(DAY)
    meanwhile()
    assert run(**options) == key


@pytest.mark.parametrize(
    ("meanwhile", "options"),
    [
        pytest.param(anew, {}, id="anew"),
        pytest.param(nothing, {"also_from": (Charge.book.succeeded,)}, id="also_from the end"),
        pytest.param(delete_and_create, {}, id="deleted and created"),
        pytest.param(expire_and_create, {}, id="expired and created"),
        pytest.param(delete_and_load, {}, id="deleted and loaded"),
    ],
)
def test_it_is_another_key(clock: StoppedClock, meanwhile: Callable[[], None], options: dict[str, Any]) -> None:
    Charge.create("c-1")
    key = finish()
    clock.advance(DAY)
    meanwhile()
    with pytest.raises(Broken), Charge.charge.start("c-1", **options) as ctx:
        raise Broken
    assert run() == ctx.idempotency_key != key  # the next attempt has that of its own round, too


def test_a_run_that_was_asked_for_during_another_one_has_another_key() -> None:
    Fee.create("c-1")
    with Fee.charge.start("c-1") as ctx:
        assert Fee.create_or_merge("c-1").effect == "queued"
        key = ctx.idempotency_key
    assert ctx.idempotency_key == key, "the run that has ended keeps its own"
    assert run(Fee.charge) != key


@pytest.mark.parametrize("stop", [False, True], ids=["given up", "reopened"])
def test_each_occurrence_of_a_task_that_repeats_has_another_key(clock: StoppedClock, *, stop: bool) -> None:
    Fee.create("c-1", repeat=Repeat.every(DAY, stop_on_failure=stop))
    keys = []
    for block in (run, run, lambda step: raising(Broken(), step), run):
        clock.advance(DAY)
        if Fee.get_task("c-1").state == Fee.charge.ignored:
            Fee.charge.reopen("c-1")
            clock.advance(DAY)
        keys.append(block(Fee.charge))
    assert len(set(keys)) == 4


def test_a_task_that_an_event_creates_keeps_the_key_of_its_first_attempt() -> None:
    keys: list[str] = []

    @handles(Charge.charge, task_id="id", create_if_missing=lambda _: {})
    def charge(ctx: ExecutionContext[Charge], _event: Any) -> None:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise Broken

    with pytest.raises(Broken):
        charge({"id": "c-1"}, None)
    charge({"id": "c-1"}, None)
    assert keys == [keys[0]] * 2


def test_the_name_of_the_step_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Charge.create("c-1")
    key = fail()
    monkeypatch.setattr(Charge.charge._definition.codes, "step", "debit")
    assert run() == key


def test_each_use_case_task_step_and_name_has_a_key_of_its_own() -> None:
    def named(ctx: ExecutionContext[Any]) -> list[str]:
        return [ctx.idempotency_key, ctx.key("charge"), ctx.key("c"), ctx.key("[]"), ctx.key(" "), ctx.key("Gebühr")]

    creation = {"S": "18c0" + "0" * 20}  # the same for all, which no two creations have
    keys = []
    for use_case, task_id in ((Charge, "c-1"), (Charge, "c-1#"), (Fee, "c-1")):
        use_case.create(task_id)
        change(use_case, task_id, creation=creation)
        keys += use_case.charge.run(task_id, named)
    keys += Charge.book.run("c-1", named)
    assert len(set(keys)) == len(keys) == 24
    assert all(str(UUID(key)) == key for key in keys)


def test_keys_stay_what_they_are_from_release_to_release() -> None:
    Charge.create("c-1")
    change(Charge, "c-1", creation={"S": "18c0" + "0" * 20})
    with Charge.charge.start("c-1") as ctx:
        assert (ctx.idempotency_key, ctx.key("mail")) == (
            "fa6f330b-7edb-5140-8598-fdb51b040c44",
            "db1a00b0-2959-5ab9-9d86-67fbfd72abea",
        )


@pytest.mark.parametrize(("name", "error"), [("", ValueError), (None, ValueError), (7, TypeError), (b"a", TypeError)])
def test_a_key_has_a_name_that_is_text(name: Any, error: type[Exception]) -> None:
    Charge.create("c-1")
    with Charge.charge.start("c-1") as ctx, pytest.raises(error, match="name"):
        ctx.key(name)


def test_an_async_block_has_the_same_keys() -> None:
    async def keys(ctx: AsyncContext[Charge]) -> tuple[str, str]:
        return ctx.idempotency_key, ctx.key("mail")

    Charge.create("c-1")
    with pytest.raises(Broken), Charge.charge.start("c-1") as ctx:
        raise Broken
    assert asyncio.run(Charge.charge.arun("c-1", keys)) == (ctx.idempotency_key, ctx.key("mail"))
