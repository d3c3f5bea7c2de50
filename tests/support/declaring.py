"""Creates classes on the fly, so that a test can declare one wrongly in one line."""

import types
from typing import Any

import pytest

from pynamodb_tracker import DefinitionError, Step, Task, UseCase


def new_table(name: str = "Shop", /, **meta: Any) -> Any:
    settings = {"table_name": "shop", "region": "us-east-1", **meta}
    return types.new_class(name, (Task,), exec_body=lambda namespace: namespace.update(Meta=type("Meta", (), settings)))


def declare(name: str = "Order", /, *bases: type, **namespace: Any) -> Any:
    """Return a class, by default a use case `order` with one step."""
    body = {"use_case_id": UseCase("order"), "pack": Step(500), **namespace}
    body = {key: value for key, value in body.items() if value is not None}
    return types.new_class(name, bases or (new_table(),), exec_body=lambda space: space.update(body))


def refusal(name: str = "Order", /, *bases: type, **namespace: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        declare(name, *bases, **namespace)
    return str(caught.value)
