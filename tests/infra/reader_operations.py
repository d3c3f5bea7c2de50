"""What a reader does."""

from datetime import timedelta

from starlette.testclient import TestClient

from pynamodb_tracker.control import item
from pynamodb_tracker.testing import stopped_clock
from pynamodb_tracker.web import dashboard
from tests.cli.command import run
from tests.infra.operations import row
from tests.infra.permissions import Record
from tests.infra.shop import DAILY, LETTERS, Letter, Parcel, Payout, ShopTask, refuse
from tests.infra.worker_operations import LARGE
from tests.support.rows import park

ONE = "`get_task`, `get_many`, `get`, `refresh`, and the command `show`"
STATE = (
    "`query`, `page`, `index_page`, `count` of a state, and the commands `list`, `find`, `errors`, `stuck`, `workers`, "
    "`schedules`, `now`, `top`, `export` of a state"
)
COUNTS = "`counts`"
STATUS = "`pynamodb-tracker status`"
PAGE = "`web.dashboard`: all views but these"
PAGE_TABLE = "`web.dashboard`: the table and its settings"
PAGE_COUNT = "`web.dashboard`: exact counts"
WHOLE = "`Task.scan`, and the command `export` without a state"


@row("Reader", ONE)
def read_one(record: Record) -> None:
    Letter.create("r-1", data=LARGE)
    for _ in range(2):
        Letter.post.run_all(refuse)
    with record:
        letter = Letter.get_task("r-1")
        assert letter.data == LARGE
        assert letter.errors
        Letter.get("r-1").refresh()
        assert len(Letter.get_many(["r-1", "r-2"])) == 1


@row("Reader", STATE)
def query_a_state(record: Record) -> None:
    Letter.create("r-2", data=LARGE)
    with record:
        assert [letter.data for letter in Letter.post.pending.query()]
        assert Letter.post.pending.page(limit=1).tasks
        assert Letter.post.pending.index_page().tasks
        assert Letter.post.pending.count()


@row("Reader", COUNTS)
def count_all_states(record: Record) -> None:
    Letter.create("r-9")
    with record:
        assert Letter.counts()[Letter.post.pending] == 1


@row("Reader", "`pauses`, and the command `steps`")
def read_the_pauses(record: Record) -> None:
    with record:
        assert Payout.pauses() == []
        run("steps", of="tests.infra.shop:Payout")


@row("Reader", "`pynamodb-tracker steps passed`")
def list_what_has_passed(record: Record) -> None:
    Parcel.create("r-20", state=Parcel.send.pending)
    item.require(Parcel, 15, None)
    with record:
        assert "r-20" in run("steps", "passed", "parcel", "15", of="tests.infra.shop:Parcel").out
    item.stop_requiring(Parcel, 15, None)


@row("Reader", "`Task.query`")
def query_as_pynamodb_does(record: Record) -> None:
    Letter.create("r-3")
    with record:
        assert [letter.task_id for letter in Letter.query("r-3")] == ["r-3"]


@row("Reader", WHOLE)
def scan_as_pynamodb_does(record: Record) -> None:
    Letter.create("r-10")
    with record:
        assert [letter.task_id for letter in ShopTask.scan()] == ["r-10"]


@row("Reader", "`Task.count`, `Task.exists`")
def ask_how_many_there_are(record: Record) -> None:
    with record:
        assert ShopTask.exists()
        assert ShopTask.count() >= 0


@row("Reader", STATUS)
def show_the_status(record: Record) -> None:
    with stopped_clock() as clock:
        Letter.create("r-15")
        Letter.post.start("r-15").__enter__()
        clock.advance(timedelta(hours=1))
        with record:
            assert "post: a lock expired" in run("status", of=LETTERS).out


@row("Reader", STATE)
def list_tasks(record: Record) -> None:
    with stopped_clock() as clock:
        Letter.create("r-4")
        Letter.post.run_all(refuse)
        Letter.create("r-5", data=LARGE, repeat=DAILY)
        Letter.post.start("r-5").__enter__()
        clock.advance(timedelta(hours=1))
        with record:
            assert "r-4" in run("list", "post.failed", of=LETTERS).out
            assert "post" in run("top", of=LETTERS).out
            assert "post" in run("now", of=LETTERS).out
            assert "post" in run("workers", of=LETTERS).out
            assert "r-5" in run("schedules", of=LETTERS).out
            assert "ConnectionError" in run("errors", of=LETTERS).out
            assert "r-5" in run("stuck", of=LETTERS).out


@row("Reader", ONE)
def show_a_task(record: Record) -> None:
    Letter.create("r-6", data=LARGE)
    with record:
        assert "r-6" in run("show", "r-6", of=LETTERS).out


@row("Reader", STATE)
def export_a_state(record: Record) -> None:
    Letter.create("r-7", data=LARGE)
    with record:
        assert "r-7" in run("export", "post.pending", of=LETTERS).out


@row("Reader", WHOLE)
def export_all(record: Record) -> None:
    Letter.create("r-8", data=LARGE)
    with record:
        assert "r-8" in run("export", of=LETTERS).out


@row("Reader", "`turn`, `waiting`, `data` of a group")
def look_at_a_group(record: Record) -> None:
    Letter.create("r-12", group="customer-7")
    group = Letter.group("customer-7")
    with record:
        assert (group.turn, group.waiting(), group.data) == ("r-12", [], {})


@row("Reader", "`pynamodb-tracker group`")
def show_a_group(record: Record) -> None:
    Letter.create("r-15", group="customer-7")
    with record:
        assert "r-15 has the turn" in run("group", "customer-7", of=LETTERS).out


@row("Reader", "`pynamodb-tracker doctor`")
def examine_the_table(record: Record) -> None:
    with record:
        assert "shop-tasks" in run("doctor", of=LETTERS).out


@row("Reader", "`pynamodb-tracker doctor --rows`")
def examine_the_rows(record: Record) -> None:
    Letter.create("r-12")
    park(Letter, "r-12", 3)
    for task_id in ("r-13", "r-14"):
        Letter.create(task_id, group="customer-7")
    with record:
        assert "r-12" in run("doctor", "--rows", of=LETTERS).out


@row("Reader", PAGE)
def look_at_every_view_of_the_page(record: Record) -> None:
    Letter.create("r-13", data=LARGE)
    Letter.create("r-14", group="g")
    for _ in range(2):
        Letter.post.run_all(refuse)
    page = TestClient(dashboard(Letter, user=lambda _: "ada"))
    views = ["", "tasks?step=post&state=failed", "tasks?step=post&state=failed&error=x", "errors", "task?id=r-13"]
    views += ["group?name=g", "tasks?step=post&state=in_progress", "schedules"]
    with record:
        assert {page.get(f"/Letter/{view}").status_code for view in views} == {200}
        assert page.get("/find?id=r-13%0Ar-14").status_code == 200
        assert {page.get(view).status_code for view in ("/", "/workers")} == {200}


@row("Reader", PAGE_TABLE)
def look_at_the_settings_of_the_table_on_the_page(record: Record) -> None:
    with record:
        assert TestClient(dashboard(Letter, user=lambda _: "ada")).get("/table").status_code == 200


@row("Reader", PAGE_COUNT)
def count_all_on_the_page(record: Record) -> None:
    page = TestClient(dashboard(Letter, user=lambda _: "ada"), headers={"Sec-Fetch-Site": "same-origin"})
    with record:
        assert page.post("/Letter/count").status_code == 200
