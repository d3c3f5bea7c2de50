"""The wheel of this checkout, which the functions of infra/ are built from."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel once, by the backend of pyproject.toml, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - an own command
    [wheel] = folder.iterdir()
    return wheel
