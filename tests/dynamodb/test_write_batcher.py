"""Writes of several threads in one request: which of them wait, and what becomes of each."""

import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, cast
from unittest.mock import ANY

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection.table import TableConnection

from pynamodb_tracker.dynamodb import batch_execute
from pynamodb_tracker.dynamodb.error_codes import is_server_error, may_be_applied, note_lost, was_repeated
from pynamodb_tracker.dynamodb.partiql import Rendered
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from tests.support.workers import raising

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]
ROW = {"task_id": {"S": "as it is"}}
PLAIN = {"Attributes": {"by": {"S": "UpdateItem"}}}
HELD = {"Error": {"Code": "ConditionalCheckFailed", "Message": "no", "Item": ROW}}


def error(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "x")


class Engine:
    """A connection, and a table of it, whose answers are made up."""

    class Client:
        """Stands for the client of the SDK."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.client = Engine.Client()
        self.connection = self
        self.sent: list[tuple[str, int]] = []
        self.answer = answer or applied
        self.probed: Answer | None = None
        """What answers the probe, if not this class."""
        self.gate = threading.Event()
        self.gate.set()

    def dispatch(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Note the request, and how many statements it has; answer it."""
        self.gate.wait(60)
        statements = request.get("Statements", [])
        self.sent.append((operation, len(statements)))
        if len(statements) == 1 and self.probed is not None:
            return self.probed(operation, request)
        if len(statements) == 1:  # the probe
            return {"Responses": [HELD]} if self.answer is not ignoring else {"Responses": [{}]}
        return self.answer(operation, request)


def applied(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Apply everything, and return the rows."""
    if operation != "BatchExecuteStatement":
        return {"Attributes": {"by": {"S": operation}}}
    return {"Responses": [{"Item": {"id": each["Parameters"][1]}} for each in request["Statements"]]}


def ignoring(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Apply also what is to be refused."""
    return applied(operation, request)


def write(task_id: str, value: str = "new") -> dict[str, Any]:
    x, values = UnicodeAttribute(attr_name="x"), {":0": {"S": value}}
    return {
        "TableName": "tasks",
        "Key": {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}},
        "UpdateExpression": Rendered.of("SET #0 = :0", [x.set(value)], values),
        "ConditionExpression": Rendered.of("#0 = :0", x == value, values),
        "ExpressionAttributeNames": {"#0": "x"},
        "ExpressionAttributeValues": values,
        "ReturnValues": "ALL_NEW",
    }


class Threads:
    """Threads that send writes at the same time: all have announced theirs before the first one is sent."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.batcher = WriteBatcher()
        self.engine = engine
        self._pool = ThreadPoolExecutor(number)
        self.batcher.add_senders(number)

    def send(self, *requests: dict[str, Any], operation: str = "UpdateItem") -> list[Any]:
        """Send each on its own thread, and return the answers or errors."""
        table = cast("TableConnection", self.engine)
        futures: list[Future[dict[str, Any]]] = [
            self._pool.submit(self.batcher.dispatch, table, operation, request, None) for request in requests
        ]
        return [future.exception(60) or future.result() for future in futures]

    def leave(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Apply writes, after which their threads send no more, so that the others do not wait for them."""
        self.batcher.add_senders(-len(request.get("Statements", [1])))
        return applied(operation, request)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return an engine, with much time for threads to gather, so that a slow machine does not matter."""
    monkeypatch.setattr("pynamodb_tracker.dynamodb.write_batcher._LONGEST_WAIT", 60)
    return Engine()


def test_writes_of_several_threads_leave_in_one_request_after_a_probe(engine: Engine) -> None:
    answers = Threads(engine, 3).send(write("a"), write("b"), write("c"))
    assert answers == [{"Attributes": {"id": {"S": each}}} for each in "abc"]
    assert engine.sent == [("BatchExecuteStatement", 1), ("BatchExecuteStatement", 3)]


def test_the_write_of_a_lone_thread_is_a_plain_request_at_once(engine: Engine) -> None:
    assert Threads(engine, 1).send(write("a")) == [PLAIN]
    assert engine.sent == [("UpdateItem", 0)]


def test_the_26th_write_leaves_in_the_next_request(engine: Engine) -> None:
    threads = Threads(engine, 26)
    engine.answer = threads.leave
    assert len(threads.send(*(write(str(number)) for number in range(26)))) == 26
    assert engine.sent == [("BatchExecuteStatement", 1), ("BatchExecuteStatement", 25), ("UpdateItem", 0)]


def test_a_hurried_write_shortens_the_timeouts_of_no_other(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = Engine()
    monkeypatch.setattr(batch_execute, "connection_until", lambda *_: hurried)
    threads = Threads(engine, 3)
    engine.answer = hurried.answer = threads.leave
    with ThreadPoolExecutor(1) as pool:
        table, soon = cast("TableConnection", engine), datetime.now(UTC)
        urgent = pool.submit(threads.batcher.dispatch, table, "UpdateItem", write("c"), soon)
        assert threads.send(write("a"), write("b")) == [{"Attributes": {"id": {"S": each}}} for each in "ab"]
        assert urgent.result(60) == PLAIN
    assert hurried.sent == [("UpdateItem", 0)]


def test_two_writes_to_one_row_do_not_leave_together(engine: Engine) -> None:
    threads = Threads(engine, 3)
    engine.answer = threads.leave
    threads.send(write("a"), write("a"), write("b"))
    assert sorted(number for _, number in engine.sent) in ([0, 1, 2], [1, 2, 0])


def test_a_refused_statement_raises_what_a_single_request_would_with_the_row(engine: Engine) -> None:
    engine.answer = lambda *_: {"Responses": [HELD, {"Item": ROW}]}
    refused, done = Threads(engine, 2).send(write("a"), write("b"))
    assert isinstance(refused, ClientError) or isinstance(done, ClientError)
    both = [each for each in (refused, done) if isinstance(each, ClientError)]
    assert [each.response["Error"]["Code"] for each in both] == ["ConditionalCheckFailedException"]
    assert both[0].response["Item"] == ROW


@pytest.mark.parametrize("repeats", [0, 1])
def test_a_statement_was_repeated_if_its_request_was(engine: Engine, repeats: int) -> None:
    engine.answer = lambda *_: {"Responses": [HELD, HELD], "ResponseMetadata": {"RetryAttempts": repeats}}
    assert [was_repeated(each) for each in Threads(engine, 2).send(write("a"), write("b"))] == [repeats == 1] * 2


@pytest.mark.parametrize(
    ("code", "of_single_request"),
    [
        ("ThrottlingError", "ThrottlingException"),
        ("ProvisionedThroughputExceeded", "ProvisionedThroughputExceededException"),
        ("TransactionConflict", "TransactionConflictException"),
        ("RequestLimitExceeded", "RequestLimitExceeded"),
        ("InternalServerError", "InternalServerError"),
    ],
)
def test_the_error_of_a_statement_is_its_own_threads(engine: Engine, code: str, of_single_request: str) -> None:
    def answer(_operation: str, request: dict[str, Any]) -> dict[str, Any]:
        mine = [each["Parameters"][1] == {"S": "a"} for each in request["Statements"]]
        return {"Responses": [{"Error": {"Code": code}} if each else {"Item": ROW} for each in mine]}

    engine.answer = answer
    failed, done = Threads(engine, 2).send(write("a"), write("b"))
    assert (failed.response["Error"]["Code"], done) == (of_single_request, {"Attributes": ROW})


def test_a_request_without_an_answer_is_without_an_answer_for_each(engine: Engine) -> None:
    engine.answer = raising(ReadTimeoutError(endpoint_url="here"))
    first, second = Threads(engine, 2).send(write("a"), write("b"))
    assert isinstance(first, ReadTimeoutError)
    assert isinstance(second, ReadTimeoutError)
    assert first is not second


def test_a_statement_whose_answer_is_missing_may_have_been_applied(engine: Engine) -> None:
    engine.answer = lambda *_: {"Responses": [{"Item": ROW}]}
    answers = Threads(engine, 2).send(write("a"), write("b"))
    unheard = [each for each in answers if isinstance(each, ClientError)]
    assert [each.response["ResponseMetadata"]["HTTPStatusCode"] for each in unheard] == [500]


def refusing(code: str, status: int = 400, *, also_single: str = "") -> Answer:
    """Return an engine that refuses requests of several statements as a whole, and one write alone."""

    def answer(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "BatchExecuteStatement":
            raise error(code, status)
        if request["Key"]["task_id"]["S"] == also_single:
            raise error("ValidationException")
        return applied(operation, request)

    return answer


def test_one_bad_value_lets_each_write_go_alone_and_turns_nothing_off(engine: Engine) -> None:
    engine.answer = refusing("ValidationException", also_single="bad")
    threads = Threads(engine, 2)
    for _ in range(5):
        bad, good = threads.send(write("bad"), write("good"))
        assert bad.response["Error"]["Code"] == "ValidationException"
        assert good == PLAIN
    assert engine.sent.count(("BatchExecuteStatement", 2)) == 5


def each_invalid(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Find each statement invalid, but not the single request."""
    if operation != "BatchExecuteStatement":
        return applied(operation, request)
    invalid = {"Error": {"Code": "ValidationError", "Message": "no such syntax"}}
    return {"Responses": [invalid for _ in request["Statements"]]}


def test_a_probe_without_an_answer_is_sent_once_for_all_writes_of_a_request(engine: Engine) -> None:
    def lose(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "BatchExecuteStatement":
            raise ReadTimeoutError(endpoint_url="here")
        return applied(operation, request)

    engine.probed = lose
    assert Threads(engine, 3).send(write("a"), write("b"), write("c")) == [PLAIN] * 3
    assert engine.sent.count(("BatchExecuteStatement", 1)) == 1


def responding(response: dict[str, Any]) -> Answer:
    return lambda *_: {"Responses": [response]}


@pytest.mark.parametrize(
    ("who", "answer", "asked", "why"),
    [
        ("answer", refusing("ValidationException"), (2, 3), "ValidationException"),
        ("answer", each_invalid, (2, 3), "no such syntax"),
        ("answer", refusing("AccessDeniedException"), (2, 1), "AccessDeniedException"),
        ("answer", refusing("UnknownOperationException"), (2, 1), "UnknownOperationException"),
        (
            "probed",
            responding({"Error": {"Code": "ValidationError", "Message": "no"}}),
            (1, 3),
            "got the response ValidationError without the item",
        ),
        (
            "probed",
            responding({"Error": {"Code": "ConditionalCheckFailed"}}),
            (1, 3),
            "the response ConditionalCheckFailed without the item",
        ),
    ],
    ids=["invalid as a whole", "each invalid", "not allowed", "not known", "an invalid probe", "a probe without item"],
)
def test_an_engine_that_refuses_valid_statements_is_not_asked_forever_and_one_warning_says_why(
    engine: Engine, caplog: pytest.LogCaptureFixture, *, who: str, answer: Answer, asked: tuple[int, int], why: str
) -> None:
    setattr(engine, who, answer)
    threads = Threads(engine, 2)
    for _ in range(5):
        assert threads.send(write("a"), write("b")) == [PLAIN] * 2
    statements, times = asked
    assert engine.sent.count(("BatchExecuteStatement", statements)) == times
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("writes are sent one by one, not up to 25 in a request: ")
    assert why in caplog.messages[0]


def test_threads_that_find_out_at_the_same_time_log_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    support, found = batch_execute._Support(), batch_execute._Support.is_off_for
    rival = threading.Thread(target=support.turn_off, args=("because",))

    def meet(self: Any, operation: str) -> bool:
        is_off = found(self, operation)
        if rival.ident is None:
            rival.start()
            rival.join(0.1)  # it has to wait
        return is_off

    monkeypatch.setattr(batch_execute._Support, "is_off_for", meet)
    support.turn_off("because")
    rival.join()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("ExpiredTokenException", raising(error("ExpiredTokenException"))),
        ("ThrottlingException", refusing("ThrottlingException")),
    ],
)
def test_a_request_that_fails_as_single_ones_would_fails_for_each_and_turns_nothing_off(
    engine: Engine, code: str, answer: Answer
) -> None:
    engine.answer = answer
    threads = Threads(engine, 2)
    for _ in range(4):
        answers = threads.send(write("a"), write("b"))
        assert [each.response["Error"]["Code"] for each in answers] == [code] * 2
    engine.answer = applied
    assert threads.send(write("a"), write("b")) == [{"Attributes": {"id": {"S": each}}} for each in "ab"]


def test_an_engine_ignoring_conditions_gets_single_requests(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.answer = ignoring
    Threads(engine, 2).send(write("a"), write("b"))
    assert engine.sent == [("BatchExecuteStatement", 1), ("UpdateItem", 0), ("UpdateItem", 0)]
    assert "ignores statement conditions" in caplog.text


@pytest.mark.usefixtures("engine")
def test_an_emulator_that_raises_gets_single_requests_and_its_error_is_freed(caplog: pytest.LogCaptureFixture) -> None:
    class NotBuiltError(Exception):
        pass

    raised: list[weakref.ref[NotBuiltError]] = []

    class Odd(Engine):
        def dispatch(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if operation == "BatchExecuteStatement":
                error = NotBuiltError()
                raised.append(weakref.ref(error))
                try:
                    raise error
                finally:
                    del error
            return super().dispatch(operation, request)

    caplog.set_level("INFO", "pynamodb_tracker")
    engine = Odd()
    gc.collect()
    gc.disable()
    try:
        assert len(Threads(engine, 2).send(write("a"), write("b"))) == 2
        assert [each() for each in raised] == [None]
    finally:
        gc.enable()
    assert engine.sent == [("UpdateItem", 0)] * 2
    assert [record.levelname for record in caplog.records] == ["INFO"]  # nobody pays for its requests


def test_a_policy_without_one_statement_leaves_the_others_on(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def judge(_operation: str, request: dict[str, Any]) -> dict[str, Any]:
        is_delete = request["Statements"][0]["Statement"].startswith("DELETE")
        return {"Responses": [{"Error": {"Code": "AccessDenied"}} if is_delete else HELD]}

    engine.probed = judge
    threads = Threads(engine, 2)
    for _ in range(2):
        threads.send(write("a"), write("b"), operation="DeleteItem")
    threads.send(write("a"), write("b"))
    assert [number for _, number in engine.sent if number] == [1, 1, 2]
    assert ["PartiQLDelete" in record.getMessage() for record in caplog.records] == [True]


def test_no_delete_is_tried_on_an_engine_that_ignores_the_conditions_of_updates(engine: Engine) -> None:
    engine.answer = ignoring
    Threads(engine, 2).send(write("a"), write("b"), operation="DeleteItem")
    assert engine.sent == [("BatchExecuteStatement", 1), ("DeleteItem", 0), ("DeleteItem", 0)]


def put(task_id: str) -> dict[str, Any]:
    return {
        "TableName": "tasks",
        "Item": {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}},
        "ConditionExpression": "attribute_not_exists (task_id)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


DUPLICATE = {"Error": {"Code": "DuplicateItem", "Message": "it exists"}}


@pytest.mark.parametrize(("answer", "requests"), [(DUPLICATE, [0, 1, 2, 3]), ({}, [0, 1, 0, 0, 0, 0, 0])])
def test_inserts_go_together_after_a_refused_one(engine: Engine, answer: dict[str, Any], requests: list[int]) -> None:
    engine.probed = lambda *_: {"Responses": [answer]}
    threads = Threads(engine, 3)
    threads.send(put("a"), put("b"), put("c"), operation="PutItem")
    threads.send(put("d"), put("e"), put("f"), operation="PutItem")
    assert [number for _, number in engine.sent] == requests
    assert engine.sent[0] == ("PutItem", 0)


def test_an_insert_is_refused_although_the_row_that_it_met_cannot_be_read(engine: Engine) -> None:
    def answer(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetItem":
            raise error("AccessDeniedException")
        return {"Responses": [DUPLICATE for _ in request.get("Statements", [])]}

    engine.probed = engine.answer = answer
    told = Threads(engine, 3).send(put("a"), put("b"), put("c"), operation="PutItem")
    refused = [each.response for each in told if isinstance(each, ClientError)]
    assert [each["Error"]["Code"] for each in refused] == ["ConditionalCheckFailedException"] * 2
    assert not any("Item" in each for each in refused)


@pytest.mark.parametrize(("answer", "probes"), [({"Item": ROW}, 1), ({}, 3)], ids=["deleted", "gone"])
def test_deletes_are_sent_alone_unless_an_impossible_one_is_refused(
    engine: Engine, answer: dict[str, Any], probes: int
) -> None:
    probed = list[str]()

    def apply(_operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["Statements"][0]["Statement"].startswith("UPDATE"):
            return {"Responses": [HELD]}
        probed.extend(each["Statement"] for each in request["Statements"])
        return {"Responses": [answer]}

    engine.probed = apply
    threads = Threads(engine, 2)
    for _ in range(4):
        assert len(threads.send(write("a"), write("b"), operation="DeleteItem")) == 2
    assert len(probed) == probes
    assert probed[0].startswith('DELETE FROM "tasks"')
    assert probed[0].endswith('AND "task_id" IS MISSING) RETURNING ALL OLD *')
    assert engine.sent.count(("DeleteItem", 0)) == 8


def test_an_engine_without_rows_gets_single_requests(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def answer(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation != "BatchExecuteStatement":
            return applied(operation, request)
        return {"Responses": [{} for _ in request["Statements"]]}

    engine.answer = answer
    threads = Threads(engine, 2)
    failed = threads.send(write("a"), write("b"))
    assert [(was_repeated(each), may_be_applied(each)) for each in failed] == [(False, True)] * 2
    assert threads.send(write("a"), write("b")) == [PLAIN] * 2
    assert caplog.messages == [
        "writes are sent one by one, not up to 25 in a request: the engine returns no rows for statements"
    ]


@pytest.mark.parametrize("refused", ["as a whole", "by statement"])
def test_a_write_that_goes_alone_after_a_lost_batch_may_have_been_applied(engine: Engine, refused: str) -> None:
    def answer(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation != "BatchExecuteStatement":
            raise error(
                "ConditionalCheckFailedException"
                if request["Key"]["task_id"]["S"] == "a"
                else "UnrecognizedClientException"
            )
        if refused == "as a whole":
            whole = error("ValidationException")
            note_lost(whole, is_lost=True)
            raise whole
        invalid = {"Error": {"Code": "ValidationError", "Message": "no such syntax"}}
        return {"Responses": [invalid] * len(request["Statements"]), "ResponseMetadata": {"RetryAttempts": 1}}

    engine.answer = answer
    met, unsigned = Threads(engine, 2).send(write("a"), write("b"))

    assert was_repeated(met)
    assert may_be_applied(unsigned)


def test_a_thread_that_pauses_is_not_waited_for(engine: Engine) -> None:
    threads = Threads(engine, 2)
    with threads.batcher.pausing():
        threads.send(write("a"))
    assert engine.sent == [("UpdateItem", 0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child starts no thread
def test_a_forked_child_waits_for_no_thread_of_its_parent(engine: Engine) -> None:
    threads = Threads(engine, 2)
    table = cast("TableConnection", engine)
    # What other threads may hold at that moment; in the child, they will not release it.
    held = (batch_execute._support(table.connection)._guard, batch_execute._guard, threads.batcher._guard)
    with threads.batcher.sending():
        for each in held:
            each.acquire()
        if child := os.fork():
            for each in held:
                each.release()
        else:
            signal.alarm(5)
            with threads.batcher.pausing():
                answer = threads.batcher.dispatch(table, "UpdateItem", write("a"), None)
            first, second = Threads(engine, 2).send(write("a"), write("b"))
            os._exit(0 if answer == PLAIN and first != second else 1)
    assert os.waitpid(child, 0)[1] == 0


class Interrupted(BaseException):
    """What another thread sets in this one, at any line."""


class Fragile:
    """The inbox of a thread; the thread that announces the first answer of all is interrupted."""

    struck = False

    def __init__(self) -> None:
        self._inbox = SimpleQueue[str]()

    def put(self, message: str) -> None:
        if message == "answered" and not Fragile.struck:
            Fragile.struck = True
            raise Interrupted
        self._inbox.put(message)

    def get(self, timeout: float) -> str:
        return self._inbox.get(timeout=timeout)


def test_threads_with_an_interrupted_leader_go_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.dynamodb.write_batcher._LOOK_EVERY", 0.05)
    monkeypatch.setattr("pynamodb_tracker.dynamodb.write_batcher.SimpleQueue", Fragile)
    monkeypatch.setattr(Fragile, "struck", False)
    threads = Threads(engine, 3)
    answers = threads.send(write("a"), write("b"), write("c"))
    assert [type(each) for each in answers].count(Interrupted) == 1
    assert [each for each in answers if isinstance(each, dict)] == [{"Attributes": {"id": ANY}}] * 2
    assert len(threads.send(write("a"), write("b"), write("c"))) == 3


def test_a_write_that_is_taken_and_not_sent_before_an_interrupt_may_have_been_applied(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("pynamodb_tracker.dynamodb.write_batcher.execute", raising(Interrupted))
        threads = Threads(engine, 2)
        answers = threads.send(write("a"), write("b"))
    assert [type(each) for each in answers].count(Interrupted) == 1
    assert is_server_error(next(each for each in answers if isinstance(each, ClientError)))
    assert threads.send(write("a"), write("b")) == [{"Attributes": {"id": {"S": each}}} for each in "ab"]
