"""Each function of infra/ can be built from a wheel of this checkout, and what files and pages say of it fits it."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cfnlint.decode import cfn_yaml

from tests.infra.template import INFRA
from tests.support.pages import ROOT, Page

APPLICATIONS = sorted(path.parent for path in INFRA.glob("*/template.yaml"))

RESOLVE = """uv pip install --quiet --offline --no-index --dry-run --reinstall-package pynamodb-tracker"""

SETTINGS = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "BUS": "tasks",
    "HISTORY_TABLE": "history",
    "KEEP_DAYS": "30",
    "METRICS_NAMESPACE": "orders",
    "PYNAMODB_TRACKER_APP": "shipping:AppTask",
    "RETRY_THREADS": "8",
    "TASKS_TABLE": "tasks",
}

IMPORT = """
import importlib, json, sys
import pynamodb_tracker
for name in sys.argv[1:]:
    module, _, handler = name.rpartition(".")
    print(json.dumps([name, callable(getattr(importlib.import_module(module), handler))]))
print(json.dumps(["pynamodb_tracker", pynamodb_tracker.__file__]))
"""


def functions(application: Path) -> dict[str, Any]:
    """Return the functions of a template, each with the settings that it shares with the others."""
    template = json.loads(json.dumps(cfn_yaml.load(str(application / "template.yaml"))))
    shared = template.get("Globals", {}).get("Function", {})
    return {
        name: {**shared, **resource["Properties"]}
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


def test_each_application_takes_the_version_that_its_page_builds(wheel: Path) -> None:
    files = [application / functions_code(application) / "requirements.txt" for application in APPLICATIONS]
    assert len(files) == 4
    named = [part for file in files for part in ("--requirements", str(file))]
    command = [*RESOLVE.split(), "--python", sys.executable, "--find-links", str(wheel.parent), *named]
    ended = subprocess.run([sys.executable, "-m", *command], check=False, capture_output=True, text=True)  # noqa: S603 - an own command
    assert (ended.returncode, ended.stderr) == (0, "")


def functions_code(application: Path) -> str:
    """Return the folder of the code, which all functions of an application share."""
    [folder] = {each["CodeUri"] for each in functions(application).values()}
    assert isinstance(folder, str)
    return folder


def test_each_function_can_be_imported_from_what_is_built(wheel: Path, tmp_path: Path) -> None:
    handlers = []
    for application in APPLICATIONS:
        shutil.copytree(application / functions_code(application), tmp_path, dirs_exist_ok=True)
        handlers += [each["Handler"] for each in functions(application).values()]
    with zipfile.ZipFile(wheel) as package:
        package.extractall(tmp_path)
    command = [sys.executable, "-c", IMPORT, *handlers]
    environment = {**os.environ, **SETTINGS, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)  # noqa: S603 - an own command
    assert (ended.returncode, ended.stderr) == (0, "")
    *imported, [_, package_file] = map(json.loads, ended.stdout.splitlines())
    assert imported == [[name, True] for name in handlers]
    assert Path(package_file).is_relative_to(tmp_path)


def commands() -> list[tuple[str, str]]:
    pages = [*Page.all(), Page(INFRA / "README.md")]
    kinds = {"console", "sh", "dockerfile"}
    return [(page.name, block.text) for page in pages for block in page.blocks() if block.language in kinds]


def test_the_extras_that_pages_install_are_those_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as package:
        [name] = [name for name in package.namelist() if name.endswith(".dist-info/METADATA")]
        about = importlib.metadata.PathDistribution(zipfile.Path(package, name.rpartition("/")[0] + "/")).metadata
    spans = [(page.name, span) for page in Page.all() for span in page.code()]
    asked = {
        extra
        for _, text in [*commands(), *spans]
        for extras in re.findall(r"pip install '[^'\[]*\[([\w,]+)\]'", text)
        for extra in extras.split(",")
    }
    assert {"cli", "local"} <= asked <= set(about.get_all("Provides-Extra") or ())


def test_pages_build_with_the_python_that_the_functions_run_on(wheel: Path) -> None:
    runtimes = {each["Runtime"] for application in APPLICATIONS for each in functions(application).values()}
    [runtime] = runtimes
    built = [version for _, text in commands() for version in re.findall(r"\b(python3\.\d+) -m pip wheel", text)]
    assert built == [runtime]
    with zipfile.ZipFile(wheel) as package:
        [metadata] = [name for name in package.namelist() if name.endswith(".dist-info/METADATA")]
        text = package.read(metadata).decode()
    assert f"Classifier: Programming Language :: Python :: {runtime.removeprefix('python')}\n" in text


def test_pages_name_the_version_that_is_released_next(wheel: Path) -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bv(\d+\.\d+\.\d+)\b", page)) == {wheel.name.split("-")[1]}


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda path: path.name)
def test_a_page_says_how_each_application_is_built(application: Path) -> None:
    building = re.compile(rf"sam build --template infra/{application.name}/template\.yaml")
    pages = [text for _, text in commands() if building.search(text)]
    assert pages or application.name == "one_step"  # whose guide is that of the pipeline
