"""An error says where to read on, and the words by which a mistake is found."""

import pickle
import re
import tomllib
import traceback
from collections.abc import Callable

import pytest
from pynamodb.exceptions import DoesNotExist

import pynamodb_tracker
from pynamodb_tracker import (
    ConcurrencyLimit,
    Step,
    TaskNotFoundError,
    TrackerError,
    UseCase,
    ValueNotStorableError,
    aws_lambda,
)
from pynamodb_tracker.exceptions import TROUBLESHOOT
from pynamodb_tracker.task import metaclass
from pynamodb_tracker.testing import local_table
from tests.support.pages import ROOT, Page
from tests.support.shop import AppTask, Order, Parcel

PAGE = Page(ROOT / "docs" / "how-to" / "troubleshoot.md")
ERRORS = [
    error
    for module in (pynamodb_tracker, aws_lambda)
    for error in (getattr(module, name) for name in module.__all__)
    if isinstance(error, type) and issubclass(error, TrackerError)
]


def test_each_address_leads_to_a_part_of_the_page_that_names_the_error() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"] in TROUBLESHOOT  # test_site.py looks for it on the site as it is deployed
    parts = re.split(r"^## ", "\n".join(PAGE.lines), flags=re.MULTILINE)
    told = {re.sub(r"[^\w ]", "", part.partition("\n")[0]).lower().replace(" ", "-"): part for part in parts}
    with_entry = [error for error in ERRORS if error.entry]
    assert len(with_entry) > 8
    assert {error.entry for error in with_entry} <= PAGE.anchors()
    assert [error.__name__ for error in with_entry if error.__name__ not in told[error.entry]] == []


def test_every_error_that_the_page_names_has_its_address() -> None:
    named = set(re.findall(r"\b\w+Error\b", "\n".join(PAGE.prose())))
    assert [error.__name__ for error in ERRORS if error.__name__ in named and not error.entry] == []


def test_a_traceback_ends_with_the_address_once_also_in_another_process() -> None:
    error = TaskNotFoundError("Order 'o-1' does not exist", task_id="o-1")
    for each in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        lines = "".join(traceback.format_exception_only(each)).splitlines()
        assert lines[1:] == [f"See {TROUBLESHOOT}#a-task-does-not-start"]


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: Order.get("o-9"), DoesNotExist, "^Order 'o-9' does not exist$"),
    (lambda: Order.shipp, AttributeError, "Order has no step or attribute 'shipp'; did you mean 'ship'?"),  # type: ignore[attr-defined]
    (lambda: Order.ship.done, AttributeError, "ship has no 'done'; its states are pending, in_progress, failed,"),  # type: ignore[attr-defined]
    (lambda: Order.ship.pendin, AttributeError, "ship has no 'pendin'; its states are .* did you mean 'pending'"),  # type: ignore[attr-defined]
    (lambda: Order.create("o-9", amount="x"), ValueNotStorableError, "task 'o-9'"),
    (lambda: Order.ship.ignore("o-9"), TypeError, r"^BoundStep.ignore\(\).*; write Order\.ship\.ignore\("),  # type: ignore[call-arg]
    (lambda: Order.cancel("o-9"), TypeError, r"^Task.cancel\(\) .*; write Order\.cancel\("),  # type: ignore[call-arg]
    (Order.create, TypeError, r"^Task.create\(\) .*'task_id'; write Order\.create\(\"o-1\"\)$"),  # type: ignore[list-item]
    (ConcurrencyLimit, TypeError, r"'name' and 'slots'; write ConcurrencyLimit\(\"bank\", 20\)$"),  # type: ignore[list-item]
    (UseCase, TypeError, r"'name'; write UseCase\(\"order\"\)$"),  # type: ignore[list-item]
    (lambda: Step(10, retries=3), TypeError, r"'retries'; write Step\(100\), with any of max_attempts, lock_for, "),  # type: ignore[call-arg]
    (lambda: Parcel.sort.run("p-1"), TypeError, "@Parcel.sort.does.*Or pass a function.* handles as its decorator"),
]


@pytest.mark.parametrize(("mistake", "error", "told"), MISTAKES, ids=[told for _, _, told in MISTAKES])
def test_a_mistake_tells_what_to_write(mistake: Callable[[], object], error: type[Exception], told: str) -> None:
    with local_table(AppTask), pytest.raises(error, match=told):
        mistake()


def test_a_name_that_is_missing_is_still_missing() -> None:
    assert not hasattr(Order, "_shipp")
    assert not hasattr(Order.ship, "__wrapped__")
    assert isinstance(Order.use_case_id, UseCase)


def test_the_definition_of_a_class_pays_for_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaclass, "did_you_mean", lambda *_: pytest.fail("a hint was looked for"))

    class Return(AppTask):
        use_case_id = UseCase("return")
        inspect = Step(10)

    assert Return.inspect.name == "inspect"
