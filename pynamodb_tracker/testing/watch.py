"""Run a command until another process ends, which holds the other end of standard input.

The kernel closes that end however the process ends, even with SIGKILL, on Linux and macOS.
"""

import contextlib
import os
import subprocess
import sys
import threading

GRACE = 5.0  # seconds between asking the command to end and killing it


def end_with_input(child: subprocess.Popen[bytes]) -> None:
    """End the child when standard input is closed, or kill it as soon as a byte arrives."""
    if os.read(0, 1):
        child.kill()
        return
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()


def main(command: list[str]) -> int:
    """Run the command, copy its stderr to stdout, and return the exit code."""
    with subprocess.Popen(  # noqa: S603 - through no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
    ) as child:
        threading.Thread(target=end_with_input, args=(child,), daemon=True).start()
        while said := os.read(child.stderr.fileno(), 4096) if child.stderr else b"":
            with contextlib.suppress(OSError):  # nobody reads it, but a full pipe would block the command
                os.write(1, said)
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
