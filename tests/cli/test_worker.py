"""`worker`: which functions run on what, how it ends, and what it prints where."""

import inspect
import json
import logging
import os
import re
import signal
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import QueryError

from pynamodb_tracker import Tally, Worker
from pynamodb_tracker.cli.commands import worker as working
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read
from tests.cli.command import run_untimed as run
from tests.cli.server import Environment, ended, on_server, started
from tests.cli.shop import Invoice, Order, StoreTask, counted, go_on, stalling
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.pages import ROOT, Page
from tests.support.processes import until

STORE, DESK = "tests.cli.shop:StoreTask", "tests.cli.shop:DeskTask"
CHARGE, WAVER, OBEY = (f"tests.cli.shop:{name}" for name in ("charge", "waver", "obey"))
RUN_A_WORKER = ROOT / "docs" / "how-to" / "run-a-worker.md"

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


def idle(*arguments: str, of: str = STORE) -> Any:
    return run("worker", *arguments, "--until-idle", of=of)


# What it runs, and what it tells.


@pytest.mark.usefixtures("store")
def test_steps_of_several_use_cases_are_run_and_reported() -> None:
    Order.create_many(["good", "bad", "lost"])
    Invoice.create("i-1")
    ended = idle(f"pay={WAVER}", f"ship={CHARGE}", f"send={CHARGE}")
    assert (ended.code, ended.lines) == (
        0,
        ["Order.pay: 1 succeeded, 2 failed, 2 ignored", "Order.ship: 1 succeeded", "Invoice.send: 1 succeeded"],
    )
    assert counted() == {"pay ignored": 2, "ship succeeded": 1}
    assert Invoice.get_task("i-1").data == {"receipt": "r-i-1"}


@pytest.mark.usefixtures("store")
def test_it_says_first_what_it_works_on_and_what_functions_print_goes_to_stderr() -> None:
    Order.create("o-1", state=Order.ship.pending)
    ended = idle(f"ship={CHARGE}", f"send={CHARGE}")
    first, *others = ended.err.splitlines()
    assert first == (
        "Order.ship, Invoice.send on table store at https://dynamodb.us-east-1.amazonaws.com: Ctrl-C or SIGTERM stops "
        "the worker gracefully, a second Ctrl-C at once"
    )
    assert others == ["charging o-1"]
    assert ended.lines == ["Order.ship: 1 succeeded", "Invoice.send: nothing to do"]


@pytest.mark.usefixtures("store")
def test_json_has_the_tallies() -> None:
    Order.create_many(["good", "bad"])
    output = read("worker", f"order.pay={WAVER}", f"Invoice.send={CHARGE}", "--until-idle", of=STORE)
    none = {"failed": 0, "ignored": 0, "refused": 0, "released": 0, "postponed": 0, "paused": False}
    assert output["steps"] == [
        {"use_case": "order", "step": "pay", **none, "succeeded": 1, "failed": 2, "ignored": 1},
        {"use_case": "invoice", "step": "send", **none, "succeeded": 0},
    ]
    assert output["seconds"] >= 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (STORE, ["pay"]),
        (STORE, ["order.pay"]),
        (STORE, ["Order.pay"]),
        (STORE, ["pay", "--use-case", "Order"]),
        ("tests.cli.shop:Order", ["pay"]),
        ("tests.cli.shop:Order", ["order.pay"]),
    ],
    ids=str,
)
def test_a_step_is_named_with_its_use_case_or_without(app: str, arguments: list[str]) -> None:
    Order.create("o-1")
    step, *options = arguments
    ended = idle(f"{step}={CHARGE}", *options, of=app)
    assert (ended.code, ended.lines) == (0, ["Order.pay: 1 succeeded"])


NOT_BOUND = (
    "no function is bound to Order.pay: name one, pay=MODULE:FUNCTION, or bind one with @Order.pay.does in a module "
    "that --app imports"
)


@pytest.mark.parametrize(
    ("app", "arguments", "words"),
    [
        (STORE, ["pay"], NOT_BOUND),
        (STORE, ["pay="], "'pay=' does not assign a function to a step: write pay=MODULE:FUNCTION"),
        (STORE, [CHARGE], f"'{CHARGE}' does not assign a function to a step: write STEP={CHARGE}"),
        (STORE, [f"pya={CHARGE}"], "none of 2 use cases has a step 'pya'; did you mean 'pay'?"),
        (
            STORE,
            [f"x={CHARGE}"],
            "none of 2 use cases has a step 'x'. The steps are invoice.send, order.pay, order.ship",
        ),
        (STORE, [f"ordr.pay={CHARGE}"], "ordr.pay: unknown use case 'ordr'; did you mean 'order'?"),
        (
            "tests.cli.shop:Order",
            [f"invoice.send={CHARGE}"],
            "invoice.send: unknown use case 'invoice'. --app and --use-case select order",
        ),
        (STORE, [f"order.shop={CHARGE}"], "Order has no step 'shop'; did you mean 'ship'?"),
        (STORE, [f"send={CHARGE}", "--use-case", "order"], "Order has no step 'send'. Its steps are pay, ship"),
        (DESK, [f"send={CHARGE}"], "2 use cases have a step 'send': write one of letter.send, parcel.send"),
        (
            STORE,
            [f"pay={CHARGE}", f"order.pay={WAVER}"],
            f"Order.pay has two functions, {CHARGE} and {WAVER}: name one",
        ),
        (
            STORE,
            ["pay=tests.cli.shop:chrage"],
            "the module 'tests.cli.shop' does not define 'chrage'; did you mean 'charge'?",
        ),
        (STORE, ["pay=tests.cli.shop"], "'tests.cli.shop' does not name a function: write module:function"),
        (
            STORE,
            [f"pay={CHARGE}", "--grace", "40000d"],
            "grace is zero or more and at most 36500 days, not datetime.timedelta(days=40000)",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_run_is_reported_on_one_line(app: str, arguments: list[str], words: str) -> None:
    ended = idle(*arguments, of=app)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--grace", "soon"],
        ["--max-poll-interval", "0s"],
        ["--rate", "fast"],
        ["--threads", "0"],
        ["--processes", "0"],
        ["--until", "idle"],
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_exit_with_2(arguments: list[str]) -> None:
    ended = run("worker", f"pay={CHARGE}", *arguments, of=STORE)
    assert (ended.code, ended.out) == (2, "")
    assert arguments[0] in ended.err


def test_a_worker_without_a_step_is_refused() -> None:
    assert run("worker", of=STORE).code == 2


# The options, as a Worker is given them.


class Noted:
    """Stands in for a Worker, and notes how it is made and run."""

    options: Mapping[str, object]
    until_idle: bool
    health_file: Path | None

    def __init__(self, functions: Mapping[Any, Any], **options: object) -> None:
        self.functions = functions
        Noted.options = options

    def run(self, *, until_idle: bool, health_file: Path | None) -> dict[Any, Tally]:
        Noted.until_idle, Noted.health_file = until_idle, health_file
        return dict.fromkeys(self.functions, Tally(refused=2, released=1))

    def stop(self) -> None: ...


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([], {}),
        (["--threads", "8"], {"threads": 8}),
        (["--processes", "2"], {"processes": 2}),
        (["--heartbeat"], {"heartbeat": True}),
        (["--rate", "30/m"], {"rate": 0.5}),
        (["--grace", "1m30s"], {"grace": timedelta(seconds=90)}),
        (["--grace", "0s"], {"grace": timedelta(0)}),
        (["--max-poll-interval", "5m"], {"max_poll_interval": timedelta(minutes=5)}),
    ],
    ids=" ".join,
)
def test_each_option_is_that_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, given: list[str], options: dict[str, object]
) -> None:
    monkeypatch.setattr(working, "Worker", Noted)
    ended = run("worker", f"pay={CHARGE}", *given)
    assert Noted.options == {"threads": 4, "processes": 1, "heartbeat": False, "rate": None, **options}
    assert (ended.code, ended.lines, Noted.until_idle) == (0, ["Order.pay: 2 refused, 1 released"], False)


@pytest.mark.usefixtures("store")
def test_the_command_of_the_documented_container_is_that_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "Worker", Noted)
    [dockerfile] = [block for block in Page(RUN_A_WORKER).blocks() if block.language == "dockerfile"]
    program, *arguments, app = json.loads(dockerfile.lines[-1].removeprefix("CMD "))
    assert (program, app) == ("pynamodb-tracker", "app:AppTask")
    arguments[arguments.index("app:begin")] = "tests.cli.shop:open_shop"
    assert run(*arguments, STORE, f"pay={CHARGE}").code == 0
    assert Noted.health_file == Path("/tmp/alive")  # noqa: S108 - as in the page
    assert (Noted.options["threads"], Noted.options["grace"]) == (8, timedelta(seconds=8))


@pytest.mark.usefixtures("store")
def test_the_health_file_is_that_of_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "alive"
    for path, why in ((missing, "No such file or directory"), (tmp_path, "Is a directory")):
        ended = idle(f"pay={CHARGE}", "--health-file", str(path))
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.splitlines()[-1] == f"cannot write the health file {path}: {why}"
    monkeypatch.setattr(working, "Worker", Noted)
    assert run("worker", f"pay={CHARGE}", "--health-file", "alive").code == 0
    assert Noted.health_file == Path("alive")


@pytest.mark.usefixtures("store")
def test_a_function_is_called_before_the_first_task() -> None:
    Order.create("o-1")
    ended = idle(f"pay={CHARGE}", "--on-start", "tests.cli.shop:open_shop")
    assert ended.err.splitlines()[-2:] == ["the shop is open", "charging o-1"]
    assert ended.lines == ["Order.pay: 1 succeeded"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tests.cli.shop:burn", "tests.cli.shop:burn raised OSError: the shop burns"),
        ("tests.cli.shop:close", "tests.cli.shop:close raised SystemExit: the shop is closed"),
        ("tests.cli.shop:charge", "--on-start: tests.cli.shop:charge is called with no argument, but takes (ctx: "),
        ("tests.cli.shop:later", "--on-start: tests.cli.shop:later: "),
        ("tests.cli.shop:nowhere", "--on-start: the module 'tests.cli.shop' does not define 'nowhere'"),
        ("tests.cli.shop:Order", "--on-start: tests.cli.shop:Order is a class: name a function"),
        ("begin", "--on-start: 'begin' does not name a function: write module:function"),
    ],
)
def test_without_its_first_function_a_worker_starts_no_task(function: str, words: str) -> None:
    Order.create("o-1")
    ended = idle(f"pay={CHARGE}", "--on-start", function)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1].startswith(words)
    assert Order.get_task("o-1").state == Order.pay.pending


def test_help_tells_the_defaults_of_a_worker() -> None:
    declared = inspect.signature(Worker).parameters
    defaults = [declared[name].default for name in ("grace", "max_poll_interval")]
    assert defaults == [timedelta(seconds=30), timedelta(seconds=2)]
    said = run("worker", "--help", COLUMNS="300").out
    assert [said.count("Default: 30s."), said.count("Default: 2s.")] == [1, 1]


# Where it cannot run.


def test_a_table_that_is_not_there_is_reported_in_one_line(dynamodb: Engine) -> None:
    with Dynoxide.of([StoreTask], dynamodb.endpoint):
        StoreTask.delete_table()
        ended = run("worker", f"pay={CHARGE}")
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert f"at {dynamodb.endpoint}: the table does not exist: create it with pynamodb-tracker" in ended.err
        StoreTask.create_table(wait=True)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("code", "goes_on"), [("ThrottlingException", True), ("AccessDeniedException", False)])
def test_a_passing_first_failure_is_waited_for(monkeypatch: pytest.MonkeyPatch, code: str, *, goes_on: bool) -> None:
    failures = [QueryError("Failed to query items", ClientError({"Error": {"Code": code, "Message": "no"}}, "Query"))]
    check_index = StepDefinition.check_index

    def failing(step: StepDefinition[Any]) -> None:
        if failures:
            raise failures.pop()
        check_index(step)

    monkeypatch.setattr(StepDefinition, "check_index", failing)
    ended = idle(f"pay={CHARGE}")
    assert (ended.code, "Ctrl-C" in ended.err, f"{code}: no\n" in ended.err) == (
        (0, True, False) if goes_on else (2, False, True)
    )


@pytest.mark.usefixtures("store")
def test_a_mistake_of_the_library_is_no_process_that_could_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Noted, *, until_idle: bool, health_file: Path | None) -> dict[Any, Tally]:
        raise RuntimeError(f"a mistake {until_idle} {health_file}")

    monkeypatch.setattr(Noted, "run", broken)
    monkeypatch.setattr(working, "Worker", Noted)
    with pytest.raises(RuntimeError, match="a mistake"):
        run("worker", f"pay={CHARGE}")


# How it ends.


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_in_order_and_with_0(store: StoppedClock, name: str) -> None:
    Order.create("o-1", note=name)
    store.advance(timedelta(seconds=1))
    ended = run("worker", f"pay={OBEY}", "--threads", "1")
    assert (ended.code, ended.lines) == (0, ["Order.pay: 1 succeeded"])
    assert counted() == {"ship pending": 1}


@posix
@pytest.mark.usefixtures("store")
def test_a_closed_terminal_is_nothing_to_it_where_that_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Order.create_many({"task_id": f"o-{number}", "note": "SIGHUP"} for number in range(3))
        assert idle(f"pay={OBEY}", "--threads", "1").lines == ["Order.pay: 3 succeeded"]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@posix
@pytest.mark.usefixtures("store")
def test_signals_and_logging_are_as_they_were_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log = logging.getLogger("pynamodb_tracker")
    before = [signal.getsignal(signal.SIGHUP), log.level, list(log.handlers)]
    assert idle(f"pay={CHARGE}").code == 0
    assert [signal.getsignal(signal.SIGHUP), log.level, log.handlers] == before


@pytest.mark.usefixtures("store")
def test_a_function_that_ends_the_program_ends_the_worker_with_its_code() -> None:
    Order.create("o-1")
    ended = run("worker", "pay=tests.cli.shop:leave")
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == "a function called sys.exit(no such file): the worker stopped gracefully"
    assert Order.get_task("o-1").last_error == "SystemExit: no such file"


# What the library logs.

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}"


@pytest.mark.usefixtures("store")
def test_the_log_is_printed_with_its_time_and_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    Order.create("bad-\x1b[31m")
    _, _, begins, failed, *_ = idle(f"pay={WAVER}").err.splitlines()
    assert re.fullmatch(rf"{TIME} INFO a worker runs Order.pay", begins)
    assert re.fullmatch(rf"{TIME} WARNING Order.pay of .* failed: .* about bad-\\x1b\[31m, request \d+", failed)


@pytest.mark.usefixtures("store")
def test_a_program_that_configures_logging_has_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])
    Order.create("bad")
    assert len(idle(f"pay={WAVER}").err.splitlines()) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3  # for that is the level of the root


@pytest.mark.usefixtures("store")
def test_a_function_on_start_may_configure_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    Order.create("bad")
    ended = idle(f"pay={WAVER}", "--on-start", "logging:basicConfig")
    [failed] = [line for line in ended.err.splitlines() if "(attempt 1) failed: " in line]
    assert failed.startswith("WARNING:pynamodb_tracker:Order.pay of 'bad'")


# As processes on a real server.

MODULE = Path(__file__).with_name("desk.txt").read_text(encoding="utf-8")


@pytest.fixture
def server(dynamodb: Engine) -> Iterator[Environment]:
    with on_server(dynamodb) as environment:
        yield environment


def heard(process: Any, words: str) -> None:
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it has not said {words!r}")


def desk(server: Environment) -> Environment:
    return {**server, "PYNAMODB_TRACKER_APP": "desk:StoreTask"}


def module(folder: Path, extra: str = "") -> Path:
    (folder / "desk.py").write_text(MODULE.replace("{extra}", extra))
    return folder


@posix
@pytest.mark.race
@pytest.mark.parametrize(
    ("processes", "number"), [("1", signal.SIGHUP), ("2", signal.SIGTERM), ("2", signal.SIGINT), ("2", signal.SIGHUP)]
)
def test_a_stopped_worker_leaves_nothing_running(server: Environment, number: signal.Signals, processes: str) -> None:
    Order.create_many((f"o-{n:03}" for n in range(20)), threads=4)
    with started(server, "worker", "pay=tests.cli.shop:dawdle", "--processes", processes, "--json") as process:
        until(Order.ship.pending.count)
        os.killpg(process.pid, number)  # as a terminal does, and some supervisors
        go_on()
        code, out, _ = ended(process)
    [output] = json.loads(out)["steps"]
    counts = counted()
    assert code == 0
    assert counts["ship pending"] == output["succeeded"] > 0
    assert counts == {"ship pending": output["succeeded"], "pay pending": 20 - output["succeeded"]}


@posix
@pytest.mark.race
@pytest.mark.parametrize("extra", ["begin()", ""], ids=["import", "on-start"])
def test_sigterm_before_it_works_ends_it_with_0(server: Environment, tmp_path: Path, extra: str) -> None:
    begin = "def begin():\n    import time\n    print('starting', file=sys.stderr)\n    time.sleep(600)\n"
    arguments = ["worker", "pay=desk:pay", "--on-start", "desk:begin"]
    with started(desk(server), *arguments, cwd=module(tmp_path, begin + extra)) as process:
        heard(process, "starting")
        process.terminate()
        assert ended(process) == (0, "", "")


@posix
@pytest.mark.race
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_ctrl_c_waits_for_no_function_and_none_of_its_threads(server: Environment, processes: str) -> None:
    Order.create("o-1")
    arguments = ["worker", "pay=tests.cli.shop:stall_in_a_thread", "--processes", processes, "--grace", "1h"]
    with started(server, *arguments) as process:
        until(stalling)
        os.killpg(process.pid, signal.SIGINT)
        heard(process, "starting no new tasks")
        os.killpg(process.pid, signal.SIGINT)
        code, out, err = ended(process)
    assert (code, out) == (130, "")
    last = "stopped at once: running tasks stay in progress until their locks expire, and are then taken over"
    assert err.splitlines()[-1] == last
    assert counted() == {"pay in_progress": 1}


@posix
@pytest.mark.race
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_reader_that_goes_fails_no_task(server: Environment, processes: str) -> None:
    Order.create_many(f"o-{n}" for n in range(6))
    arguments = ["worker", "pay=tests.cli.shop:chatter", "--processes", processes, "--threads", "1", "--until-idle"]
    with started(server, *arguments) as process:
        said, out_of_it = process.stderr, process.stdout
        assert said is not None
        assert out_of_it is not None
        until(lambda: "xxx" in said.readline())
        said.close()
        out = out_of_it.read()
        process.wait(timeout=60)
    assert process.returncode == 0
    assert re.fullmatch(r"Order.pay: \d succeeded(, \d refused)? in \d+s\n", out)
    assert counted().keys() <= {"pay pending", "ship pending"}


@pytest.mark.race
def test_processes_find_the_modules_begin_once_log_and_leave_stdout_alone(server: Environment, tmp_path: Path) -> None:
    Order.create_many(["bad", *(f"o-{n}" for n in range(4))])
    begin = "def begin():\n    with open('begun-' + str(os.getpid()), 'a') as file:\n        file.write('x')"
    arguments = [
        "worker",
        "pay=desk:pay",
        "ship=desk:ship",
        "--on-start",
        "desk:begin",
        "--processes",
        "2",
        "--until-idle",
    ]
    folder = module(tmp_path, begin)
    with started(desk(server), *arguments, "--json", cwd=folder, is_about_the_start=True) as process:
        code, out, err = ended(process)
    assert (code, [step["succeeded"] for step in json.loads(out)["steps"]]) == (0, [4, 4])
    begun = {path.name: path.read_text() for path in tmp_path.glob("begun-*")}
    assert list(begun.values()) == ["x", "x"]
    assert f"begun-{process.pid}" not in begun
    assert {f"begun-{order.data['pid']}" for order in Order.ship.succeeded.query()} <= begun.keys()
    assert err.count("the module runs") == 3  # processes write at the same time, also into one line
    assert [err.count(each) for each in ("printed beside", "paying o-", "shipping o-")] == [5, 4, 4]
    assert len(re.findall(rf"{TIME} WARNING {FAILED}", err)) == err.count("no answer") == 1


FAILED = r"Order.pay of 'bad' \(attempt 1\) failed: ConnectionError: no answer"


@pytest.mark.race
def test_processes_log_as_functions_have_configured_it(server: Environment, tmp_path: Path) -> None:
    module(tmp_path)
    (tmp_path / "papers.py").write_text("import logging\nlogging.basicConfig(format='mine: %(message)s')\nship = print")
    Order.create("bad")
    arguments = ["worker", "pay=desk:pay", "ship=papers:ship", "--processes", "2", "--until-idle"]
    with started(desk(server), *arguments, cwd=tmp_path) as process:
        _, _, err = ended(process)
    assert [line for line in err.splitlines() if re.fullmatch(f"mine: {FAILED}", line)] != []
    assert err.count("no answer") == 1


@pytest.mark.race
def test_what_processes_print_is_there_at_once(server: Environment, tmp_path: Path) -> None:
    Order.create("o-1")
    arguments = ["worker", "pay=desk:pay", "--processes", "2"]
    with started({**desk(server), "PYTHONUNBUFFERED": ""}, *arguments, cwd=module(tmp_path)) as process:
        heard(process, "paying o-1")
        process.terminate()
        assert ended(process)[0] == 0


@pytest.mark.race
def test_processes_that_cannot_begin_are_reported_and_exit_with_2(server: Environment, tmp_path: Path) -> None:
    extra = "assert '--multiprocessing-fork' not in sys.orig_argv, 'not here'"
    arguments = ["worker", "pay=desk:pay", "--processes", "2"]
    with started(desk(server), *arguments, cwd=module(tmp_path, extra)) as process:
        code, out, err = ended(process)
    assert (code, out) == (2, "")
    assert "not here" in err
    assert "before it began to work: check its output" in err.splitlines()[-1]


@posix
@pytest.mark.race
@pytest.mark.parametrize("closed", [(1,), (0, 2)])
def test_a_stream_that_is_closed_from_the_start_is_no_connection_that_functions_write_to(
    server: Environment, tmp_path: Path, closed: tuple[int, ...]
) -> None:
    Order.create_many(f"o-{n}" for n in range(4))
    arguments = ["worker", "pay=desk:pay", "--until-idle"]
    with started(desk(server), *arguments, cwd=module(tmp_path), closed=closed) as process:
        code, _, err = ended(process)
    assert (code, "Traceback" in err) == (0, False)
    assert (Order.ship.pending.count(), Order.pay.in_progress.count()) == (4, 0)


@pytest.mark.usefixtures("store")
def test_a_function_that_interrupts_the_worker_ends_it_in_order() -> None:
    Order.create("o-1", note="stop")
    ended = run("worker", "pay=tests.cli.shop:interrupt")
    assert (ended.code, "stopped at once" in ended.err) == (130, False)
    assert Order.get_task("o-1").state == Order.pay.pending
