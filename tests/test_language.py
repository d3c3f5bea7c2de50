from pathlib import Path

import pytest

from tests.language import main

CLEAN = '''"""Sends the update and returns the row."""

NAMES = "a; b"
'''


def write(root: Path, page: str, module: str) -> None:
    for file, text in {"README.md": page, "pynamodb_tracker/module.py": module}.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)


def test_code_and_tables_of_names_are_not_prose(tmp_path: Path) -> None:
    code = "```python\na = 1; b = 2  # what is stored\n```"
    table = "| name | use |\n|---|---|\n| `a` | state of the row; its lock |"
    write(tmp_path, f"Run `a; b`:\n\n{code}\n\n{table}\n", CLEAN)
    assert main(tmp_path) == 0


@pytest.mark.parametrize(
    ("habit", "sentence"),
    [
        ("'what' as a noun", "Return what is stored."),
        ("semicolon", "Kept forever; removed by a claim."),
        ("of the", "Return the id of the task."),
        ("is no", "Raised if it is no number."),
        ("old words", "The block goes on without its lock."),
        ("those that", "Count those that failed."),
        ("further", "Start no further task."),
    ],
)
@pytest.mark.parametrize("kind", ["page", "docstring", "comment", "text", "format"])
def test_a_habit_is_an_error_that_shows_the_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, habit: str, sentence: str
) -> None:
    module = {
        "docstring": f'LIMIT = 3\n"""{sentence}"""\n',
        "comment": f"LIMIT = 3\n# {sentence}\n",
        "text": f'\nERROR = "{sentence}"\n',
        "format": f'\nERROR = f"{{1}} {sentence}"\n',
    }
    write(tmp_path, sentence if kind == "page" else "Run it.", module.get(kind, CLEAN))
    assert main(tmp_path) == 1
    shown = capsys.readouterr().out
    assert f"too many of {habit}" in shown
    assert ("README.md:1" if kind == "page" else "pynamodb_tracker/module.py:2") in shown
