"""Off-row items of an ended task have the time to live of its row, and none after a reopen."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import GiveUp, Step, TaskAlreadySucceededError, TaskIgnoredError, TaskNotFoundError, UseCase
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import SKIPPED_OCCURRENCES, Network, before, error, passing, throttled
from tests.support.recorder import recorded
from tests.support.rows import client, off_row_items, remove, stored
from tests.support.shop import AppTask, Receipt, created
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table", "task")

PIECES = "receipt#"
WEEKS = timedelta(days=20)


class Order(AppTask):
    """Only what succeeded is deleted some day."""

    use_case_id = UseCase("kept-order", keep_for=timedelta(days=30))

    pay = Step(10, max_attempts=1)


class Parcel(AppTask):
    """Only what is ignored is deleted some day."""

    use_case_id = UseCase("kept-parcel", keep_ignored_for=timedelta(days=30))

    pay = Step(10, max_attempts=1)


class Letter(AppTask):
    """Two steps, of which the first one may empty what is off-row."""

    use_case_id = UseCase("kept-letter", keep_for=timedelta(days=30))

    write = Step(10)
    post = Step(20)


def end_in(of: type[Order | Parcel]) -> dict[str, int | None]:
    """Let tasks end in every way; return the time to live of each in days, by how it ended."""
    large_data = large("some")
    for task_id in ("succeeded", "failed", "gave up", "abandoned", "by a person", "in a transaction"):
        of.create(task_id, data=large_data)
    of.create("created ignored", state=of.pay.ignored, data=large_data)
    of.create("created succeeded", state=of.pay.succeeded)
    of.pay.run("succeeded", lambda _: None)
    with of.pay.start("in a transaction") as ctx, ctx.transaction(succeed=True):
        pass
    fail(of.pay, "failed")
    fail(of.pay, "gave up", GiveUp("no use"))
    of.pay.ignore("by a person", reason="cancelled")
    die(of.pay, "abandoned")
    of.pay.unlock("abandoned", reason="its host is gone", worker=this_worker())
    with pytest.raises(TaskIgnoredError), of.pay.start("abandoned"):
        pytest.fail("no attempt is left")
    days = {}
    for task in of.scan(of.use_case_id == of.tracker.use_case.name):
        days[task.task_id] = None if task.expire_time is None else (task.expire_time - task.update_time).days
    return days


def test_a_task_that_succeeded_is_kept_for_keep_for_and_an_ignored_one_waits_for_ever(clock: StoppedClock) -> None:
    ended = end_in(Order)
    succeeded = {"succeeded", "in a transaction", "created succeeded"}
    assert {task_id for task_id, days in ended.items() if days is not None} == succeeded
    assert {days for days in ended.values() if days is not None} <= {29, 30}
    clock.advance(timedelta(days=31))
    assert {task.task_id for task in Order.pay.ignored.query()} == ended.keys() - succeeded
    assert (Order.pay.ignored.count(), Order.pay.succeeded.count(), Order.counts()[Order.pay.ignored]) == (5, 0, 5)
    Order.pay.reopen("gave up")
    assert Order.get_task("gave up").data == large("some")


@created(state=Receipt.send.succeeded)
def test_a_task_is_found_and_counted_until_the_second_in_which_it_expires(clock: StoppedClock) -> None:
    clock.advance(timedelta(microseconds=-clock.now().microsecond))
    for left, found in ((timedelta(microseconds=1), ["r-1"]), (timedelta(0), [])):
        clock.advance(timedelta(days=30) - left if left else timedelta(microseconds=1))
        assert [task.task_id for task in Receipt.send.succeeded.query()] == found
        assert Receipt.send.succeeded.count() == Receipt.counts()[Receipt.send.succeeded] == len(found)


def test_keep_ignored_for_limits_how_long_ignored_tasks_are_kept_and_no_others(clock: StoppedClock) -> None:
    kept = {task_id for task_id, days in end_in(Parcel).items() if days is None}
    assert kept == {"succeeded", "in a transaction", "created succeeded"}
    clock.advance(timedelta(days=31))
    assert (Parcel.pay.ignored.count(), Parcel.pay.succeeded.count()) == (0, 3)


def large(text: str) -> dict[str, Any]:
    return {"text": text * 2_000}


CREATED = Receipt, "r-1", {"data": large("first")}


def ends() -> dict[str, str | None]:
    items = off_row_items(Receipt, "r-1")
    return {key: item.get("expire_time", {}).get("N") for key, item in items.items()}


def end_of_row() -> str | None:
    end: str | None = stored(Receipt, "r-1").get("expire_time", {}).get("N")
    return end


def time_to_live() -> None:
    """Delete items that have a time to live, as the table does some day; the chunks may be deleted first."""
    for item in off_row_items(Receipt, "r-1").values():
        if "expire_time" in item:
            key = {name: item[name] for name in ("task_id", "use_case_id")}
            remove(AppTask, key)


def give_up(error: str = "no use") -> None:
    fail(Receipt.send, "r-1", GiveUp(error))


def reopen() -> None:
    Receipt.send.reopen("r-1")


def run_again() -> None:
    with pytest.raises(Broken), Receipt.send.start("r-1", also_from=(Receipt.send.ignored,)):
        assert set(ends().values()) == {None}
        raise Broken


def test_off_row_items_get_the_time_to_live_of_the_row() -> None:
    with pytest.raises(GiveUp), Receipt.send.start("r-1") as ctx:
        ctx.task.data = large("second")
        ctx.save()
        raise GiveUp("long " * 200)
    keys = {"receipt#data#A#0", "receipt#data#B#0", "receipt#errors"}
    assert end_of_row() is not None
    assert ends() == dict.fromkeys(keys, end_of_row())


@created(data=large("first"), state=Receipt.send.succeeded)
def test_a_task_created_in_a_final_state_has_a_time_to_live_on_all_its_items() -> None:
    assert end_of_row() is not None
    assert ends() == {"receipt#data#A#0": end_of_row()}


def test_ignoring_a_task_sets_the_time_to_live_of_all_its_items() -> None:
    Receipt.send.ignore("r-1", reason="long " * 200)
    assert end_of_row() is not None
    assert ends() == dict.fromkeys(("receipt#data#A#0", "receipt#errors"), end_of_row())


def test_a_success_in_a_transaction_sets_the_time_to_live_of_all_items() -> None:
    with Receipt.send.start("r-1") as ctx:
        ctx.task.data = large("second")
        with ctx.transaction(succeed=True):
            pass
    assert end_of_row() is not None
    assert ends() == dict.fromkeys(("receipt#data#A#0", "receipt#data#B#0"), end_of_row())


@pytest.mark.parametrize("live_again", [reopen, run_again])
def test_a_task_that_is_live_again_has_no_time_to_live(live_again: Callable[[], None], clock: StoppedClock) -> None:
    give_up("long " * 200)
    clock.advance(WEEKS)
    live_again()
    reopen()
    assert (end_of_row(), set(ends().values())) == (None, {None})
    time_to_live()
    assert Receipt.get_task("r-1").data == large("first")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_frozen_worker_sets_no_time_to_live_on_items_of_a_reopened_task(network: Network, number: int) -> None:
    ended: list[str] = []

    def frozen(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem" and request["Key"]["use_case_id"]["S"].startswith(PIECES):
            ended.append(request["Key"]["use_case_id"]["S"])
            if len(ended) == number + 1:
                network.rule = passing
                reopen()
        return send()

    with pytest.raises(GiveUp), Receipt.send.start("r-1") as ctx:
        ctx.task.data = large("second")
        ctx.save()
        network.rule = frozen
        raise GiveUp("long " * 200)
    assert (len(ended), end_of_row(), set(ends().values())) == (number + 1, None, {None})
    assert Receipt.send.run("r-1", lambda ctx: ctx.task.data) == large("second")


@contextmanager
def without_keep_for() -> Iterator[None]:
    """Let the next release keep finished tasks for ever."""
    use_case = Receipt.tracker.use_case
    with mock.patch.object(use_case, "keep_for", None), mock.patch.object(use_case, "keep_ignored_for", None):
        yield


def test_a_task_that_an_older_release_expired_is_reopened_with_all_its_data() -> None:
    give_up()
    with without_keep_for():
        reopen()
        assert (end_of_row(), set(ends().values())) == (None, {None})


def test_a_task_whose_chunks_were_deleted_first_is_not_found(clock: StoppedClock) -> None:
    give_up()
    clock.advance(timedelta(days=31))
    time_to_live()
    with pytest.raises(TaskNotFoundError, match="its data is gone"):
        reopen()
    with pytest.raises(TaskNotFoundError, match="its data is gone"):
        Receipt.send.run("r-1", lambda _: None, also_from=(Receipt.send.ignored,))
    assert Receipt.get_task("r-1", with_data=False).state == Receipt.send.ignored


def test_a_refused_reopen_keeps_the_time_to_live() -> None:
    Receipt.send.run("r-1", lambda _: None)
    end = end_of_row()
    with pytest.raises(TaskAlreadySucceededError):
        reopen()
    assert end is not None
    assert ends() == {"receipt#data#A#0": end}


def test_a_reopen_that_another_worker_overtook_restores_the_time_to_live(network: Network) -> None:
    give_up()

    def rival() -> None:
        Receipt.send.run("r-1", lambda _: None, also_from=(Receipt.send.ignored,))

    before(network, "BatchGetItem", rival)  # reopen has read the row, and `keep` is done, by then
    with pytest.raises(TaskAlreadySucceededError):
        reopen()
    assert end_of_row() is not None
    assert ends() == {"receipt#data#A#0": end_of_row()}


@pytest.mark.parametrize("order", [reopen, run_again])
def test_a_throttled_operation_restores_the_time_to_live(network: Network, order: Callable[[], None]) -> None:
    give_up("long " * 200)
    end = end_of_row()
    before(network, "BatchGetItem", lambda: setattr(network, "rule", throttled("UpdateItem", SKIPPED_OCCURRENCES)))
    with pytest.raises(UpdateError):
        order()
    network.rule = passing
    assert end is not None
    assert ends() == dict.fromkeys(("receipt#data#A#0", "receipt#errors"), end)
    assert Receipt.get_task("r-1").state == Receipt.send.ignored


def test_a_claim_without_an_answer_restores_the_time_to_live(network: Network) -> None:
    give_up()
    end = end_of_row()

    def unheard_claim(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem" and request["Key"]["use_case_id"]["S"] == "receipt" and ends() == kept:
            raise ReadTimeoutError(endpoint_url="of the test")
        return send()

    kept = {"receipt#data#A#0": None}
    network.rule = unheard_claim
    with pytest.raises(UpdateError):
        run_again()
    network.rule = passing
    assert end is not None
    assert ends() == dict.fromkeys(kept, end)


def test_the_time_to_live_of_a_later_end_stays(network: Network, clock: StoppedClock) -> None:
    give_up()

    def ends_again(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem" and request["Key"]["use_case_id"]["S"] == "receipt":
            raise error(operation, "AccessDeniedException")
        if operation == "TransactWriteItems":
            network.rule = passing
            reopen()
            clock.advance(WEEKS)
            give_up()
        return send()

    before(network, "BatchGetItem", lambda: setattr(network, "rule", ends_again))
    with pytest.raises(UpdateError):
        reopen()
    assert network.rule is passing
    assert set(ends().values()) == {end_of_row()}


def test_a_success_looks_for_items_beside_a_task_only_if_there_may_be_some() -> None:
    def queries_at_end(task_id: str) -> int:
        with recorded() as requests:
            Order.pay.run(task_id, lambda _: None)
        return requests.operations.count("Query")

    Order.create("plain")
    Order.create_or_merge("merged")
    Order.create_or_merge("merged")
    Order.create("small", data={"n": 1})
    Letter.create("failed")
    fail(Letter.write, "failed")
    Letter.write.run("failed", lambda _: None)
    assert {task_id: queries_at_end(task_id) for task_id in ("plain", "merged", "small")} == {
        "plain": 0,
        "merged": 0,
        "small": 1,
    }
    with recorded() as requests:
        Letter.post.run("failed", lambda _: None)
    assert requests.operations.count("Query") == 1


def test_data_that_was_emptied_leaves_a_mark_so_that_its_chunks_get_the_time_to_live() -> None:
    Letter.create("l-1", data=large("some"))
    Letter.write.run("l-1", lambda ctx: ctx.task.data.clear())
    assert (Letter.get_task("l-1").data, stored(Letter, "l-1")["data"]) == ({}, {"S": "{}"})
    with recorded() as requests:
        Letter.post.run("l-1", lambda ctx: ctx.task.data.clear())
    assert not any("data" in request.written for request in requests), "it is empty already"
    found = client(AppTask).query(
        TableName=AppTask.Meta.table_name,
        KeyConditionExpression="task_id = :id",
        ExpressionAttributeValues={":id": {"S": "l-1"}},
        ConsistentRead=True,
    )["Items"]
    assert [("expire_time" in item) for item in found] == [True, True], "the row, and the chunk that it had"
