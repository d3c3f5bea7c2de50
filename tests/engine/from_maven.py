"""DynamoDB Local by Java and Maven: the jars that pom.xml pins, kept in the checkout."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.engine.server import EngineUnavailable, Recipe

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "dynamodb-local"
OLDEST_JAVA = 17
DOWNLOAD_TIMEOUT = 600.0
MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"


def recipe() -> Recipe:
    """Return how to run it, after fetching what is missing; raises EngineUnavailable."""
    java = _java()
    jars = _jars()

    def command(port: int) -> list[str]:
        return [
            java,
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # it lives for minutes: the better compiler costs more than it gains
            f"-Dsqlite4java.library.path={jars}",
            "-cp",
            f"{jars}/*",
            MAIN,
            "-inMemory",
            "-disableTelemetry",
            "-port",
            str(port),
        ]

    return Recipe(f"DynamoDB Local {_version(jars)} (Java)", command)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise EngineUnavailable("there is no Java")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    version = re.search(r'version "(\d+)', told.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else "unknown"
        raise EngineUnavailable(f"{java} is of version {found}, and {OLDEST_JAVA} or later is needed")
    return java


def _jars() -> Path:
    folder = CACHE / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second session waits for the first one's download
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineUnavailable("there is no Maven to fetch it with")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [maven, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(f"Maven did not fetch it within {DOWNLOAD_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        raise EngineUnavailable(f"Maven could not fetch it: {(done.stdout + done.stderr).strip()[:500]}")
    partial.rename(folder)


def _version(jars: Path) -> str:
    return next(jar.stem.removeprefix("DynamoDBLocal-") for jar in jars.glob("DynamoDBLocal-*.jar"))
