"""The live bar at a terminal. Only commands that show one import it, because that is slow."""

from collections.abc import Iterable
from datetime import timedelta

from rich.console import Console, RenderableType
from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

_FREE = 6  # empty columns on the right. A ^C there would otherwise move the bar down

_LEAST = 50  # if the note leaves fewer columns for the bar, it gets its own line


class ProgressBar(RichProgress):
    """A title, a bar, the remaining time and a note."""

    def __init__(self, on: Console, title: str, total: float | None) -> None:
        self._on = on
        columns = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=None)]
        percentage = [TaskProgressColumn()] if total else []
        super().__init__(*columns, *percentage, _Time(), console=on, expand=True, redirect_stdout=False)
        self.add_task(title, total=total, note="")

    def get_renderables(self) -> Iterable[RenderableType]:
        if not self.tasks:  # rich calls this before the first task
            return
        bar, width = self.make_tasks_table(self.tasks), max(self._on.width - _FREE, 1)
        note = Text(self.tasks[0].fields["note"], no_wrap=True, overflow="ellipsis")
        beside = width - note.cell_len - 1
        lines = Table.grid(padding=(0, 1))
        if note and beside >= _LEAST:
            bar.width = beside
            lines.add_row(bar, note)
        else:
            bar.width = lines.width = width
            lines.add_row(bar)
            lines.add_row(note)
        yield lines


class _Time(ProgressColumn):
    """The remaining time, as `0:01:20 left`, or else the elapsed time."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        took = task.finished_time if task.finished else task.elapsed
        text = str(timedelta(seconds=int(took or 0))) if left is None else f"{timedelta(seconds=int(left))} left"
        return Text(text, "progress.elapsed" if left is None else "progress.remaining")
