"""The guards of the lock protocol: the trace that each one protects, and how a test removes it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.expressions.operand import _IfNotExists

from pynamodb_tracker import transitions
from pynamodb_tracker.aio import loop_thread
from pynamodb_tracker.aio import run as async_run
from pynamodb_tracker.control import limit
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.execution import run
from pynamodb_tracker.features import merges as of_merges
from pynamodb_tracker.features import overflow as of_overflow
from pynamodb_tracker.features import repeats as of_repeats
from pynamodb_tracker.features import signals as of_signals
from pynamodb_tracker.features.checkpoints import Parts
from pynamodb_tracker.features.children import joins as of_joins
from pynamodb_tracker.features.groups import queue as groups
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import claims, ending, success
from pynamodb_tracker.transitions import commands as by_command
from pynamodb_tracker.writes import conditions, creations
from pynamodb_tracker.writes.conditions import Guard as Part
from pynamodb_tracker.writes.conditions import PreparedWrite, guard, parameter
from pynamodb_tracker.writes.transition import StepStatements, Transition
from tests.race import traces_of_commands as commands
from tests.race import traces_of_creations as of_creations
from tests.race import traces_of_follow_ups as follow_ups
from tests.race import traces_of_groups as of_groups
from tests.race import traces_of_joins as joins
from tests.race import traces_of_limits as limits
from tests.race import traces_of_merges as merges
from tests.race import traces_of_overflow as overflow
from tests.race import traces_of_parts as parts
from tests.race import traces_of_repeats as repeats
from tests.race import traces_of_runs as runs
from tests.race import traces_of_signals as signals
from tests.support.world import World

Patch = pytest.MonkeyPatch

WITH_GUARDS = (conditions, of_joins, of_merges, of_overflow, of_signals)
"""The modules that have named parts of conditions."""


@dataclass(frozen=True)
class Guard:
    """A guard; `trace` returns whether the promise that it protects was broken."""

    name: str
    trace: Callable[[World], bool]
    remove: Callable[[Patch], None]

    def __str__(self) -> str:
        return f"{self.name}: {self.trace.__name__}"


def name_of(part: Part) -> str:
    """Return the name of a part of a condition, with the attribute if it is one for any attribute."""
    name = part.part.__name__
    return f"{name} {part.given[0]}" if name in ("has", "lacks", "seen") else name


@dataclass(frozen=True)
class Without:
    """Replaces a named part of conditions by one that always holds: in one write of a step, or in all."""

    part: str
    write: str = ""

    def __call__(self, patch: Patch) -> None:
        assert any(hasattr(module, self.part.partition(" ")[0]) for module in WITH_GUARDS)
        render, render_guard = vars(Transition)["condition"].fget, vars(Part)["condition"].fget

        def condition_of(each: Any) -> Any:
            return always() if name_of(each) == self.part else render_guard(each)

        def condition(transition: Any) -> Any:
            if transition.name != self.write:
                return render(transition)
            with pytest.MonkeyPatch.context() as meanwhile:
                meanwhile.setattr(Part, "condition", property(condition_of))
                return render(transition)

        if self.write:
            patch.setattr(Transition, "condition", property(condition))
        else:
            patch.setattr(Part, "condition", property(condition_of))


def leaving_out(write: str, *names: str) -> Callable[[Patch], None]:
    """Have a write leave these attributes as they are; without its name, have all writes not remove them."""

    def remove(patch: Patch) -> None:
        original = StepStatements._request

        def request(self: Any, transition: Any, task_id: str) -> Any:
            if transition.name.startswith(write):
                _, parameters = transition.shape_and_parameters()  # a guard may need the value all the same
                transition.seen |= {name: parameters[name] for name in names if name in parameters}
                left = {name for name in names if write or transition.values.get(name) is None}
                transition.values = {name: value for name, value in transition.values.items() if name not in left}
            return original(self, transition, task_id)

        patch.setattr(StepStatements, "_request", request)

    return remove


def keep_the_wait(patch: Patch) -> None:
    """Leave what a run has done without in the row."""
    patch.setattr(of_signals, "_OF_WAIT", frozenset())


def one_join(patch: Patch) -> None:
    """Let the children of an earlier wait of the round count for the later one."""
    change = of_signals.Waits.change

    def changed(self: Any, success: Transition) -> None:
        change(self, success)
        if self.row.join_token:
            success.values.pop("join_token", None)

    patch.setattr(of_signals.Waits, "change", changed)


def miss_for_ever(patch: Patch) -> None:
    """Leave a signal among those that the task has done without, although a step waits for it again."""
    change = of_signals.Waits.change

    def changed(self: Any, success: Transition) -> None:
        change(self, success)
        if "missed_signals" in success.values:
            success.values["missed_signals"] = (self.row.missed_signals or frozenset()) | self.claimed or None

    patch.setattr(of_signals.Waits, "change", changed)


def forget_the_limit(patch: Patch) -> None:
    """Leave a member parked that gets its turn while it waits for others."""

    def prepare(*given: Any, actions: Any, **options: Any) -> Any:
        actions = [each for each in actions if not isinstance(each.values[-1], _IfNotExists)]
        return PreparedWrite(*given, actions=actions, **options)

    patch.setattr(groups, "PreparedWrite", prepare)


def replace_whatever_is_there(patch: Patch) -> None:
    """Put a task over the row that had expired, whatever has become of that."""
    patch.setattr(creations, "_if_still_expired", lambda _: {})


def pin_in_any_attempt(patch: Patch) -> None:
    """Move a run to the latest occurrence although a block of its round has begun."""
    patch.setattr(of_repeats, "_is_first_claim", lambda *_, **__: True)


def always(*_: object, **__: object) -> Any:
    """Return a condition that holds for every row."""
    return TaskRow.task_id.exists()


def any_other_token(patch: Patch) -> None:
    """Refuse only the same token."""
    lock = TaskRow.lock
    patch.setattr(conditions, "later_token", guard(lambda: lock.does_not_exist() | (lock != parameter(lock, "lock"))))


def by_token_and_status(patch: Patch) -> None:
    """Interpret a refused finish by the row's token and status, as if there were no list of unfinished claims."""

    def landed(lock: Any, row: Any) -> bool:
        return row is not None and row.lock == lock.token and not str(row.state).endswith("in_progress")

    for module in (ending, success):
        patch.setattr(module, "has_landed", landed)


def by_status(patch: Patch) -> None:
    """Interpret a refused finish by the row's status only."""
    for module in (ending, success):
        patch.setattr(module, "has_landed", lambda _, row: not str(row.state).endswith("in_progress"))


def enter_at_once(patch: Patch) -> None:
    """Enter the block even if the lock has expired."""

    async def at_once(_: object) -> None:
        pass

    patch.setattr(run, "hold", lambda _: None)
    for module in (async_run, loop_thread):
        patch.setattr(module, "hold_on_loop", at_once)


def forget_my_token(patch: Patch) -> None:
    """Interpret a refused claim without looking for this call's own token."""

    def get(model: Any, task_id: str, **options: Any) -> Any:
        row: Any = transitions.get(model, task_id, **options)
        row.attribute_values["lock"] = "0" * 24
        return row

    patch.setattr(claims, "get", get)


def settle_nothing(patch: Patch) -> None:
    """Continue after a request without an answer as if it could not be applied any more."""
    patch.setattr(success, "settle_save", lambda *_: None)
    patch.setattr(success, "_keep_out", lambda *_: True)


def take_nothing_along(patch: Patch) -> None:
    """Let a failure or a release store no part whose write got no answer."""
    patch.setattr(Parts, "change_other_end", lambda *_: None)


def release_with_the_same_token(patch: Patch) -> None:
    """Let a release leave the token of the row as it is."""
    patch.setattr(by_command, "new_token", lambda above: above)


def look_for_no_entry(patch: Patch) -> None:
    """Interpret a refused command without looking for its own entry in `errors`."""
    patch.setattr(by_command, "has_entry", lambda *_: False)


def shut_nothing_out(patch: Patch) -> None:
    """Leave the token of the row as it is after a claim without an answer."""
    original = StepStatements.send

    def send(self: Any, transition: Any, *given: Any, **options: Any) -> Any:
        return None if transition.name == "shut out" else original(self, transition, *given, **options)

    patch.setattr(StepStatements, "send", send)


def shut_out_whatever_is_there(patch: Patch) -> None:
    """Raise the token of any row, even of one that is not there."""
    patch.setattr(conditions, "state_seen", guard(lambda: TaskRow.task_id.exists() | TaskRow.task_id.does_not_exist()))


def create_whatever_is_there(patch: Patch) -> None:
    """Put new tasks without looking whether they exist."""
    original = creations.NewTask.puts

    def puts(self: Any, table: Any) -> Any:
        first, *chunks = original(self, table)
        return [{"Put": {name: first["Put"][name] for name in ("TableName", "Item")}}, *chunks]

    patch.setattr(creations.NewTask, "puts", puts)


def create_with(**other: Any) -> Callable[[Patch], None]:
    """Put a new task that is claimed with these attributes in place of its own; without those that are None."""

    def remove(patch: Patch) -> None:
        original = creations.build_new_task

        def build_new_task(*given: Any, also: Any, **named: Any) -> Any:
            also = {name: value for name, value in (also | other).items() if value is not None}
            return original(*given, also=also, **named)

        patch.setattr(creations, "build_new_task", build_new_task)

    return remove


def create_nothing_pending(patch: Patch) -> None:
    """Leave it at that if there is no row after a put without an answer."""

    def nothing(*_: Any) -> Any:
        raise Refused(repeated=False)

    patch.setattr(claims, "build_pending_task", nothing)


def create_pending_without_a_token(patch: Patch) -> None:
    """Put the task pending after a put without an answer, but with no token."""
    original = creations.build_pending_task

    def build_pending_task(*given: Any) -> Any:
        task = original(*given)
        del task.item["lock"]
        return task

    patch.setattr(claims, "build_pending_task", build_pending_task)


def leaving_out_of_slots(name: str) -> Callable[[Patch], None]:
    """Let a condition hold in all writes of slots."""
    return lambda patch: patch.setattr(limit, name, f"(attribute_not_exists(nothing) OR {vars(limit)[name]})")


def no_margin(patch: Patch) -> None:
    """Let others take a slot as soon as it has expired by their own clock."""
    take = limit.SlotTable.take
    patch.setattr(limit.SlotTable, "take", lambda self, number: take(replace(self, margin=timedelta(0)), number))


def any_version(patch: Patch) -> None:
    """Write the row of a group although another program has written it since it was read."""
    path, build = groups._version, groups.build_group_write

    def prepare(*given: Any, condition: Any, **options: Any) -> Any:
        del condition
        return PreparedWrite(*given, condition=path.exists() | path.does_not_exist(), **options)

    def write(*given: Any, **options: Any) -> Any:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(groups, "PreparedWrite", prepare)
            return build(*given, **options)

    patch.setattr(groups, "build_group_write", write)


GUARDS = [
    Guard("due", runs.taken_early, Without("is_due", "claim")),
    Guard("lock expired", runs.taken_while_held, Without("lock_expired", "claim")),
    Guard("lock expired", commands.ignored_while_held, Without("lock_expired", "ignore")),
    Guard("lock expired", commands.spent_while_held, Without("lock_expired", "spend abandoned")),
    Guard("lock expired", commands.deleted_after_an_extension, Without("lock_expired")),
    Guard("attempt < max", runs.taker_dies, Without("under_limit")),
    Guard("ordered tokens", runs.late_claim_after_another_worker, any_other_token),
    Guard("ordered tokens", runs.late_claim_from_another_state, Without("later_token", "claim from")),
    Guard("token on REOPEN", commands.late_reopen, Without("later_token", "reopen")),
    Guard("token on REOPEN", commands.late_reopen_of_an_ended_task, Without("later_token", "reopen")),
    Guard("token on IGNORE", commands.late_ignore, Without("later_token", "ignore")),
    Guard("a later token after IGNORE", commands.late_reopen_that_was_refused, leaving_out("ignore", "lock")),
    Guard("urgent as seen on REOPEN", commands.urgent_task_reopened, Without("urgent_seen", "reopen")),
    Guard("HURRY of the same life", commands.late_hurry, Without("same_life", "hurry")),
    Guard("status on REOPEN", commands.reopened_while_held, Without("has_status", "reopen")),
    Guard("no time to live on REOPEN", commands.reopened_with_chunks_that_end, Without("lacks expire_time")),
    Guard("RELEASE as seen", commands.late_release, Without("held_as_seen")),
    Guard("token on RELEASE", commands.refused_claim_after_a_release, release_with_the_same_token),
    Guard("MINE after a release", commands.released_worker, Without("held_by_run")),
    Guard("CANCEL of the same life", commands.cancelled_in_its_next_life, Without("same_life", "cancel")),
    Guard("RELEASE of my own", commands.unheard_release, look_for_no_entry),
    Guard("format on CLAIM", commands.claimed_by_an_earlier_version, Without("known_format", "claim")),
    Guard("format on ALSO", commands.claimed_from_by_an_earlier_version, Without("known_format", "claim from")),
    Guard("format on REOPEN", commands.reopened_by_an_earlier_version, Without("known_format", "reopen")),
    Guard("format on IGNORE", commands.ignored_by_an_earlier_version, Without("known_format", "ignore")),
    Guard("format on SPENT", commands.spent_by_an_earlier_version, Without("known_format", "spend")),
    Guard("format on RELEASE", commands.unlocked_by_an_earlier_version, Without("known_format", "unlock")),
    Guard("format on CANCEL", commands.cancelled_by_an_earlier_version, Without("known_format", "ignore running")),
    Guard("format on DELETE", commands.deleted_by_an_earlier_version, Without("known_format")),
    Guard("no rule on REOPEN", repeats.reopened_out_of_turn, Without("lacks repeat", "reopen")),
    Guard("asked as seen on REOPEN", repeats.reopened_as_its_rule_changes, Without("seen request_count", "reopen")),
    Guard("SKIP as seen", repeats.skipped_though_it_succeeded, Without("state_seen", "skip")),
    Guard("lock expired on SKIP", repeats.skipped_while_held, Without("lock_expired", "skip")),
    Guard("format on SKIP", repeats.skipped_by_an_earlier_version, Without("known_format", "skip")),
    Guard("asked as seen on SKIP", repeats.skipped_as_its_rule_changes, Without("seen request_count", "skip")),
    Guard("EXTEND before the block", runs.late_answer, enter_at_once),
    Guard("EXTEND before the block", runs.late_data, enter_at_once),
    Guard("unfinished", runs.frozen_success, by_status),
    Guard("MINE", runs.postponed_late, Without("held_by_run", "fail")),
    Guard("MINE", runs.woken_surrender, Without("held_by_run", "give up")),
    Guard("MINE", runs.woken_extension, Without("held_by_run", "extend")),
    Guard("MINE", runs.woken_settle, Without("held_by_run", "settle")),
    Guard("MINE in a transaction", overflow.woken_transaction, Without("held_by_run", "check")),
    Guard("MINE in a transaction", overflow.woken_success_in_a_transaction, Without("held_by_run", "commit")),
    Guard("MINE in a transaction", overflow.woken_keep_out, Without("held_by_run", "keep out")),
    Guard("EXTEND only grows", runs.late_extension, Without("lock_grows")),
    Guard("saves", runs.late_save, Without("later_save", "save")),
    Guard("saves", runs.late_settle, Without("later_save", "settle")),
    Guard("saves", overflow.late_transaction, Without("later_save", "check")),
    Guard("saves", overflow.late_success_in_a_transaction, Without("later_save", "commit")),
    Guard("MINE", parts.woken_part, Without("held_by_run", "save parts")),
    Guard("saves", parts.late_part, Without("later_save", "save parts")),
    Guard("parts with the end", parts.unheard_part, take_nothing_along),
    Guard("parts with the end", parts.unheard_part_of_a_released_run, take_nothing_along),
    Guard("no part on MERGE", parts.asked_as_a_part_was_done, Without("lacks checkpoints", "merge")),
    Guard("a part on MERGE", parts.asked_as_a_task_with_a_part_ended, Without("has_parts", "merge")),
    Guard("REMOVE once", parts.part_of_an_earlier_round, leaving_out("", "checkpoints")),
    Guard("SETTLE after a transaction", overflow.late_transaction, settle_nothing),
    Guard("KEEP OUT as seen", overflow.transaction_after_the_look, Without("seen saves")),
    Guard("CHUNK only later", overflow.woken_writer, Without("no_later_version")),
    Guard("time to live only later", overflow.late_end_of_chunks, Without("no_later_command")),
    Guard("CREATE CLAIMED what is not there", of_creations.late_create, create_whatever_is_there),
    Guard("token of CREATE CLAIMED", of_creations.late_claim_before_the_create, create_with(lock={"S": "0" * 24})),
    Guard("token of CREATE CLAIMED", of_creations.chunks_that_never_expire, create_with(creation=None)),
    Guard(
        "payload of CREATE CLAIMED",
        of_creations.answered_with_the_result_of_another_payload,
        create_with(**{"payload#10": None}),
    ),
    Guard("CREATE PENDING after CREATE CLAIMED", of_creations.unheard_create, create_nothing_pending),
    Guard("token of CREATE PENDING", of_creations.late_claim_before_an_unheard_create, create_pending_without_a_token),
    Guard("SPENT as seen", commands.finished_meanwhile, Without("state_seen", "spend abandoned")),
    Guard("SPENT as seen", commands.reopened_meanwhile, Without("state_seen", "spend")),
    Guard("IGNORE as seen", commands.failed_meanwhile, Without("state_seen", "ignore")),
    Guard("DELETE as seen", commands.deleted_while_held, Without("state_seen")),
    Guard("DELETE of the same life", commands.deleted_in_its_next_life, Without("same_life")),
    Guard("IGNORE of the same life", commands.ignored_in_its_next_life, Without("same_life", "ignore")),
    Guard("IGNORE of the same life", of_groups.ignored_in_another_group, Without("same_life", "ignore")),
    Guard("SPENT of the same life", commands.spent_in_its_next_life, Without("same_life", "spend")),
    Guard("SKIP of the same life", repeats.skipped_in_its_next_life, Without("same_life", "skip")),
    Guard("REOPEN of the same life", repeats.reopened_in_its_next_life, Without("same_life", "reopen")),
    Guard("REOPEN of the same life", of_groups.entered_in_its_next_life, Without("same_life", "enter again")),
    Guard("SHUT OUT", runs.unheard_claim, shut_nothing_out),
    Guard("SHUT OUT the token as seen", commands.reopened_and_ignored_meanwhile, Without("seen lock", "shut out")),
    Guard("SHUT OUT the row as seen", commands.deleted_meanwhile, shut_out_whatever_is_there),
    Guard("nothing asked", merges.asked_while_it_ended_in_a_transaction, Without("lacks queued", "commit")),
    Guard("TAKE IN as asked", merges.asked_after_the_look_of_a_transaction, Without("seen request_count", "commit")),
    Guard("MERGE as asked", merges.late_request, Without("seen request_count", "merge")),
    Guard("MERGE what is kept", merges.asked_as_it_was_taken_in, Without("keeps_request", "merge")),
    Guard("MERGE the values as seen", merges.written_by_another_program, Without("value_seen", "merge")),
    Guard("token on MERGE", merges.begun_anew_with_an_old_token, Without("later_token", "merge")),
    Guard("format on MERGE", merges.asked_of_a_later_version, Without("known_format", "merge")),
    Guard("MINE before the success", follow_ups.created_without_the_lock, Without("held_by_run", "check")),
    Guard("SETTLE before a failure", follow_ups.failed_although_it_succeeded, settle_nothing),
    Guard("format on COUNT", joins.counted_for_a_later_version, Without("known_format")),
    Guard("format on WAKE", of_groups.woken_for_a_later_version, Without("known_format")),
    Guard("a new round from the end", signals.signal_for_an_earlier_round, leaving_out("claim from", "round")),
    Guard("END without its first signal", signals.signalled_as_it_ends, Without("lacks signals", "succeed")),
    Guard("GIVE UP without an answer", signals.signalled_while_it_gives_up, Without("not_received", "give up")),
    Guard("SEND the last one", signals.last_two_at_once, Without("awaits_more")),
    Guard("SEND while a child counts", signals.signal_and_child_at_once, Without("awaits_more")),
    Guard("COUNT while an answer comes", signals.child_and_signal_at_once, Without("seen awaited_signals")),
    Guard("SEND the first one of a row", signals.two_early_senders, Without("lacks signals")),
    Guard("SEND early", signals.asked_for_before_it_is_stored, Without("not_awaited")),
    Guard("SEND late", signals.ignored_then_reopened, Without("not_parked")),
    Guard("REOPEN what awaits none", signals.reopened_while_it_waits, Without("lacks awaited_signals", "reopen")),
    Guard("REOPEN what awaits", signals.reopened_as_the_signal_comes, Without("has awaited_signals", "reopen")),
    Guard("SEND in the same round", signals.signal_as_another_round_begins, Without("same_round")),
    Guard("SEND early before the end", signals.early_signal_as_it_ends, Without("not_ended")),
    Guard("a new round without answers", signals.signal_in_an_earlier_round, leaving_out("", "signals")),
    Guard("format on SEND", signals.signalled_for_a_later_version, Without("known_format")),
    Guard("the limit of a wait", signals.started_without_its_signal, leaving_out("claim from", "wait_until")),
    Guard("SEND while nothing is asked", signals.asked_again_before_an_answer, Without("lacks queued")),
    Guard("REMOVE parent", joins.second_success, leaving_out("", "parent")),
    Guard("TAKE a free slot", limits.taken_while_it_is_used, leaving_out_of_slots("FREE")),
    Guard("TAKE after the margin", limits.taken_by_a_clock_that_is_ahead, no_margin),
    Guard("TAKE once", limits.late_take, leaving_out_of_slots("NEVER_TWICE")),
    Guard("GIVE BACK my slot", limits.late_return, leaving_out_of_slots("MINE")),
    Guard("RENEW for longer", limits.late_renewal, leaving_out_of_slots("LATER")),
    Guard("ASK its holder", limits.asked_for_after_it_was_returned, leaving_out_of_slots("STILL_TAKEN")),
]
