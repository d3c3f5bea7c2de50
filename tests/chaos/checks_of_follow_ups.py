"""Promises about follow-ups: they come with each success, and alerts with each ignored task."""

from collections.abc import Iterator

from tests.chaos.final import Final
from tests.chaos.follow_ups import has_many, notice_ids
from tests.chaos.runs import History


def follow_ups_come_with_their_success(_: History, final: Final) -> Iterator[str]:
    """Expect that each success of a sale has the follow-ups of its run, and no others.

    An earlier attempt may have left some that do not fit into one transaction.
    """
    expected = dict[str, int]()
    for named, row in final.queues.items():
        use_case, _sep, task_id = named.partition("/")
        if use_case == "sale":
            for step, fence in row.marks:
                expected |= {f"notice/{each}": fence for each in notice_ids(task_id, step)}
    for named, fence in expected.items():
        notice = final.queues.get(named)
        if notice is None:
            yield f"{named} is not there, and the run {fence} succeeded"
        elif notice.facts["made_by"] != fence and not (_has_many(named) and notice.facts["made_by"] < fence):
            yield f"{named} was made by the run {notice.facts['made_by']}, and {fence} succeeded"
    for named in final.queues:
        if named.startswith("notice/") and named not in expected and not _has_many(named):
            yield f"{named} is there, and no success came with it"


def _has_many(notice: str) -> bool:
    """Return whether there are so many notices that a dead run may leave some without its success."""
    _, task_id, _, _ = notice.split("/")
    return has_many(task_id)


def alerts_are_for_what_is_ignored(history: History, final: Final) -> Iterator[str]:
    """Expect that only an ignored sale has an alert, unless a person has reopened it."""
    reopened = {event.task for event in history.of_queues("command") if event.facts["what"] == "reopen"}
    for named, row in final.queues.items():
        use_case, _, task_id = named.partition("/")
        ignored = row.code % 10 == 3
        alert = f"alert/{task_id}" in final.queues
        if use_case == "sale" and ignored and not alert:
            yield f"{named} is ignored, and there is no alert"
        if use_case == "sale" and alert and not ignored and named not in reopened:
            yield f"{named} is at {row.code}, was not reopened, and there is an alert"


CHECKS = (follow_ups_come_with_their_success, alerts_are_for_what_is_ignored)
