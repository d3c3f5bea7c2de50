"""What every test relies on: AWS settings that reach no account, and a DynamoDB in a process of its own."""

import gc
import os
import random
import shutil
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker.control import watch
from pynamodb_tracker.dynamodb.backoff import RANDOM
from tests.engine.dynoxide import PATH_VARIABLE, find_binary, find_or_build
from tests.engine.engine import AWS, HOW_TO_GET_ONE, VARIABLE, Engine, EngineUnavailable, find, start
from tests.engine.proxy import Proxy
from tests.support.quick_botocore import (
    leave_signatures_out,
    pass_items_on,
    remember_names_and_endpoints,
    share_descriptions,
)
from tests.support.untraced import leave_processes_out, leave_requests_out, measuring, unmeasured

NO_ENGINE = "no engine: "
NO_BROWSER = "no browser: "
HOW_TO_GET_A_BROWSER = "install Chromium (apt-get install chromium), and playwright and axe-playwright-python from PyPI"
NO_NODE = "no Node: "
HOW_TO_GET_NODE = "install Node 18 or later (apt-get install nodejs)"
ENGINE = pytest.StashKey[str]()
TESTS = Path(__file__).parent
ASSUMPTIONS = TESTS / "assumptions"

AWS_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    # A developer's own profile may set endpoints, retries and roles.
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


IN_MEMORY = {"contract", "control", "dynamodb", "model", "presentation", "query"}
"""The folders of `--in-memory`, beside the files of tests/ itself; of these, what needs no engine."""
NOT_QUICK = {
    *(TESTS / folder for folder in ("contract/data", "contract/querying", "control", "query")),
    *(TESTS / "contract" / file for file in ("runs/test_interrupts.py", "tasks/test_urgent.py")),
}
"""What `--quick` leaves out of these: a quarter of the tests, which take half of the time."""
OF_DOCS = {TESTS / "docs" / "test_images.py", TESTS / "docs" / "test_site.py"}
"""The files that `make docs` runs, which builds the site."""
SLOW = {TESTS / "docs" / "test_docs.py", TESTS / "execution" / "test_ends.py", TESTS / "engine" / "test_engine.py"}
"""Files with few, long tests."""
LONG = ("race", "browser")
"""The marks of tests in files that take long."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make quick` and `make test`."""
    parser.addoption(
        "--in-memory", action="store_true", help="run what needs no engine and no races, on moto without --one-engine"
    )
    parser.addoption("--quick", action="store_true", help="run what takes half a minute of that, through one client")
    parser.addoption(
        "--one-engine",
        action="store_true",
        help="where there is dynoxide, run tests on it alone that would run on moto, too",
    )
    parser.addoption(
        "--assumptions",
        action="store_true",
        help=f"run {ASSUMPTIONS.name} alone; with {VARIABLE}={AWS}, on AWS, with your credentials and your region",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders and files that the options do not run, and those that `make docs` runs."""
    if config.getoption("assumptions"):
        return not (ASSUMPTIONS.is_relative_to(collection_path) or collection_path.is_relative_to(ASSUMPTIONS))
    if config.getoption("one_engine") and collection_path in OF_DOCS:
        return True
    if config.getoption("quick") and collection_path in NOT_QUICK:
        return True
    if not config.getoption("in_memory") or collection_path.parent != TESTS:
        return None
    return collection_path.is_dir() and collection_path.name not in IN_MEMORY


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process before any test module is imported.

    Raises:
        pytest.UsageError: other tests than the assumptions would run on AWS.
    """
    is_for_aws = os.environ.get(VARIABLE) == AWS
    if is_for_aws and not config.getoption("assumptions"):
        raise pytest.UsageError(f"{VARIABLE}={AWS} is for `make assumptions` only")
    if config.getoption("quick"):
        config.option.in_memory = True
    prepare_process(keep_aws=is_for_aws)
    if not is_for_aws:
        leave_signatures_out()
        remember_names_and_endpoints()
        share_descriptions()
        pass_items_on()
    for name in ("random", "getrandbits"):
        setattr(RANDOM, name, getattr(DRAWS, name))


def prepare_process(*, keep_aws: bool = False) -> None:
    """Replace the developer's AWS settings unless they are to be used, and trace the library alone."""
    leave_requests_out()
    # A run in the background may have been started with Ctrl-C ignored, and so would all processes that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if keep_aws:
        return
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= AWS_SETTINGS


DRAWS = random.Random()
"""What the library draws from in place of the system's random numbers: the same numbers in each run of a test."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the draws of this test, as a process that has read no control item."""
    DRAWS.seed(item.nodeid)
    watch._known.forget()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Start five processes for two cores: for a good part of their time, tests wait for an engine, or for processes.

    Those of `--in-memory` hardly wait. Processes that share the one given endpoint would meet each other's tables.
    """
    cores = yield
    if VARIABLE in os.environ:
        return 1
    is_given = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ
    return cores if is_given or config.getoption("in_memory") else 2 * cores + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Find the engine of `--one-engine`, or build it, before the processes of pytest-xdist start one each.

    Without one, these tests run on moto. In CI, and where one was named, that is an error. `--quick` builds none.
    """
    config = session.config
    if not config.getoption("one_engine") or hasattr(config, "workerinput"):
        return
    try:
        if VARIABLE in os.environ or not config.getoption("quick") or find_binary():
            find()
    except EngineUnavailable as unavailable:
        if in_ci() or {VARIABLE, PATH_VARIABLE} & os.environ.keys():
            raise pytest.UsageError(why_none(unavailable)) from unavailable


def in_ci() -> bool:
    """Return whether a test without what it needs fails, instead of being skipped."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def why_none(unavailable: EngineUnavailable) -> str:
    return f"{NO_ENGINE}{unavailable}\nTo get one: {HOW_TO_GET_ONE}."


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: nearly all that is collected stays; and measure what is imported only once."""
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    gc.disable()
    try:
        with nullcontext() if is_first else unmeasured():
            return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run files that take long first, mark what asks for the engine, and leave out what `--in-memory` does not run.

    If a long file were the last one, all cores but one would wait for it. The mark lets `-m "not engine"` and
    `--in-memory` leave out all that needs the engine.
    """
    long = {item.path for item in items if any(map(item.get_closest_marker, LONG))} | SLOW
    items.sort(key=lambda item: item.path not in long)
    for item in items:
        if isinstance(item, pytest.Function) and {"dynamodb", "dynoxide"} & set(item.fixturenames):
            item.add_marker("engine")
    if config.getoption("in_memory"):
        left_out = {item for item in items if any(item.iter_markers("engine")) or any(item.iter_markers("race"))}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Spare coverage the processes of tests, and the garbage collector the half a million objects that stay.

    Python would also look for garbage after each 700 new objects. Every file ends with a collection, so less will do.
    """
    leave_processes_out()  # not before: those of pytest-xdist are measured
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 1_000)


@pytest.fixture
def node() -> str:
    """Return the path of Node; without one, the test is skipped, and fails where CI is set."""
    path = shutil.which("node")
    if path is None:
        if in_ci():
            pytest.fail(f"{NO_NODE}to get it, {HOW_TO_GET_NODE}", pytrace=False)
        pytest.skip(f"{NO_NODE}it is not on the path")
    return path


@pytest.fixture(scope="module", autouse=True)
def _spared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spare coverage some files, and the collections of garbage of later ones what this one leaves."""
    with measuring(request.path):
        yield
    gc.collect()  # the library does where names are used again
    gc.freeze()


@contextmanager
def skipped_without_engine() -> Iterator[None]:
    """Skip the tests if there is no engine, or fail them where CI is set."""
    try:
        yield
    except EngineUnavailable as unavailable:
        if in_ci():
            pytest.fail(why_none(unavailable), pytrace=False)
        pytest.skip(f"{NO_ENGINE}{unavailable}")


@pytest.fixture
def dynoxide(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of the binary, for tests that start servers of their own. `DYNOXIDE` names it as well."""
    with skipped_without_engine():
        binary = str(find_or_build())
    monkeypatch.setenv(PATH_VARIABLE, binary)
    return binary


@pytest.fixture(scope="session")
def dynamodb(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """Start one engine for this process; without one, tests are skipped, or fail where CI is set."""
    with skipped_without_engine():
        engine = start()
    pytestconfig.stash[ENGINE] = engine.how
    if hasattr(pytestconfig, "workeroutput"):  # a process of pytest-xdist, whose parent prints the summary
        pytestconfig.workeroutput["engine"] = engine.how
    yield engine
    engine.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the name of the engine that a process of pytest-xdist has used."""
    if engine := getattr(node, "workeroutput", {}).get("engine"):
        node.config.stash[ENGINE] = engine


@pytest.fixture
def proxy(dynamodb: Engine) -> Iterator[Proxy]:
    """Put a proxy in front of the engine that forwards everything until its `rule` is set."""
    with Proxy(dynamodb.endpoint) as proxy:
        yield proxy


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, None, None]:
    """Say, below everything else, which engine ran or how many tests had none."""
    yield
    all_skipped = terminalreporter.getreports("skipped")
    if without := [report for report in all_skipped if NO_BROWSER in str(report.longrepr)]:
        terminalreporter.section("Browser", yellow=True)
        terminalreporter.write_line(f"SKIPPED for want of a browser: {len(without)} of the tests.")
        terminalreporter.write_line(f"To run them, {HOW_TO_GET_A_BROWSER}.")
    if without := [report for report in all_skipped if NO_NODE in str(report.longrepr)]:
        terminalreporter.section("Node", yellow=True)
        terminalreporter.write_line(f"SKIPPED for want of Node: {len(without)} of the tests.")
        terminalreporter.write_line(f"To run them, {HOW_TO_GET_NODE}.")
    if skipped := [report for report in all_skipped if NO_ENGINE in str(report.longrepr)]:
        terminalreporter.section("Engine", yellow=True)
        terminalreporter.write_line(f"SKIPPED because there is no dynoxide: {len(skipped)} of the tests.")
        terminalreporter.write_line(f"To run them, {HOW_TO_GET_ONE}.")
    elif engine := config.stash.get(ENGINE, None):
        terminalreporter.section("Engine")
        terminalreporter.write_line(engine)
