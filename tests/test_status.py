"""The codes of ends are compared in one place."""

import ast
from pathlib import Path

import pynamodb_tracker
from pynamodb_tracker.status import CANCELLED, END, end_of

PACKAGE = Path(pynamodb_tracker.__file__).parent


def compares_an_end(node: ast.AST) -> bool:
    operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return any(isinstance(each, ast.Name) and each.id in {"END", "CANCELLED"} for each in operands)


def test_only_one_guard_compares_a_code_with_an_end_and_all_others_ask_which_end_it_is() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if compares_an_end(node)
    }
    assert found == {"writes/conditions.py: TaskRow.status < END"}
    assert [end_of(code) for code in (END, CANCELLED, 990, None)] == ["succeeded", "cancelled", None, None]
