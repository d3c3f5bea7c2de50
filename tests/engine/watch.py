"""Runs a command for as long as somebody holds the other end of standard input.

The kernel closes that end however its holder ends, SIGKILL included, on Linux as on macOS.
"""

import os
import subprocess
import sys
import threading

GRACE = 5.0
"""Seconds between asking the command to end and ending it."""


def stop_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    """Wait until nobody holds standard input any more, then end the child."""
    os.read(0, 1)
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()


def main(command: list[str]) -> int:
    """Run the command and return its exit code."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=stop_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
