"""Counts habits that make English hard to read; more of them than the limit is an error: python -m tests.language.

It reads README and docs, and the package's docstrings, comments, strings and templates. It leaves out code, and rows of
tables that describe a name. Limits are per 10,000 words.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "pynamodb_tracker"
LARGE = 5_000
"""Words. A smaller package is counted together with the other small ones: one sentence would exceed its limit."""
SHOWN = 15
DOCS = "README and docs"


@dataclass(frozen=True)
class Habit:
    name: str
    pattern: re.Pattern[str]
    in_docs: int
    in_code: int


def habit(name: str, pattern: str, in_docs: int, in_code: int) -> Habit:
    return Habit(name, re.compile(pattern, re.IGNORECASE), in_docs, in_code)


HABITS = [
    habit(
        "'what' as a noun",
        r"\bwhat (?:is|was|are|were|it|an?|the|they|each|has|follows|came|runs?|ended|happened|failed|to|this|that"
        r"|these|becomes?|can|may|must|comes?|changes|belongs|keeps|others?)\b(?![^.?!]*\?)",
        in_docs=3,
        in_code=6,
    ),
    habit("semicolon", r";(?! (?:X\b|\d))", in_docs=5, in_code=10),
    habit("of the", r"\bof (?:the|an?|its|each|all|those)\b", in_docs=60, in_code=70),
    habit("is no", r"\b(?:is|are|was|were|has|have|had|holds?|needs?|takes?) no \w", in_docs=4, in_code=8),
    habit(
        "old words",
        r"\b(?:meanwhile|for ever|anew|in vain|as ever|by then|therein|thereby|hence|all the same|in place of"
        r"|goe?s? on|runs on)\b",
        in_docs=1,
        in_code=1,
    ),
    habit("those that", r"\b(?:those|that|the ones?) (?:of|that|which|whose|with)\b|\bwhose\b", in_docs=6, in_code=10),
    habit("further", r"\b(?:further|another one|one more|the other one|once more)\b", in_docs=3, in_code=3),
]


LEFT_OUT_OF_PAGES = [
    re.compile(r"\A---\n.*?\n---\n|```.*?```|<(script|style)\b.*?</\1>|<!--.*?-->", re.DOTALL),
    re.compile(r"^ *\| *`[^|]*` *\|.*$", re.MULTILINE),
    re.compile(r"\{[{%#].*?[}%#]\}|<[a-z/!][^>]*>|\]\([^)]*\)|&\w+;", re.DOTALL),
]
CODE_IN_STRINGS = re.compile(r"^ *(?:>>>|\.\.\.) .*$|```.*?```|`[^`]*`|<[a-z/][^>]*>|&\w+;", re.MULTILINE | re.DOTALL)


class Text(NamedTuple):
    """A paragraph, a comment or a string, and where it begins."""

    file: Path
    line: int
    words: str


def texts_of_page(file: Path) -> Iterator[Text]:
    source = file.read_text()
    for left_out in LEFT_OUT_OF_PAGES:
        source = left_out.sub(lambda found: " " + "\n" * found[0].count("\n"), source)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", re.sub(r"`[^`]*`", "X", source)):
        if paragraph.strip():
            yield Text(file, line, " ".join(paragraph.replace("|", " ").split()))
        line += paragraph.count("\n")


def texts_of_module(file: Path) -> Iterator[Text]:
    """Yield the comments, docstrings and other strings of a module. Strings of one or two words are names."""
    source = file.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(file, token.start[0], re.sub(r"# *(?:noqa|type: ignore|pragma|fmt)\b\S*|^#+", "", token.string))
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield Text(file, node.lineno, " ".join("".join(map(str, values)).split()))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            words = CODE_IN_STRINGS.sub(" X ", node.value).split()
            if len(words) > 2:
                yield Text(file, node.lineno, " ".join(words))


def count_words(texts: list[Text]) -> int:
    return sum(len(text.words.split()) for text in texts)


def groups_of(root: Path) -> dict[str, list[Text]]:
    """Return the texts of the docs, of each large package, of the small ones together, and of all packages."""
    docs = [
        text for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] for text in texts_of_page(page)
    ]
    packages: dict[str, list[Text]] = {}
    for file in sorted((root / PACKAGE).rglob("*.*")):
        read = {".py": texts_of_module, ".html": texts_of_page}.get(file.suffix)
        if read:
            packages.setdefault(file.relative_to(root / PACKAGE).parts[0], []).extend(read(file))
    large = {name: texts for name, texts in packages.items() if count_words(texts) >= LARGE}
    small = [text for name, texts in packages.items() if name not in large for text in texts]
    return {
        DOCS: docs,
        **large,
        "small packages": small,
        PACKAGE: [text for texts in packages.values() for text in texts],
    }


def sentences_with(habit: Habit, texts: list[Text]) -> Iterator[tuple[Text, str]]:
    for text in texts:
        for sentence in re.split(r"(?<=[.?!:]) ", text.words):
            for _ in habit.pattern.finditer(sentence):
                yield text, sentence


def main(root: Path = ROOT) -> int:
    """Print the rates of each group, and the sentences of each file that has most of a habit beyond its limit."""
    groups = groups_of(root)
    lines = [f"{'':18}{'words':>8}" + "".join(f"{habit.name:>18}" for habit in HABITS)]
    beyond: list[str] = []
    for name, texts in groups.items():
        words = count_words(texts)
        line = f"{name:18}{words:>8}"
        for habit in HABITS:
            limit = habit.in_docs if name == DOCS else habit.in_code
            found = list(sentences_with(habit, texts))
            rate = len(found) * 10_000 / max(words, 1)
            line += f"{f'{rate:.1f} of {limit}':>18}"
            if rate > limit:
                beyond += [f"{name}: too many of {habit.name}", *worst_of(found, root)]
        lines.append(line)
    sys.stdout.write("\n".join([*lines, *beyond, ""]))
    return int(bool(beyond))


def worst_of(found: list[tuple[Text, str]], root: Path) -> list[str]:
    """Return the sentences with a habit, those of the files that have most of it first."""
    counts = Counter(text.file for text, _ in found)
    worst = sorted(found, key=lambda each: (-counts[each[0].file], each[0].file, each[0].line))
    lines = [f"  {text.file.relative_to(root)}:{text.line}: {sentence}" for text, sentence in worst]
    return list(dict.fromkeys(lines))[:SHOWN]


if __name__ == "__main__":
    sys.exit(main())
