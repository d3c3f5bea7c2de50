"""Find dynoxide, an open-source DynamoDB in one binary, or build it once with cargo."""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

from pynamodb_tracker.testing.server import CRATE, PATH_VARIABLE, LocalServerError, find_dynoxide

__all__ = ["CACHE", "CRATE", "HOW_TO_GET_IT", "PATH_VARIABLE", "EngineUnavailable", "find_or_build"]

VERSION = "1.5.0"
"""What `dynoxide --version` prints for that crate."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pynamodb_tracker" / f"dynoxide-{CRATE}"
"""Outside the checkout, so that every clone and `make clean` keep it."""
OLDEST_RUST = (1, 88)
BUILD_TIMEOUT = 1500.0
HOW_TO_GET_IT = (
    f"install Rust {'.'.join(map(str, OLDEST_RUST))} or later (https://rustup.rs) and the tests build it once, "
    f"or put dynoxide {VERSION} on the PATH, or name its path in {PATH_VARIABLE}"
)


class EngineUnavailable(Exception):  # noqa: N818 - it is a state of the machine, not an error of the code
    """There is no engine to run tests on; the message says why."""


def find_or_build() -> Path:
    """Return the path of dynoxide, building it first if there is none.

    Raises:
        EngineUnavailable: there is no binary and no cargo to build one, or the build fails.
    """
    return find_binary() or build()


def find_binary() -> Path | None:
    """Return the binary that `DYNOXIDE` names, else the pinned version from the PATH or the cache."""
    if os.environ.get(PATH_VARIABLE):
        try:
            return Path(find_dynoxide())
        except LocalServerError as error:
            raise EngineUnavailable(str(error)) from error
    for candidate in (shutil.which("dynoxide"), str(CACHE / "bin" / "dynoxide")):
        if candidate and Path(candidate).is_file() and _output_of([candidate, "--version"]).split()[-1:] == [VERSION]:
            return Path(candidate)
    return None


def build() -> Path:
    """Build the binary into the cache and return its path; a second process waits for the first one's build."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise EngineUnavailable(f"dynoxide {VERSION} is not on the PATH, and there is no cargo to build it with")
    rust = re.search(r"(\d+)\.(\d+)", _output_of([cargo, "--version"]))
    if rust is None or tuple(map(int, rust.groups())) < OLDEST_RUST:
        found = rust[0] if rust else "of an unknown version"
        raise EngineUnavailable(f"{cargo} is {found}, and building needs {'.'.join(map(str, OLDEST_RUST))} or later")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        binary = CACHE / "bin" / "dynoxide"
        if not binary.is_file():
            _compile(cargo)
    return binary


def _compile(cargo: str) -> None:
    print(f"building dynoxide {CRATE} with cargo into {CACHE}, once: two to five minutes", flush=True)  # noqa: T201
    command = [cargo, "install", "dynoxide-rs", "--version", CRATE, "--locked", "--quiet", "--root", str(CACHE)]
    command += ["--no-default-features", "--features", "native-sqlite,http-server,cli"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(f"cargo did not build dynoxide within {BUILD_TIMEOUT / 60:.0f} minutes") from error
    if done.returncode != 0:
        raise EngineUnavailable(f"cargo could not build dynoxide: {done.stderr.strip()[-500:]}")


def _output_of(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
