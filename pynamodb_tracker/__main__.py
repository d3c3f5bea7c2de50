"""The entry point of `pynamodb-tracker` and `python -m pynamodb_tracker`."""

import os
import signal
import sys

_WEB_PACKAGES = ("jinja2", "markupsafe", "starlette", "uvicorn")


def main() -> None:
    """Run the command. If an extra is missing, print which, and exit with 2."""
    if sys.argv[1:2] == ["worker"] and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _exit_on_sigterm()
    try:
        from pynamodb_tracker.cli import run_command_line  # noqa: PLC0415 - an extra, and worker processes import this file

        run_command_line()
    except ImportError as error:
        package = _find_missing_package(error)
        if package == __package__:
            raise
        from pynamodb_tracker.exceptions import INSTALLABLE  # noqa: PLC0415 - worker processes import this file

        sys.stderr.write(f"pynamodb-tracker needs {package}, which is not installed: ")
        sys.stderr.write(f"pip install '{INSTALLABLE}[{'cli,web' if package in _WEB_PACKAGES else 'cli,local'}]'\n")
        sys.exit(2)
    except KeyboardInterrupt:  # before the command has started
        sys.exit(130)


def _exit_on_sigterm() -> None:
    """Let SIGTERM end a worker that still starts. As a container's first process, it would otherwise ignore SIGTERM."""
    worker = os.getpid()

    def leave(number: int, _frame: object) -> None:
        if os.getpid() == worker:
            os._exit(0)
        signal.signal(number, signal.SIG_DFL)  # in a forked process
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, leave)


def _find_missing_package(error: ImportError) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    return (cause.name or "a package").partition(".")[0]


if __name__ == "__main__":
    main()
