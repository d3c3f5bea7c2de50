"""Runs APScheduler's own tests of job stores against this package's store, on moto and on dynoxide.

`make upstream` calls it. It downloads the sdist that `sdist.txt` pins, and makes an environment in `.cache`, because
those tests need an older pytest, and their package is called `tests`, like ours. Both are kept for the next run. The
tests are unpacked for each run, from a file whose hash has been checked, so what runs is what was released.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.conftest import AWS_SETTINGS
from tests.engine.engine import start

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "upstream"
SDIST = HERE / "sdist.txt"
REQUIREMENTS = HERE / "requirements.txt"
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]


def main() -> int:
    """Run the tests on each engine; return 1 unless every item has passed on both."""
    sdist, python = _prepared()
    engine = start()
    try:
        return max(_run(sdist, python, each) for each in ("moto", engine.endpoint))
    finally:
        engine.stop()


def _prepared() -> tuple[Path, Path]:
    """Return the sdist and the Python of its environment, after downloading what is missing."""
    told = [sys.version, *(each.read_text() for each in (SDIST, REQUIREMENTS, ROOT / "pyproject.toml"))]
    folder = CACHE / hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]
    python = folder / "venv" / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        _say(f"fetching APScheduler's tests, and making an environment for them in {folder.relative_to(ROOT)}")
        shutil.rmtree(CACHE, ignore_errors=True)  # an environment for each change of pyproject.toml would fill the disk
        folder.mkdir(parents=True)
        download = ["download", "--require-hashes", "--no-deps", "--no-binary", "APScheduler"]
        _call(sys.executable, "-m", "venv", "--clear", folder / "venv")
        _call(python, *PIP, *download, "--dest", folder, "--requirement", SDIST)
        _call(
            python,
            *PIP,
            "install",
            "--requirement",
            REQUIREMENTS,
            _sdist(folder),
            "--editable",
            f"{ROOT}[apscheduler,local]",
        )
        ready.touch()
    return _sdist(folder), python


def _sdist(folder: Path) -> Path:
    """Return the sdist in the folder, whose hash is the pinned one."""
    (sdist,) = folder.glob("*.tar.gz")
    pinned = re.search(r"--hash=sha256:(\w+)", SDIST.read_text())
    if pinned is None or hashlib.sha256(sdist.read_bytes()).hexdigest() != pinned[1]:
        raise SystemExit(f"{sdist} is not the file that {SDIST} pins: delete it")
    return sdist


def _run(sdist: Path, python: Path, engine: str) -> int:
    _say(f"--- {sdist.name.removesuffix('.tar.gz')}: tests/test_jobstores.py on {engine}")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (release,) = Path(folder).iterdir()
        settings = AWS_SETTINGS | {
            "PYTHONPATH": str(HERE),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "UPSTREAM_ENGINE": engine,
        }
        tests = ["-m", "pytest", "-q", "-p", "dynamodb_stores", "-p", "no:cacheprovider", "tests/test_jobstores.py"]
        return subprocess.run([python, *tests], cwd=release, env=_environment() | settings, check=False).returncode


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST_", "COVERAGE_"))}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise SystemExit(f"this failed, so APScheduler's tests were not run: {' '.join(map(str, command))}")


if __name__ == "__main__":
    sys.exit(main())
