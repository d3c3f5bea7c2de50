"""Draw the demo's scene `kill`: `python docs/images/kill.py [FILE]` writes kill.svg next to this file, or FILE.

It runs the scene: what it prints is real.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console
from terminal import exported

from pynamodb_tracker.demo import kill

WIDTH = 96

if __name__ == "__main__":
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print('$ make demo ARGS="--scene kill"')
    kill.run(console)
    file = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".svg")
    file.write_text(exported(console, "kill"), encoding="utf-8")
