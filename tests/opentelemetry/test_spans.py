import threading
from datetime import timedelta

import pytest
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pynamodb_tracker import ExecutionContext, GiveUp, Repeat, RetryLater, TaskLockedError
from pynamodb_tracker.testing import StoppedClock
from tests.opentelemetry.conftest import Telemetry
from tests.opentelemetry.shop import Order, Parcel


def context_of(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def current() -> SpanContext:
    return trace.get_current_span().get_span_context()


def test_a_run_is_linked_to_what_created_its_task_and_belongs_to_what_runs_it(telemetry: Telemetry) -> None:
    telemetry.instrument()
    with telemetry.tracer.start_as_current_span("request") as request:
        Order.create("o-1")
    with telemetry.tracer.start_as_current_span("shift") as shift, Order.ship.start("o-1"):
        inside = current()

    [run] = telemetry.runs
    assert context_of(run) == inside
    assert [link.context.span_id for link in run.links] == [request.get_span_context().span_id]
    assert run.parent == shift.get_span_context()
    assert (run.name, run.kind, run.status.status_code) == ("run order.ship", SpanKind.CONSUMER, StatusCode.UNSET)
    assert dict(run.attributes or {}) == {
        "messaging.system": "pynamodb_tracker",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "order.ship",
        "messaging.message.id": "o-1",
        "pynamodb_tracker.attempt": 1,
        "pynamodb_tracker.fence": 1,
        "pynamodb_tracker.took_over": False,
        "pynamodb_tracker.outcome": "succeeded",
    }
    assert not current().is_valid


def test_a_run_without_anything_around_it_is_a_trace_of_its_own(telemetry: Telemetry) -> None:
    Order.create("o-1")
    telemetry.instrument()
    with Order.ship.start("o-1"):
        pass

    [run] = telemetry.runs
    assert run.parent is None
    assert not run.links


def test_with_the_relation_parent_a_run_belongs_to_the_trace_of_what_created_its_task(telemetry: Telemetry) -> None:
    telemetry.instrument(relation="parent")
    with telemetry.tracer.start_as_current_span("request") as request:
        Order.create("o-1")
    with telemetry.tracer.start_as_current_span("shift") as shift, Order.ship.start("o-1") as ctx:
        ctx.create(Parcel, "o-1/parcel")
    with Parcel.send.start("o-1/parcel"):
        pass

    ship, send = telemetry.runs
    assert ship.parent is not None
    assert ship.parent.span_id == request.get_span_context().span_id
    assert [link.context for link in ship.links] == [shift.get_span_context()]
    assert send.parent is not None
    assert send.parent.span_id == context_of(ship).span_id
    assert context_of(send).trace_id == request.get_span_context().trace_id


def test_with_the_relation_parent_the_nearest_span_of_the_same_trace_is_the_parent(telemetry: Telemetry) -> None:
    telemetry.instrument(relation="parent")
    with telemetry.tracer.start_as_current_span("request") as request:
        Order.create("o-1")
        with telemetry.tracer.start_as_current_span("handler") as handler, Order.ship.start("o-1"):
            pass

    [run] = telemetry.runs
    assert run.parent == handler.get_span_context()
    assert [link.context.span_id for link in run.links] == [request.get_span_context().span_id]


def test_a_task_that_repeats_does_not_make_one_trace_of_all_its_runs(telemetry: Telemetry) -> None:
    telemetry.instrument(relation="parent")
    with telemetry.tracer.start_as_current_span("deploy") as deploy:
        Parcel.create("nightly", repeat=Repeat.every(timedelta(days=1)))
    with Parcel.send.start("nightly"):
        pass

    [run] = telemetry.runs
    assert run.parent is None
    assert [link.context.span_id for link in run.links] == [deploy.get_span_context().span_id]


def test_the_span_has_the_times_of_the_run_by_our_clock(telemetry: Telemetry, stopped_clock: StoppedClock) -> None:
    telemetry.instrument()
    Order.create("o-1")
    start = stopped_clock.now()
    with Order.ship.start("o-1"):
        stopped_clock.advance(timedelta(seconds=90))

    [run] = telemetry.runs
    assert run.start_time == int(start.timestamp()) * 10**9 + start.microsecond * 1000
    assert run.end_time == run.start_time + 90 * 10**9


@pytest.mark.usefixtures("request_spans")
def test_requests_of_the_block_and_of_the_end_are_inside_and_the_claim_is_beside(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with telemetry.tracer.start_as_current_span("shift") as shift, Order.ship.start("o-1") as ctx:
        ctx.save()
        ctx.task.data["label"] = "printed"
        ctx.save()

    [run] = telemetry.runs
    by_parent = {
        id_: [span.name for span in telemetry.spans if span.parent and span.parent.span_id == id_]
        for id_ in (context_of(run).span_id, shift.get_span_context().span_id)
    }
    assert by_parent == {
        context_of(run).span_id: ["DynamoDB.UpdateItem"] * 2,
        shift.get_span_context().span_id: ["DynamoDB.UpdateItem", "run order.ship"],
    }
    last = max((span.end_time or 0) for span in telemetry.spans if span.name == "DynamoDB.UpdateItem")
    assert last // 1000 <= (run.end_time or 0) // 1000


def test_an_error_is_there_as_the_row_has_it_and_never_with_its_traceback(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with pytest.raises(ValueError, match="4242"), Order.ship.start("o-1"):
        raise ValueError("card 4242 " + "x" * 500)

    [run] = telemetry.runs
    assert run.status.status_code is StatusCode.ERROR
    assert (run.status.description or "").startswith("card **** xxx")
    assert len(run.status.description or "") <= 200
    assert not run.events
    attributes = run.attributes or {}
    assert (attributes["error.type"], attributes["pynamodb_tracker.outcome"]) == ("ValueError", "failed")


def test_an_error_that_is_falsy_is_one(telemetry: Telemetry) -> None:
    class Problems(Exception):  # noqa: N818 - a user's own
        def __len__(self) -> int:
            return 0

    telemetry.instrument()
    Order.create("o-1")
    with pytest.raises(Problems), Order.ship.start("o-1"):
        raise Problems

    [run] = telemetry.runs
    assert (run.status.status_code, (run.attributes or {})["error.type"]) == (StatusCode.ERROR, "Problems")
    [point] = telemetry.points("messaging.process.duration")
    assert point.attributes["error.type"] == "Problems"


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [
        (GiveUp("lost"), "ignored", StatusCode.ERROR),
        (KeyboardInterrupt(), "released", StatusCode.UNSET),
        (RetryLater(timedelta(0), use_attempt=False), "postponed", StatusCode.UNSET),
    ],
    ids=["GiveUp", "KeyboardInterrupt", "RetryLater"],
)
def test_giving_up_is_an_error_and_a_release_or_a_postponement_is_none(
    telemetry: Telemetry, error: BaseException, outcome: str, status: StatusCode
) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with pytest.raises(type(error)), Order.ship.start("o-1"):
        raise error
    [run] = telemetry.runs
    assert ((run.attributes or {})["pynamodb_tracker.outcome"], run.status.status_code) == (outcome, status)


def test_a_task_that_is_released_while_its_block_hangs_has_its_span_at_once(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    run = Order.ship.start("o-1")
    run.__enter__()
    give_back = threading.Thread(target=run.give_back)  # type: ignore[attr-defined]  # of the library
    give_back.start()
    give_back.join()

    [span] = telemetry.runs
    assert (span.attributes or {})["pynamodb_tracker.outcome"] == "released"
    assert current() == context_of(span)
    run.__exit__(ValueError, ValueError("late"), None)
    assert len(telemetry.runs) == 1
    assert not current().is_valid


def test_a_refused_claim_makes_no_span(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    with Order.ship.start("o-1"), pytest.raises(TaskLockedError), Order.ship.start("o-1"):
        pass
    assert len(telemetry.runs) == 1


def test_runs_of_one_thread_that_end_in_any_order_leave_no_dead_span_current(telemetry: Telemetry) -> None:
    telemetry.instrument()
    for task_id in ("o-1", "o-2", "o-3"):
        Order.create(task_id)
    runs = [Order.ship.start(task_id) for task_id in ("o-1", "o-2", "o-3")]
    with telemetry.tracer.start_as_current_span("shift") as shift:
        inside = []
        for run in runs:
            run.__enter__()
            inside.append(current())
        runs[0].__exit__(None, None, None)
        assert current() == inside[2]
        runs[2].__exit__(None, None, None)
        assert current() == inside[1]
        runs[1].__exit__(None, None, None)
        assert current() == shift.get_span_context()

    assert [(span.attributes or {})["messaging.message.id"] for span in telemetry.runs] == ["o-1", "o-3", "o-2"]


def test_a_span_of_the_application_stays_current_when_the_run_around_it_was_left_before(telemetry: Telemetry) -> None:
    telemetry.instrument()
    Order.create("o-1")
    Order.create("o-2")
    outer, inner = Order.ship.start("o-1"), Order.ship.start("o-2")
    outer.__enter__()
    own = telemetry.tracer.start_as_current_span("own")
    span = own.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)

    assert current() == span.get_span_context()
    own.__exit__(None, None, None)
    context.attach(Context())  # because OpenTelemetry has made the span of the outer run current again


def test_a_sampler_that_raises_is_logged_once_and_changes_nothing(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry.instrument()
    Order.create("o-1")
    monkeypatch.setattr(telemetry.tracers.sampler, "should_sample", lambda *_, **__: 1 / 0)
    with Order.ship.start("o-1"):
        pass

    assert Order.get_task("o-1").state == Order.ship.succeeded
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_the_threads_of_run_all_have_the_right_span_each(telemetry: Telemetry) -> None:
    telemetry.instrument()
    for number in range(8):
        Order.create(f"o-{number}")
    seen: dict[str, int] = {}
    both = threading.Barrier(4)

    def ship(ctx: ExecutionContext[Order]) -> None:
        both.wait(60)
        seen[ctx.task.task_id] = current().span_id
        both.wait(60)

    with telemetry.tracer.start_as_current_span("shift") as shift:
        Order.ship.run_all(ship, threads=4)

    assert seen == {
        str((run.attributes or {})["messaging.message.id"]): context_of(run).span_id for run in telemetry.runs
    }
    assert [run.parent for run in telemetry.runs] == [shift.get_span_context()] * 8


def entries(task_id: str, model: type[Order | Parcel] = Order) -> dict[str, str]:
    return {**(model.get_task(task_id).trace or {})}


def in_trace(tracestate: str) -> trace.Span:
    """Return a span that came with a request of somebody else."""
    carrier = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": tracestate}
    return trace.get_current_span(TraceContextTextMapPropagator().extract(carrier))


def test_the_context_of_a_task_is_in_its_trace_and_what_its_creator_gives_has_priority(telemetry: Telemetry) -> None:
    telemetry.instrument()
    given = f"00-{'1' * 32}-{'2' * 16}-00"
    with trace.use_span(in_trace("vendor=x")):
        Order.create("o-1")
        Order.create("o-2", trace={"request_id": "r-1"})
        Order.create("o-3", trace={"traceparent": given})
        Order.create_or_merge("o-4")
    Order.create("o-5")

    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    assert entries("o-1") == entries("o-4") == {"traceparent": traceparent, "tracestate": "vendor=x"}
    assert entries("o-2") == {"traceparent": traceparent, "tracestate": "vendor=x", "request_id": "r-1"}
    assert entries("o-3") == {"traceparent": given}
    assert entries("o-5") == {}


def test_a_long_tracestate_is_shortened_so_that_entries_of_the_creator_fit_beside(telemetry: Telemetry) -> None:
    telemetry.instrument()
    parts = [f"vendor{number}={'x' * 50}" for number in range(8)]
    with trace.use_span(in_trace(",".join(parts))):
        Order.create("o-1", trace={"request_id": "r" * 120})
    assert entries("o-1")["tracestate"] == ",".join(parts[:4])


def test_a_follow_up_keeps_the_run_that_created_it_and_no_tracestate_of_another_trace(telemetry: Telemetry) -> None:
    telemetry.instrument()
    with trace.use_span(in_trace("vendor=x")):
        Order.create("o-1", trace={"request_id": "r-1"})
    with Order.ship.start("o-1") as ctx:
        ctx.create(Parcel, "o-1/parcel")
        inside = current()

    assert inside.trace_state == TraceState()
    kept = entries("o-1/parcel", Parcel)
    assert kept["traceparent"] == f"00-{inside.trace_id:032x}-{inside.span_id:016x}-{inside.trace_flags:02x}"
    assert (kept["tracestate"], kept["request_id"]) == ("", "r-1")


@pytest.mark.parametrize(
    "odd", ["", "00-zz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"], ids=["empty", "text", "zeros"]
)
def test_a_trace_that_cannot_be_read_is_no_context(telemetry: Telemetry, odd: str) -> None:
    telemetry.instrument(relation="parent")
    Order.create("o-1", trace={"traceparent": odd})
    with Order.ship.start("o-1"):
        pass
    [run] = telemetry.runs
    assert (run.parent, [*run.links]) == (None, [])
