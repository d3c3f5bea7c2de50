"""The entry point of `pynamodb-tracker` and `python -m pynamodb_tracker`; names the extra that is missing."""

import sys

_OF_WEB = ("jinja2", "markupsafe", "starlette", "uvicorn")
"""Packages of the extra `web`, and what they bring."""


def main() -> None:
    """Run the command that the arguments name; exit with 2 and one line if a package of an extra is missing."""
    try:
        from pynamodb_tracker.cli import app  # noqa: PLC0415 - an extra, and worker processes import this file

        app()
    except ImportError as error:
        package = _missing(error)
        if package == __package__:
            raise
        from pynamodb_tracker.exceptions import INSTALLABLE  # noqa: PLC0415 - worker processes import this file

        sys.stderr.write(f"pynamodb-tracker needs {package}, which is not installed: ")
        sys.stderr.write(f"pip install '{INSTALLABLE}[{'cli,web' if package in _OF_WEB else 'cli,local'}]'\n")
        sys.exit(2)
    except KeyboardInterrupt:  # before the command has started
        sys.exit(130)


def _missing(error: ImportError) -> str:
    """Return the package that could not be imported; `local_table` wraps that error in its own."""
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    return (cause.name or "a package").partition(".")[0]


if __name__ == "__main__":
    main()
