from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from importlib import metadata, resources
from itertools import chain

import pytest

import pynamodb_tracker
from pynamodb_tracker import apscheduler, aws_lambda, exceptions, instrumentation, opentelemetry, web
from tests.support.pages import ROOT
from tests.support.shop import Order

SINCE: dict[str, tuple[str, ...]] = {
    "0.9": (
        "Answer",
        "AsyncContext",
        "AsyncWorker",
        "Awaited",
        "BoundAwaited",
        "BoundStep",
        "Cancelled",
        "DecimalAttribute",
        "DefinitionError",
        "ExecutionContext",
        "Failure",
        "FindBy",
        "GiveUp",
        "Glance",
        "Group",
        "IndexEntry",
        "Limit",
        "LockLostError",
        "Merged",
        "Page",
        "Pause",
        "PayloadMismatchError",
        "Repeat",
        "Report",
        "RetryLater",
        "Sent",
        "State",
        "Status",
        "Step",
        "StepPausedError",
        "Tally",
        "Task",
        "TaskAlreadyAnsweredError",
        "TaskAlreadyExistsError",
        "TaskAlreadySucceededError",
        "TaskFormatError",
        "TaskIgnoredError",
        "TaskLockedError",
        "TaskNotFoundError",
        "TaskNotReadyError",
        "TaskNotStartableError",
        "TrackerError",
        "UseCase",
        "ValueNotStorableError",
        "Worker",
    ),
}
"""The public names, under the version since when. One that goes away is deprecated for two minor versions first."""

NAMES = [name for names in SINCE.values() for name in names]


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(NAMES) == sorted(pynamodb_tracker.__all__)
    assert max(map(_numbers, SINCE)) <= _numbers(pynamodb_tracker.__version__)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_public_names_for_lambda_are_exactly_these() -> None:
    names = [
        "Handler",
        "LambdaContext",
        "Replies",
        "Reply",
        "Result",
        "ResultStatus",
        "RetryHandler",
        "RetrySummary",
        "StepHandler",
        "TriggerName",
        "UnreadableEventError",
        "event_publisher",
        "handles",
        "handles_signal",
        "retry_handler",
    ]

    assert sorted(aws_lambda.__all__) == names
    objects = [getattr(aws_lambda, name) for name in names if name not in {"Reply", "ResultStatus", "TriggerName"}]
    assert [each for each in objects if not inspect.getdoc(each)] == []
    assert issubclass(aws_lambda.UnreadableEventError, exceptions.TrackerError)


def test_the_public_names_for_the_page_are_exactly_these() -> None:
    assert web.__all__ == ["dashboard"]
    assert inspect.getdoc(web.dashboard)


def test_the_public_names_for_hooks_are_exactly_these() -> None:
    assert instrumentation.__all__ == ["Hook", "RunDetails", "add_hook"]
    assert [name for name in instrumentation.__all__ if not inspect.getdoc(getattr(instrumentation, name))] == []
    assert opentelemetry.__all__ == ["instrument"]
    assert inspect.getdoc(opentelemetry.instrument)


def test_the_public_names_for_apscheduler_are_exactly_these() -> None:
    names = ["DynamoDBJobStore", "JSONSerializer", "JobKey", "PickleSerializer", "Serializer", "Signed"]
    assert apscheduler.__all__ == names
    assert [name for name in names if not inspect.getdoc(getattr(apscheduler, name))] == []


def test_every_public_name_is_there_and_explains_itself() -> None:
    assert [name for name in NAMES if not inspect.getdoc(getattr(pynamodb_tracker, name))] == []


def test_modules_are_reached_by_the_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exceptions", "instrumentation"):
        module = getattr(pynamodb_tracker, name)
        monkeypatch.delattr(pynamodb_tracker, name)  # as where only the package was imported
        assert getattr(pynamodb_tracker, name) is module
    assert not hasattr(pynamodb_tracker, "exception")


def test_every_public_method_explains_itself() -> None:
    silent = [
        f"{name}.{method}"
        for name in NAMES
        for method, value in vars(getattr(pynamodb_tracker, name)).items()
        if not method.startswith("_") and inspect.isroutine(value) and not inspect.getdoc(value)
    ]
    assert silent == []


def test_every_error_is_under_tracker_error() -> None:
    errors = [getattr(exceptions, name) for name in exceptions.__all__]
    assert all(issubclass(error, exceptions.TrackerError) for error in errors)


def test_every_error_is_imported_from_the_package() -> None:
    assert set(exceptions.__all__) <= set(pynamodb_tracker.__all__)


def test_the_core_depends_on_pynamodb_and_boto3_and_on_what_these_bring() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    core = [re.split(r"[^\w.-]", requirement)[0] for requirement in required]
    assert sorted(core) == ["boto3", "botocore", "pynamodb", "python-dateutil"]


def test_the_package_says_its_version() -> None:
    assert pynamodb_tracker.__version__ == metadata.version("pynamodb-tracker")


def test_a_status_is_equal_to_its_text_and_never_silently_unequal_to_a_code() -> None:
    status = pynamodb_tracker.Status.PENDING
    assert status == "pending"
    assert {status: 1}["pending"] == 1  # type: ignore[index]  # hashed as text
    with pytest.raises(TypeError, match=r"100 is the code of a state.*task\.state\.status with Status\.PENDING"):
        assert status != 100


def test_completion_offers_no_method_that_refuses_tasks_and_nothing_private() -> None:
    for offered in (dir(Order), dir(Order("o-1"))):
        assert {"create", "get_task", "ship", "state", "update", "__class__"} <= set(offered)
        assert not {"batch_write", "from_dynamodb_dict", "save", "_connection", "_states"} & set(offered)


def test_the_package_is_typed() -> None:
    assert resources.files("pynamodb_tracker").joinpath("py.typed").is_file()


def test_every_package_that_the_library_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras.keys() - {"bench", "dev", "docs"})]
    declared = {re.split(r"[^\w-]", each)[0].lower() for each in chain(*lists)}
    imported = set()
    for path in (ROOT / "pynamodb_tracker").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    imported -= sys.stdlib_module_names | {"pynamodb_tracker"}
    imported -= {"pytest", "typing_extensions"}  # what imports our plugin; what only type checkers import
    distributions = metadata.packages_distributions()
    assert {name for name in imported if declared.isdisjoint(map(str.lower, distributions[name]))} == set()
