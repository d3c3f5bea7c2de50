"""The package: its links, its page on the index, what it says about its installation, and the Pythons it runs on."""

import re
import subprocess
import sys
import tomllib

import pytest

import pynamodb_tracker
from pynamodb_tracker.exceptions import INSTALLABLE
from tests.support.pages import ROOT, Page

PROJECT_FILE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PROJECT_FILE["project"]
SOURCE = PROJECT["urls"]["Source"]
WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_the_page_on_the_index_has_absolute_links_to_the_files_of_its_version() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in PROJECT_FILE["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)

    elsewhere = ("https://docs.aws.amazon.com/", "https://aws.amazon.com/", "https://docs.dbos.dev/")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith(elsewhere)]
    images = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert len(images) == 6
    assert len(links) > 30
    raw = SOURCE.replace("https://github.com/", "https://raw.githubusercontent.com/")
    places = dict.fromkeys(links, f"{SOURCE}/blob") | dict.fromkeys(images, raw)
    assert [link for link, place in places.items() if not link.startswith(f"{place}/v$HFPR_VERSION/")] == []


def test_every_address_of_the_project_is_in_its_repository_or_its_site() -> None:
    owner, name = SOURCE.removeprefix("https://github.com/").split("/")
    site = f"https://{owner}.github.io/{name}/"
    assert [url for url in PROJECT["urls"].values() if not f"{url}/".startswith((f"{SOURCE}/", site))] == []
    assert f"{SOURCE}/security/advisories/new" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_messages_and_pages_say_from_one_constant_what_pip_installs() -> None:
    texts = {page.name: page.path.read_text(encoding="utf-8") for page in Page.all()}
    modules = (ROOT / "pynamodb_tracker").rglob("*.py")
    texts |= {str(path): path.read_text(encoding="utf-8") for path in modules}
    said = {(name, each) for name, text in texts.items() for each in re.findall(r"pip\s+install '([^'\[]+)\[", text)}
    ours = {(name, each) for name, each in said if not each.startswith(("aws-lambda-powertools", "."))}
    assert len(ours) >= 9
    assert [(name, each) for name, each in ours if each not in {INSTALLABLE, "{INSTALLABLE}"}] == []


def test_the_workflows_and_the_environments_run_every_python_of_the_classifiers() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    script = (ROOT / ".ci" / "environments").read_text(encoding="utf-8")
    pythons = re.search(r"^PYTHONS=\((.*?)\)", script, re.MULTILINE)
    matrix = re.search(r"^ +environment: \[(.*)\]$", WORKFLOWS["tests"], re.MULTILINE)
    assert pythons
    assert matrix
    assert [*pythons[1].split(), "lowest"] == matrix[1].replace('"', "").split(", ")
    assert set(classifiers) <= set(pythons[1].split())
    assert [each for each in PROJECT["classifiers"] if each.startswith("Operating")] == [
        "Operating System :: POSIX :: Linux"
    ]
    assert set(re.findall(r"runs-on: (\w+)", "".join(WORKFLOWS.values()))) == {"ubuntu"}
    assert PROJECT["requires-python"] == f">={pythons[1].split()[0]}"


def test_an_environment_whose_python_is_missing_is_named_before_anything_is_built() -> None:
    command = [str(ROOT / ".ci" / "environments"), "3.99"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "this machine has no Python 3.99\n")


def test_no_workflow_runs_an_action_that_can_change() -> None:
    used = re.findall(r"uses: (\S+)", "\n".join(WORKFLOWS.values()))
    assert used
    assert [action for action in used if not re.search(r"@[0-9a-f]{40}$", action)] == []


@pytest.mark.parametrize(
    ("tag", "repository", "complaint"),
    [
        ("v9.9.9", SOURCE, f"the tag is v9.9.9, and __version__ is {pynamodb_tracker.__version__}"),
        (
            f"v{pynamodb_tracker.__version__}",
            "https://github.com/fork/it",
            "the repository is https://github.com/fork/it",
        ),
    ],
)
def test_a_release_that_does_not_fit_is_refused(tag: str, repository: str, complaint: str) -> None:
    command = [sys.executable, str(ROOT / ".ci" / "check_release.py"), tag, repository]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert ended.returncode == 1
    assert complaint in ended.stderr


METHODS = {
    *("assumptions", "benchmarks", "chaos", "compat", "contract", "cost", "docs", "engine", "infra", "machine"),
    *("race", "search", "support", "typing", "upstream"),
}
"""The folders of tests/ that are not named after a package: a way to test, or what other tests share."""


def test_each_folder_of_tests_is_named_after_a_package_or_is_a_way_to_test() -> None:
    packages = {path.parent.name for path in (ROOT / "pynamodb_tracker").glob("*/__init__.py")}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    assert not packages & METHODS
    assert folders - packages == METHODS


WITHOUT_UNIX = """
import importlib, os, pkgutil, signal, sys
for module, names in {
    os: ("fork", "getuid", "killpg", "register_at_fork", "sched_getaffinity"),
    signal: ("SIGALRM", "SIGHUP", "SIGPIPE", "SIGQUIT", "SIGUSR1", "pthread_sigmask", "setitimer"),
}.items():
    for name in names:
        vars(module).pop(name, None)
sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "tty"))
import pynamodb_tracker
for module in pkgutil.walk_packages(pynamodb_tracker.__path__, "pynamodb_tracker."):
    if not module.name.endswith(("__main__", ".instrumentor")):  # that one needs more than the tests install
        importlib.import_module(module.name)
"""


def test_every_module_can_be_imported_where_there_is_no_fork_and_no_signal_or_module_of_unix() -> None:
    command = [sys.executable, "-c", WITHOUT_UNIX]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - an own text
    assert (ended.returncode, ended.stderr) == (0, "")
