"""`load` and `export`: files of tasks."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker import Repeat
from pynamodb_tracker.step.state import all_tasks
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import APP, Ended, run
from tests.cli.shop import Order, Sample
from tests.support.rows import change, park, stored

pytestmark = pytest.mark.usefixtures("store")

SAMPLE = "tests.cli.shop:Sample"
UNCLOSED = "a quote opens here and never closes, so the rest was not read"
KNOWN = (
    "It has task_id, state, due_time, group, repeat, trace, urgent, awaited_signals, signals, wait_for, until, "
    "checkpoints, skipped_steps, postpone_count, first_failure, cancelled, missed_signals, amount, data, note"
)


def load(text: str, *options: str, of: str = APP) -> Ended:
    return run("load", "-", *options, text=text, of=of)


def test_a_csv_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(
        'task_id,amount,note,data,state\no-1,4.5,"two\nlines","{""a"": 1}",\no-2,,,,ship.failed\n', "utf-8-sig"
    )
    ended = run("load", str(path))
    assert (ended.code, ended.out, ended.err) == (0, "2 tasks created\n", "")
    order = Order.get_task("o-1")
    assert (order.amount, order.note, order.data, order.state) == (4.5, "two\nlines", {"a": 1}, Order.pay.pending)
    assert Order.get_task("o-2").state == Order.ship.failed
    assert "note" not in Order.get_task("o-2").attribute_values


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_csv_file_may_be_separated_by_something_else(mark: str) -> None:
    assert load(f"task_id{mark}note\no-1{mark}a, b\n").code == 0
    assert Order.get_task("o-1").note == "a, b"


def test_json_lines_are_loaded() -> None:
    ended = load('{"task_id": "o-1", "amount": 5, "data": {"a": [1]}}\n\n{"task_id": "o-2", "note": null}\n')
    assert (ended.code, ended.out) == (0, "2 tasks created\n")
    assert Order.get_task("o-1").data == {"a": [1]}


def test_due_time_and_state_are_taken(store: StoppedClock) -> None:
    later = store.now() + timedelta(days=1)
    lines = [
        {"task_id": "o-1", "due_time": later.isoformat()},
        {"task_id": "o-2", "state": "ship.in_progress"},
        {"task_id": "o-3"},
    ]
    assert load("\n".join(map(json.dumps, lines)), "--state", "ship.ignored", "--threads", "1").code == 1
    assert load("\n".join(map(json.dumps, lines)), "--state", "ship.failed").code == 0
    assert Order.get_task("o-1").due_time == later
    assert [str(Order.get_task(f"o-{number}").state) for number in (1, 2, 3)] == [
        "ship failed",
        "ship pending",
        "ship failed",
    ]


BAD = """task_id,amount
o-1,1
o-2,many
,3
o-4,5,6
o-1,7
o-6,8
"""


def test_the_first_bad_line_is_reported_by_number_and_ends_it() -> None:
    ended = load(BAD, "--threads", "1")
    assert (ended.code, ended.out) == (1, "1 task created, 1 bad line\n")
    assert ended.err.splitlines() == [
        "stdin:3: amount: 'many' is not a number",
        "stopped at the first bad line: add --keep-going to load the others",
    ]


def test_of_lines_that_are_under_way_the_first_bad_one_alone_is_reported() -> None:
    ended = load("task_id,amount\n" + "o-1,many\n" * 40, "--threads", "8")
    assert (ended.out, ended.err.count("is not a number")) == ("0 tasks created, 1 bad line\n", 1)


def test_with_keep_going_each_bad_line_is_reported_and_the_others_are_loaded() -> None:
    ended = load(BAD, "--keep-going", "--threads", "1")
    assert (ended.code, ended.out) == (1, "2 tasks created, 4 bad lines\n")
    assert ended.err.splitlines() == [
        "stdin:3: amount: 'many' is not a number",
        "stdin:4: task_id is missing",
        "stdin:5: 3 fields, but the header has 2",
        "stdin:6: cannot create Order 'o-1': it already exists. It was not changed (--skip-existing skips such lines)",
    ]
    assert Order.get_task("o-6").amount == 8


def test_a_load_that_was_stopped_goes_on_with_skip_existing() -> None:
    Order.create("o-1", amount=1)
    ended = load("task_id,amount\no-1,5\no-2,6\n", "--skip-existing")
    assert (ended.code, ended.out) == (0, "1 task created, 1 already existed\n")
    assert Order.get_task("o-1").amount == 1


def test_a_dry_run_checks_and_creates_nothing() -> None:
    ended = load(BAD, "--dry-run", "--keep-going", "--threads", "1")
    assert (ended.code, ended.out) == (1, "3 tasks to create, 3 bad lines\n")
    assert sum(Order.counts().values()) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", 'this is not a JSON object: write one per line, as in {"task_id": "o-1"}'),
        ("{", "this is not JSON: "),
        ('{"task_id": "o-1", "amount": NaN}', "this is not JSON: JSON cannot represent NaN"),
        ('{"task_id": 5}', "a task id must be text, not 5: write '5'"),
        ('{"amount": 5}', "task_id is missing"),
        ('{"task_id": "o-1", "amout": 5}', "Order has no attribute 'amout'; did you mean 'amount'?"),
        ('{"task_id": "o-1", "amount": "5"}', "amount: '5' is not a number"),
        ('{"task_id": "o-1", "note": 5}', "note: 5 is not a string"),
        ('{"task_id": "o-1", "state": "x.failed"}', "Order has no step 'x'. Its steps are pay, ship"),
        (
            '{"task_id": "o-1", "due_time": "soon"}',
            "due_time: 'soon' is not a time: write it as in 2026-01-31T12:00:00Z",
        ),
        ('{"task_id": "o-1", "blockers": 3}', "blockers: nothing would end the wait of a loaded task"),
        ('{"task_id": "o-1", "queued": {}}', "queued: load it without queued, and then run create --merge"),
        ('{"task_id": "o-1", "repeat": "daily"}', "repeat: 'daily' is not a rule: write it as 'cron 0 2 * * *'"),
        ('{"task_id": "o-1", "repeat": "every 5 hours"}', "repeat: '5 hours' is not a duration"),
        ('{"task_id": "o-1", "repeat": {"hourly": 1}}', "repeat: the rule '{\"hourly\": 1}' cannot be read"),
        (
            '{"task_id": "o-1", "repeat": "every 1h", "state": "ship.pending"}',
            "repeat: a repeating task begins as pay.pending, not ship.pending: leave out the rule or the state",
        ),
        ('{"task_id": "o-1", "trace": 5}', "trace must map text to text"),
        ('{"task_id": "o-1", "data": [1]}', "Order.data = a list cannot be stored"),
        ('{"task_id": "o-1", "attempt": 5}', "Order has no attribute 'attempt'"),
        ('{"task_id": "o-1", "note": "\udcff"}', "this is not JSON: it is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_line_is_reported(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"\n{line}\n", encoding="utf-8", errors="surrogateescape")
    ended = run("load", str(path))
    assert ended.code == 1
    assert ended.err.startswith(f"{path}:2: {words}")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("id,amount", f"Order has no attribute 'id'. {KNOWN}"),
        ("task_id,amout", "Order has no attribute 'amout'; did you mean 'amount'?"),
        ("amount", "the column 'task_id' is missing"),
        ("task_id,note,note", "the column 'note' appears twice"),
        ('task_id,"note', "this is not CSV: unexpected end of data"),
        (",", f"Order has no attribute ''. {KNOWN}"),
    ],
)
def test_a_wrong_header_is_reported_before_anything_is_created(header: str, words: str) -> None:
    ended = load(header)
    assert (ended.code, ended.out, ended.err) == (2, "", f"stdin:1: {words}\n")


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    ended = run("load", str(tmp_path / "no.csv"))
    assert (ended.code, ended.err) == (2, f"{tmp_path / 'no.csv'}: No such file or directory\n")


def test_the_format_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "orders.txt"
    path.write_text('{"task_id": "o-1"}\n')
    assert run("load", str(path), "--format", "csv").code == 2
    assert run("load", str(path)).code == 0
    assert run("load", str(path), "--format", "jsonl", "--skip-existing").code == 0


def sample(task_id: str) -> Sample:
    return Sample.create(
        task_id,
        name="x \x9b31m",
        is_good=False,
        photo=b"\x00\x01",
        labels={"b", "a"},
        weights={2, 1.5},
        taken_at=datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC),
        parts=["a", 1, None, {"b": [True]}],
        place={"city": "Rome", "at": [1.5]},
        extra=[{"a": None}],
        data={"b": "é"},
    )


def test_what_export_writes_load_reads_back() -> None:
    sample("s-1")
    before = Sample.get_task("s-1")
    ended = run("export", of=SAMPLE)
    assert (ended.code, ended.err) == (0, "1 task of Sample\n")
    assert ended.out.isascii()
    Sample.delete_task("s-1")
    assert load(ended.out, of=SAMPLE).err == ""
    after = Sample.get_task("s-1")
    for name in Sample.tracker.own_attributes:
        was, now = getattr(before, name), getattr(after, name)
        assert (now.attribute_values if name == "place" else now) == (was.attribute_values if name == "place" else was)
    assert run("export", of=SAMPLE).out == ended.out


def test_a_number_that_json_does_not_have_is_exported_as_text_with_a_mark_and_loads() -> None:
    Sample.create("s-1", name="x")
    change(Sample, "s-1", extra={"S": '{"rate": NaN}'}, data={"S": '{"limit": -Infinity}'})

    ended = run("export", of=SAMPLE)
    shown = json.loads(run("show", "s-1", "--json", of=SAMPLE).out, parse_constant=pytest.fail)
    assert json.loads(ended.out, parse_constant=pytest.fail)["extra"] == {"rate": "<NaN>"}
    assert (shown["attributes"]["extra"], shown["attributes"]["data"]) == ({"rate": "<NaN>"}, {"limit": "<-Infinity>"})
    assert json.loads(Sample.get_task("s-1").to_json(), parse_constant=pytest.fail)["extra"] == {"rate": "<NaN>"}

    Sample.delete_task("s-1")
    assert load(ended.out, of=SAMPLE).err == ""
    assert Sample.get_task("s-1").data == {"limit": "<-Infinity>"}


def test_csv_has_values_of_every_kind() -> None:
    text = (
        "task_id,name,is_good,photo,labels,weights,taken_at,parts,place,extra\n"
        's-1,x,yes,AAE=,"[""a""]",[1],2026-01-31,"[1, ""b""]","{""city"": ""Rome""}",[1]\n'
        "s-2,x,perhaps,,,,,,,\n"
        "s-3,x,,A,,,,,,\n"
        's-4,x,,,"{}",,,,,\n'
        "s-5,x,,,,,,,nowhere,\n"
    )
    ended = load(text, "--keep-going", "--threads", "1", of=SAMPLE)
    assert ended.out == "1 task created, 4 bad lines\n"
    assert [line.partition(": ")[2] for line in ended.err.splitlines()] == [
        "is_good: 'perhaps' is not true or false",
        "photo: Invalid base64-encoded string: number of data characters (1) cannot be 1 more than a multiple of 4",
        "labels: {} is not a list of strings",
        "place: 'nowhere' is not JSON",
    ]
    task = Sample.get_task("s-1")
    assert (task.is_good, task.photo, task.labels, task.weights, task.extra) == (True, b"\x00\x01", {"a"}, {1}, [1])
    assert task.taken_at == datetime(2026, 1, 31, tzinfo=UTC)


def test_export_has_state_and_due_time_and_what_load_makes_of_them(store: StoppedClock) -> None:
    later = store.now() + timedelta(hours=1)
    Order.create("done", state=Order.ship.succeeded)
    Order.create("failed", state=Order.ship.failed, due_time=later)
    Order.create("held")
    Order.create("ready", amount=5)
    Order.pay.start("held").__enter__()
    lines = [json.loads(line) for line in run("export").out.splitlines()]
    assert sorted(lines, key=lambda line: str(line["task_id"])) == [
        {"task_id": "done", "state": "ship.succeeded"},
        {"task_id": "failed", "state": "ship.failed", "due_time": later.isoformat()},
        {"task_id": "held", "state": "pay.in_progress"},
        {"task_id": "ready", "state": "pay.pending", "amount": 5},
    ]


def test_a_task_that_repeats_is_loaded_with_its_next_occurrence() -> None:
    rule = Repeat.cron("0 2 * * *", tz="Europe/Berlin")
    Order.create("o-1", repeat=rule)
    text = run("export").out
    due_time = Order.get_task("o-1").due_time
    Order.delete_task("o-1")
    assert load(text).code == 0
    assert (Order.get_task("o-1").repeat, Order.get_task("o-1").due_time) == (rule, due_time)
    assert load("task_id,repeat\no-2,cron 0 2 * * * in Europe/Berlin\no-3,every 1h30m\n").code == 0
    assert Order.get_task("o-2").repeat == rule
    assert Order.get_task("o-3").repeat == Repeat.every(timedelta(minutes=90))


def test_export_has_what_a_loaded_task_has_and_what_it_cannot_have(store: StoppedClock) -> None:
    Order.create("waits", trace={"traceparent": "00-1"})
    park(Order, "waits", 3)
    Order.create("runs")
    Order.pay.start("runs").__enter__()
    Order.create_or_merge("runs", due_time=store.now(), amount=5)
    lines = {line["task_id"]: line for line in map(json.loads, run("export").out.splitlines())}
    again = {"due_time": store.now().isoformat(), "attributes": {"amount": 5}}
    trace = {"traceparent": "00-1"}
    assert lines["waits"] == {"task_id": "waits", "state": "pay.pending", "trace": trace, "blockers": 3}
    assert lines["runs"] == {"task_id": "runs", "state": "pay.in_progress", "queued": again}
    assert load(json.dumps({"task_id": "o-1", "trace": trace})).code == 0
    assert load('task_id,trace\no-2,"{""traceparent"": ""00-1""}"\n').code == 0
    assert Order.get_task("o-1").trace == Order.get_task("o-2").trace == trace


def test_export_of_a_state_takes_a_window(store: StoppedClock) -> None:
    Order.create("old")
    store.advance(timedelta(days=2))
    Order.create("new")
    assert run("export", "pay.pending", "--since", "1d").out == '{"task_id": "new", "state": "pay.pending"}\n'
    assert run("export", "--since", "1d").code == 2


@pytest.mark.parametrize(
    ("text", "of", "said"),
    [
        (f"task_id,name,extra\ns-1,x,{'[' * 100_000}\ns-2,x,\n", SAMPLE, "2: extra: its JSON is nested deeper than"),
        ('task_id,note\no-1,"a"b\no-2,c\n', APP, "2: this is not CSV: "),
        ('task_id,note\no-1,a\no-2,"b\no-3,c\n', APP, f"3: this is not CSV: {UNCLOSED}\n"),
    ],
    ids=["nested too deep", "no CSV", "a quote that is never closed"],
)
def test_what_cannot_be_read_is_one_bad_line(text: str, of: str, said: str) -> None:
    ended = load(text, "--keep-going", of=of)
    assert (ended.code, ended.out) == (1, "1 task created, 1 bad line\n")
    assert (ended.err.startswith(f"stdin:{said}"), ended.err.count("\n")) == (True, 1)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff\n\n"])
@pytest.mark.parametrize("form", [(), ("--format", "jsonl"), ("--format", "csv")])
def test_a_file_without_a_line_is_fine(text: str, form: tuple[str, ...]) -> None:
    ended = load(text, *form)
    assert (ended.code, ended.out, ended.err) == (0, "0 tasks created\n", "")


def test_a_file_that_is_none_is_reported_on_one_line(tmp_path: Path) -> None:
    packed = tmp_path / "orders.csv.gz"
    packed.write_bytes(b"\x1f\x8b")
    for name, words in {
        "": "'': No such file or directory",
        str(tmp_path): f"{tmp_path}: Is a directory",
        "a\0b": r"a\x00b: embedded null byte",
        str(packed): f"{packed} is compressed: zcat {packed} | pynamodb-tracker load -",
    }.items():
        ended = run("load", name)
        assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


@pytest.mark.parametrize(
    "line",
    [
        '{"task_id": "o-1", "amount": 1e400}',
        '{"task_id": 5}',
        json.dumps({"task_id": "x" * 1100}),
        '{"task_id": "o-1", "data": "text"}',
        json.dumps({"task_id": "o-1", "note": "x" * 500_000}),
        json.dumps({"task_id": "o-1", "data": {"text": "x" * 11_000_000}}),
        '{"task_id": "o-1", "state": "ship.succeeded", "due_time": "2026-01-31"}',
    ],
    ids=lambda line: line[:40],
)
def test_a_dry_run_refuses_what_a_load_refuses(line: str) -> None:
    wet, dry = load(line), load(line, "--dry-run")
    assert (dry.code, dry.err, dry.out) == (1, wet.err, "0 tasks to create, 1 bad line\n")


def test_a_dry_run_takes_tasks_of_a_group() -> None:
    lines = '{"task_id": "o-1", "group": "c-7"}\n{"task_id": "o-2", "group": "c-7", "state": "ship.pending"}\n'
    ended = load(lines, "--dry-run")
    assert (ended.code, ended.out) == (0, "2 tasks to create\n")
    assert Order.group("c-7").turn is None


def test_a_dry_run_of_a_large_task_creates_nothing() -> None:
    line = json.dumps({"task_id": "o-1", "data": {"text": "x" * 500_000}})
    assert load(line, "--dry-run").out == "1 task to create\n"
    assert sum(Order.counts().values()) == 0
    assert load(line).out == "1 task created\n"


def test_a_state_that_no_step_declares_is_refused_with_what_to_do() -> None:
    ended = load('{"task_id": "o-1", "state": "unknown.77"}')
    words = "no step of Order declares unknown.77: declare its step or write another state"
    assert (ended.code, ended.err.splitlines()[0]) == (1, f"stdin:1: {words}")


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.cli.terminal._LINE_EVERY", 0)
    ended = load("task_id\no-1\no-2\n", "--threads", "1")
    assert ended.err == "load: 1 task created\nload: 2 tasks created\n"


def test_data_that_was_written_again_during_an_export_is_read_again() -> None:
    Order.create("o-1", data={"text": "x" * 5000})
    Order.create("o-2", data={"text": "x" * 5000})

    def scanned(model: type[Order]) -> Iterator[Order]:
        for order in all_tasks(model):
            if order.task_id == "o-1":
                for step in (Order.pay, Order.ship):
                    with step.start("o-1") as ctx:
                        ctx.task.data["text"] = step.name * 2000
            else:
                Order.delete_task("o-2")
            yield order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pynamodb_tracker.cli.commands.transfer.all_tasks", scanned)
        ended = run("export")
    (line,) = [json.loads(line) for line in ended.out.splitlines()]
    assert (line["task_id"], line["state"], line["data"]) == ("o-1", "ship.succeeded", {"text": "ship" * 2000})
    assert ended.err == "1 task of Order\n"


def test_an_interrupted_export_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Order.create("o-1")

    def scanned(_model: type[Order]) -> Iterator[Order]:
        yield first
        raise KeyboardInterrupt

    monkeypatch.setattr("pynamodb_tracker.cli.commands.transfer.all_tasks", scanned)
    ended = run("export")
    assert (ended.code, ended.err) == (130, "stopped after 1 task\n")


def test_what_is_past_its_time_to_live_is_not_exported(store: StoppedClock) -> None:
    Sample.create("s-1", name="x", state=Sample.test.ignored)
    with Sample.test.start("s-1", also_from=(Sample.test.ignored,)):
        pass
    store.advance(timedelta(days=29))
    assert run("export", of=SAMPLE).err == "1 task of Sample\n"
    store.advance(timedelta(days=2))
    assert run("export", of=SAMPLE).err == "0 tasks of Sample\n"


DIGITS = (
    "12345678901234567890.123456789",
    "-0.99999999999999999999999999999999999999",
    "98765432109876543210987654321098765432",
    "1.2345678901234567890123456789012345678E+125",
    "-1.2345678901234567890123456789012345678E-90",
    "0.1",
    "9007199254740993",
)
"""Numbers of up to 38 digits, which is the most that DynamoDB stores."""


def numbers_of(task_id: str) -> dict[str, Any]:
    item = stored(Sample, task_id)
    return {name: item[name] for name in ("weights", "parts", "place", "extra", "data", "name", "ratio")}


def test_export_and_load_keep_every_digit() -> None:
    numbers = {f"n{at}": {"N": text} for at, text in enumerate(DIGITS)}
    texts = ",".join(f'"é{at}":{text}' for at, text in enumerate(DIGITS))
    Sample.create("s-1", name="x")
    change(
        Sample,
        "s-1",
        weights={"NS": list(DIGITS)},
        parts={"L": [*numbers.values(), {"M": numbers}]},
        place={"M": numbers},
        extra={"S": f"{{{texts}}}"},
        data={"S": f'{{"all":[{{{texts}}}],"round":1.50}}'},
        ratio={"N": DIGITS[0]},
    )
    before = numbers_of("s-1")
    exported = run("export", of=SAMPLE)
    assert (exported.code, exported.lines[0].count(DIGITS[0])) == (0, 7)
    Sample.delete_task("s-1")
    assert load(exported.out, of=SAMPLE).code == 0
    after = numbers_of("s-1")
    assert sorted(map(Decimal, after["weights"]["NS"])) == sorted(map(Decimal, before["weights"]["NS"]))
    del after["weights"], before["weights"]
    assert after == before
    for text in DIGITS:
        assert text in run("show", "s-1", of=SAMPLE).out
        assert text in run("show", "s-1", "--json", of=SAMPLE).out
        assert text in run("list", "test.pending", "--json", of=SAMPLE).out


def test_csv_fields_keep_every_digit() -> None:
    assert load(f'task_id,name,ratio,data\ns,x,{DIGITS[0]},"{{""a"": {DIGITS[1]}}}"\n', of=SAMPLE).code == 0
    assert run("export", of=SAMPLE).lines == [
        f'{{"task_id": "s", "state": "test.pending", "data": {{"a": {DIGITS[1]}}}, "name": "x", "ratio": {DIGITS[0]}}}'
    ]


def test_a_number_beyond_the_limits_of_dynamodb_is_a_bad_line() -> None:
    for name, number in (("ratio", "1" * 39), ("ratio", "0." + "1" * 39), ("data", '{"n": 1e400}')):
        ended = load(f'{{"task_id": "s-1", "name": "x", "{name}": {number}}}', of=SAMPLE)
        assert (ended.code, ended.out) == (1, "0 tasks created, 1 bad line\n")


@pytest.mark.parametrize(
    ("price", "problem"), [('"12.50"', ""), ('"NaN"', "price"), ('"a lot"', "'a lot' is not a number")]
)
def test_an_amount_is_loaded_as_text_too(price: str, problem: str) -> None:
    ended = load(f'{{"task_id": "s", "name": "x", "price": {price}}}\n', of=SAMPLE)
    assert (ended.code, problem in ended.err) == (1 if problem else 0, True)
    assert [task.price for task in all_tasks(Sample)] == ([] if problem else [Decimal("12.50")])


def test_a_task_is_loaded_with_the_answers_that_it_awaits_and_has(store: StoppedClock) -> None:
    limit, later = store.now() + timedelta(days=2), store.now() + timedelta(days=9)
    Order.create("waits")
    Order.approved.send("waits", {"a": [1.5]}, by="ada", key="evt-1")
    with Order.pay.start("waits") as ctx:
        ctx.wait_for(Order.paid, until=later)
    Order.create("ever", wait_for=Order.paid)
    Order.create("late", wait_for=Order.paid, until=limit)
    Order.create("done", state=Order.ship.pending)
    Order.paid.send("done", None)
    Order.ship.run("done", lambda _: None)
    store.advance(timedelta(days=3))
    Order.pay.start("late").__enter__()
    text, tasks = run("export").out, ["waits", "ever", "late", "done"]
    for task_id in ("waits", "ever", "done"):
        Order.delete_task(task_id)
    store.advance(timedelta(days=1))
    Order.delete_task("late")

    assert load(text, "--dry-run").out == "4 tasks to create\n"
    assert load(text).out == "4 tasks created\n"

    waits, ever, late, done = map(Order.get_task, tasks)
    assert waits.approved
    assert (waits.approved.value, waits.approved.by, waits.approved.key) == ({"a": [1.5]}, "ada", "evt-1")
    assert (ever.waits_for, late.state, late.due_time <= store.now()) == ("the signal paid", Order.pay.pending, True)
    assert done.paid
    assert [line for line in text.splitlines() if "late" not in line] == [
        line for line in run("export").out.splitlines() if "late" not in line
    ]
    assert [Order.paid.send(task_id, 1).effect for task_id in ("waits", "ever", "late")] == [
        "resumed",
        "resumed",
        "late",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"task_id": "o-1", "awaited_signals": ["payed"]}', "Order has no signal 'payed'. It has approved, paid"),
        (
            '{"task_id": "o-1", "awaited_signals": "[1]"}',
            'awaited_signals: [1] is not a list of signals, as in ["paid"]',
        ),
        ('{"task_id": "o-1", "signals": {"paid": 1}}', "signals: {'paid': 1} is not signals"),
        (
            '{"task_id": "o-1", "awaited_signals": ["paid"], "signals": {"paid": {"value": 1}}}',
            "but has already received it",
        ),
        ('{"task_id": "o-1", "awaited_signals": ["paid"], "group": "g"}', "with awaited_signals and a group or a rule"),
        ('{"task_id": "o-1", "signals": {"paid": {"time": "noon"}}}', "Invalid isoformat string: 'noon'"),
        ('{"task_id": "o-1", "missed_signals": ["payed"]}', "Order has no signal 'payed'"),
        ('{"task_id": "o-1", "until": "2027-01-01"}', "until: only with wait_for"),
        (
            '{"task_id": "o-1", "wait_for": "paid", "awaited_signals": ["paid"]}',
            "wait_for and awaited_signals are the same",
        ),
    ],
)
def test_answers_that_cannot_be_loaded_are_bad_lines(line: str, words: str) -> None:
    assert words in load(line).err


def test_a_loaded_task_waits_for_a_signal_and_knows_what_its_round_has_done_without(store: StoppedClock) -> None:
    limit = (store.now() + timedelta(days=2)).isoformat()
    assert load(f'{{"task_id": "o-1", "wait_for": "paid", "until": "{limit}"}}').code == 0
    assert load(f"task_id,wait_for,until\no-2,paid,{limit}\n", "--format", "csv").code == 0
    assert [Order.get_task(name).due_time.isoformat() for name in ("o-1", "o-2")] == [limit] * 2
    assert Order.paid.send("o-1").effect == "resumed"

    assert load('{"task_id": "o-3", "state": "ship.pending", "missed_signals": ["paid"]}').code == 0
    assert '"missed_signals": ["paid"]' in run("export").out
    assert "done without" in run("show", "o-3").out
    late = run("signal", "o-3", "paid", "--value", "1")
    assert (late.code, "paid of Order 'o-3' is not stored: it is late" in late.err) == (1, True)
