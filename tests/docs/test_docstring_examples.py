"""Each public name's docstring has an example that runs, and explains the parameters if there are three or more."""

import ast
import asyncio
import inspect
import re
import secrets
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

import pynamodb_tracker
from pynamodb_tracker import (
    DecimalAttribute,
    FindBy,
    LockLostError,
    Signal,
    Step,
    Task,
    UseCase,
    apscheduler,
    aws_lambda,
    instrumentation,
    opentelemetry,
    testing,
    web,
)
from pynamodb_tracker.testing.tables import close_local_tables
from tests.support.engines import Engine, opened

MODULES = (pynamodb_tracker, aws_lambda, web, instrumentation, opentelemetry, apscheduler, testing)


class AppTask(Task):
    class Meta:
        table_name = "examples"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)
    by_customer = FindBy(customer)


class Order(AppTask):
    """As in the README, with what single examples need."""

    use_case_id = UseCase("order", pausable=True)

    confirm_payment = Step(100)
    ship = Step(200, max_attempts=5)
    refund = Step(900, branch=True)

    amount = DecimalAttribute(null=True)
    tracking_no = UnicodeAttribute(null=True)
    paid = Signal()


@Order.ship.does
def print_label(ctx: Any) -> None:
    ctx.task.tracking_no = f"T-{ctx.task.task_id}"


GIVEN: dict[str, Any] = {
    "AppTask": AppTask,
    "Order": Order,
    "Connection": Connection,
    "Decimal": Decimal,
    "TransactWrite": TransactWrite,
    "UnicodeAttribute": UnicodeAttribute,
    "UTC": UTC,
    "datetime": datetime,
    "timedelta": timedelta,
    "re": re,
    "secrets": secrets,
    "__name__": "example",
}
"""What an example need not import; there are an order to be paid, `o-1`, one to be shipped, `o-2`, and the run of a
third one, `ctx`."""

WITHOUT = {
    "returned by a call, whose example shows it": {
        *(
            "CancelRecord",
            "ReceivedSignal",
            "AsyncContext",
            "BoundSignal",
            "BoundStep",
            "Cancellation",
            "ExecutionContext",
            "Failure",
            "IndexPage",
        ),
        *("IndexEntry", "Merged", "TaskPage", "Pause", "Repeat", "Report", "Sent", "Tally", "RunDetails", "Invocation"),
        *("ActionRequest", "RetryHandler", "StepHandler", "StoppedClock", "JobKey"),
    },
    "only an annotation": {
        "Handler",
        "LambdaContext",
        "LocalServer",
        "LocalTable",
        "Reply",
        "InvocationStatus",
        "Serializer",
        "TriggerName",
    },
    "called by AWS, PynamoDB, APScheduler, pytest or the library, not by a program": {
        *("AppTask.deserialize", "DecimalAttribute.deserialize", "DecimalAttribute.serialize", "Task.deserialize"),
        *("Task.from_raw_data", "Task.get_update_kwargs_from_instance", "LambdaContext.get_remaining_time_in_millis"),
        *("DynamoDBJobStore.start", "DynamoDBJobStore.shutdown", "DynamoDBJobStore.lookup_job"),
        *("DynamoDBJobStore.get_due_jobs", "DynamoDBJobStore.get_next_run_time", "DynamoDBJobStore.get_all_jobs"),
        *("DynamoDBJobStore.add_job", "DynamoDBJobStore.update_job", "DynamoDBJobStore.remove_job"),
        *("DynamoDBJobStore.remove_all_jobs", "JSONSerializer.dumps", "JSONSerializer.loads", "Signed.dumps"),
        *("Signed.loads", "PickleSerializer.dumps", "PickleSerializer.loads", "Serializer.dumps", "Serializer.loads"),
        *(
            "CancelRecord.read",
            "CancelRecord.stored",
            "ReceivedSignal.read",
            "ReceivedSignal.stored",
            "Failure.with_texts_of",
            "ValueNotStorableError.name_task",
            "FindBy.mistakes",
            "IndexEntry.of",
            "Pause.is_in_force",
        ),
        *("Repeat.from_json", "Repeat.to_json", "Repeat.begun", "Repeat.after", "Repeat.beyond", "Repeat.latest"),
        *("RunDetails.log_fields", "UseCase.mistakes", "UseCase.has_expiry", "StoppedClock.now"),
        *("StoppedClock.seconds_until", "StoppedClock.sleep"),
        *("StoppedClock.wait", "StoppedClock.wait_async", "StoppedClock.sleep_unless"),
    },
    "in the example of the class or function that makes it": {
        *("StoppedClock.advance", "Worker.run", "AsyncWorker.run", "AsyncWorker.stop"),
        *("Hook.on_create", "Hook.on_start", "Hook.on_end", "Hook.on_refuse", "Hook.on_lock_lost"),
        *("EmfHook.on_create", "EmfHook.on_start", "EmfHook.on_end", "EmfHook.on_refuse", "EmfHook.on_lock_lost"),
    },
}
"""Public names without an example, by the reason."""


def public() -> Iterator[tuple[str, Any]]:
    """Yield the classes, functions and methods of the public names."""
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            yield name, thing
            for method in methods_of(thing) if inspect.isclass(thing) else ():
                yield f"{name}.{method}", getattr(thing, method)


def methods_of(owner: type) -> list[str]:
    ours = [base for base in owner.__mro__ if base.__module__.startswith("pynamodb_tracker")]
    found = (name for base in ours for name, value in vars(base).items() if inspect.isroutine(value))
    # Not a set: all processes of pytest-xdist are to find the same order.
    return list(dict.fromkeys(name for name in found if name[0] != "_"))


def example_in(thing: object) -> str:
    """Return the example in a docstring, "" if there is none."""
    section = (inspect.getdoc(thing) or "").partition("\nExamples:\n")[2]
    return "\n".join(re.findall(r"^    (?:>>>|\.\.\.) ?(.*)$", section, re.MULTILINE))


def needs_one(name: str, thing: Any) -> bool:
    """Tell whether a name is to have an example: refusals, errors and twins on an event loop have none."""
    owner, _, method = name.rpartition(".")
    if owner == "AsyncContext":
        return not hasattr(pynamodb_tracker.ExecutionContext, method)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return name in {"GiveUp", "RetryLater"}
    if owner and method.startswith("a") and hasattr(getattr(pynamodb_tracker, owner, None), method[1:]):
        return False
    return getattr(thing, "__annotations__", {}).get("return") not in {NoReturn, "NoReturn"}


EXAMPLES = {name: example_in(thing) for name, thing in public() if example_in(thing) and needs_one(name, thing)}


def test_every_public_name_has_an_example_or_a_reason_to_have_none() -> None:
    needing = {name for name, thing in public() if needs_one(name, thing)}
    excused = set().union(*WITHOUT.values())
    assert needing - EXAMPLES.keys() - excused == set()
    assert excused & EXAMPLES.keys() == set()


NOT_CONSTRUCTED = {"State", "Status", "Task"}
"""Classes with objects that only the library and Python make."""


def explained_in(thing: object) -> set[str]:
    """Return the parameters in the section `Args:`, and a class's attributes with a docstring of their own."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", inspect.getdoc(thing) or "", re.MULTILINE)
    names = set(re.findall(r"^    \*{0,2}(\w+):", section[1], re.MULTILINE)) if section else set()
    if inspect.isclass(thing):
        names |= set(re.findall(r'^    (\w+): [^\n]*\n    """', inspect.getsource(thing), re.MULTILINE))
    return names


def test_three_or_more_parameters_are_explained_one_by_one() -> None:
    excused = set().union(*WITHOUT.values()) - WITHOUT["in the example of the class or function that makes it"]
    passed_on = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    unexplained = {}
    for name, thing in public():
        if name in excused | NOT_CONSTRUCTED or not callable(thing) or not needs_one(name, thing):
            continue
        parameters = inspect.signature(thing).parameters.values()
        names = {each.name for each in parameters if each.kind not in passed_on} - {"self", "cls"}
        if len(names) >= 3:
            unexplained[name] = names - explained_in(thing)
    assert {name: missing for name, missing in unexplained.items() if missing} == {}
    assert len(unexplained) > 30


engine = opened(AppTask, scope="module")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "local_server"])  # which needs dynoxide
def test_an_example_runs(name: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(Order.confirm_payment, "function", None)  # one example binds another
    engine.empty()  # of what the example before this one has left
    code = compile(EXAMPLES[name], name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = GIVEN | {key: getattr(module, key) for module in MODULES for key in module.__all__}
    lost = pytest.raises(LockLostError) if name == "BoundStep.unlock" else nullcontext()
    Order.create_many([{"task_id": "o-1"}, {"task_id": "o-2", "state": Order.ship.pending}, {"task_id": "o-3"}])
    with lost, Order.confirm_payment.start("o-3") as ctx:
        awaited = eval(code, names | {"ctx": ctx})  # noqa: S307 - our own docstrings
        if inspect.iscoroutine(awaited):
            asyncio.run(awaited)
    close_local_tables()


@pytest.mark.usefixtures("dynoxide")
def test_the_example_of_a_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES["local_server"], GIVEN | {"local_server": testing.local_server})  # noqa: S102 - our own docstring
    assert [file.name for file in tmp_path.iterdir()] == ["orders.sqlite"]
