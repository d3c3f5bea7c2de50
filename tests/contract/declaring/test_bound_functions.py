"""A function that is bound to its step, and runs wherever no function is given."""

from typing import Any

import pytest

from pynamodb_tracker import DefinitionError, ExecutionContext, Step, UseCase
from tests.support.declaring import declare
from tests.support.network import unreached
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table")


class Letter(AppTask):
    """Its first step has a function, its second one has none."""

    use_case_id = UseCase("bound letter")

    write = Step(10)
    send = Step(20)


@Letter.write.does
def write(ctx: ExecutionContext[Letter]) -> str:
    """Write a letter."""
    ctx.task.data["text"] = f"Dear {ctx.task.task_id}"
    return "written"


def stub(_ctx: object) -> str:
    return "stub"


def test_a_bound_function_is_returned_unchanged_and_known_to_its_step() -> None:
    assert write.__doc__ == "Write a letter."
    assert Letter.write.function is write
    assert Letter.send.function is None


def test_run_without_a_function_runs_the_bound_one_and_returns_its_result() -> None:
    Letter.create("l-1")
    assert (Letter.write.run("l-1"), Letter.get_task("l-1").data) == ("written", {"text": "Dear l-1"})


def test_run_all_without_a_function_runs_the_bound_one() -> None:
    Letter.create_many(["l-1", "l-2"])
    assert sorted(Letter.write.run_all().succeeded) == ["l-1", "l-2"]


def test_the_bound_function_may_also_be_given() -> None:
    Letter.create("l-1")
    assert Letter.write.run("l-1", write) == "written"


def test_without_a_function_a_step_says_how_to_bind_one() -> None:
    message = "no function is bound to Letter.send: bind one with @Letter.send.does"
    with unreached():
        for call in (lambda: Letter.send.run("l-1"), Letter.send.run_all):
            with pytest.raises(TypeError, match=message):
                call()


def test_another_function_than_the_bound_one_is_refused_with_the_names_of_both() -> None:
    message = (
        r"Letter.write does tests.contract.declaring.test_bound_functions.write, not .*\.stub: leave the function out"
    )
    with unreached():
        for call in (lambda: Letter.write.run("l-1", stub), lambda: Letter.write.run_all(stub)):
            with pytest.raises(ValueError, match=message):
                call()


def test_a_test_replaces_the_bound_function_as_the_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    Letter.create("l-1")
    monkeypatch.setattr(Letter.write, "function", stub)
    assert Letter.write.run("l-1") == "stub"


def test_a_second_function_of_a_step_is_a_definition_error_that_names_both() -> None:
    with pytest.raises(DefinitionError, match=r"Letter.write does .*\.write, and cannot do .*\.stub as well"):
        Letter.write.does(stub)
    assert Letter.write.function is write


def test_a_reload_or_a_notebook_may_define_the_bound_function_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letter.send, "function", None)
    module: dict[str, Any] = {"__name__": "shop", "Letter": Letter}
    code = compile("@Letter.send.does\ndef send(ctx): pass", "shop.py", "exec")
    for name in ("shop", "__main__"):  # `python -m shop`, which something imports as well
        module["__name__"] = name
        exec(code, module)  # noqa: S102 - as a reload does
        assert Letter.send.function is module["send"]


def test_two_functions_without_a_name_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letter.send, "function", None)
    Letter.send.does(lambda _: 1)
    with pytest.raises(DefinitionError, match="as well"):
        Letter.send.does(lambda _: 2)


def logged(function: Any) -> Any:
    """Decorate a function without passing its name on."""

    def wrapper(ctx: object) -> object:
        return function(ctx)

    return wrapper


def test_two_functions_made_by_one_decorator_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letter.send, "function", None)
    Letter.send.does(logged(write))
    with pytest.raises(DefinitionError, match="another function of that name as well"):
        Letter.send.does(logged(stub))
    with pytest.raises(ValueError, match="leave the function out"):
        Letter.send.run("l-1", logged(stub))


def test_a_method_of_one_object_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letter.send, "function", None)
    post = Post()
    Letter.send.does(post.send)
    Letter.create("l-1", state=Letter.send.pending)
    assert Letter.send.run("l-1", post.send) == "sent"
    with pytest.raises(ValueError, match="leave the function out"):
        Letter.send.run("l-1", Post().send)


class Post:
    def send(self, _ctx: object) -> str:
        return "sent"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("print", "takes a function of the context"),
        (lambda: None, r"a function of \(ctx\)"),
        (lambda _ctx, _event: None, r"a function of \(ctx\)"),
    ],
)
def test_what_cannot_run_a_step_is_not_bound(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Letter.send.does(function)
    assert Letter.send.function is None


def test_a_class_that_inherits_a_step_does_not_inherit_its_function() -> None:
    order: Any = declare("Order")
    order.pack.does(stub)
    express: Any = declare("Express", order, use_case_id=UseCase("express"), pack=None)
    assert (order.pack.function, express.pack.function) == (stub, None)
