import inspect
import re
import tomllib
from importlib import metadata, resources
from operator import attrgetter

import pytest

import pynamodb_tracker
from pynamodb_tracker import apscheduler, aws_lambda, exceptions, instrumentation, opentelemetry, testing, web
from tests.support.pages import ROOT
from tests.support.shop import Order

SINCE = {"0.9": (ROOT / "tests" / "public_names_0_9.txt").read_text(encoding="utf-8").split()}
"""The public names, under the version since when. One that goes away is deprecated for two minor versions first."""

ALL = [name for names in SINCE.values() for name in names]
NAMES = [name for name in ALL if "." not in name]
MODULES = (apscheduler, aws_lambda, instrumentation, opentelemetry, testing, web)
ALIASES = {"aws_lambda.Reply", "aws_lambda.InvocationStatus", "aws_lambda.TriggerName"}
"""Types without a docstring of their own."""


def test_the_public_names_are_exactly_these() -> None:
    found = {f"{module.__name__.rpartition('.')[2]}.{name}" for module in MODULES for name in module.__all__}
    assert sorted(ALL) == sorted([*pynamodb_tracker.__all__, *found])
    assert max(map(_numbers, SINCE)) <= _numbers(pynamodb_tracker.__version__)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_every_public_name_is_there_and_explains_itself() -> None:
    objects = {name: attrgetter(name)(pynamodb_tracker) for name in ALL if name not in ALIASES}
    assert [name for name, each in objects.items() if not inspect.getdoc(each)] == []


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


def test_every_error_is_imported_from_the_package_and_under_tracker_error() -> None:
    classes: list[type] = [each for each in vars(exceptions).values() if inspect.isclass(each)]
    errors: dict[str, type] = {each.__name__: each for each in classes if issubclass(each, Exception)}
    assert errors.keys() - {"TaskError"} <= set(pynamodb_tracker.__all__)  # the base of errors about one task
    for error in (aws_lambda.UnreadableEventError, *errors.values()):
        assert issubclass(error, exceptions.TrackerError)


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
    with pytest.raises(TypeError, match=r"100 is a state.s code.*task\.state\.status with Status\.PENDING"):
        assert status != 100


def test_completion_offers_no_method_that_refuses_tasks_and_nothing_private() -> None:
    for offered in (dir(Order), dir(Order("o-1"))):
        assert {"create", "get_task", "ship", "state", "update", "__class__"} <= set(offered)
        assert not {"batch_write", "from_dynamodb_dict", "save", "_connection", "_states"} & set(offered)


def test_the_package_is_typed() -> None:
    assert resources.files("pynamodb_tracker").joinpath("py.typed").is_file()
