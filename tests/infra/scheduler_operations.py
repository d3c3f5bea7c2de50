"""What a scheduler does with its job store."""

from datetime import timedelta

from pynamodb_tracker import clock
from tests.apscheduler.jobs import at, due, new_job, new_store
from tests.infra.operations import row
from tests.infra.permissions import Record
from tests.infra.shop import ShopTask

STORE = "`DynamoDBJobStore`"


@row("Scheduler", STORE)
def keep_jobs(record: Record) -> None:
    with record:
        store = new_store(ShopTask)
        for job_id in ("j-1", "j-2", "j-3"):
            store.add_job(new_job(job_id))
        store.add_job(new_job("paused", next_run_time=None))
        assert store.get_next_run_time() is not None
        for job in store.get_due_jobs(clock.now()):
            if job.id == "j-1":
                job.next_run_time = at(60)
                store.update_job(job)
        store.shutdown()
        store.remove_job("j-2")
        assert len(store.get_all_jobs()) == 3
        store.remove_all_jobs()


@row("Scheduler", STORE)
def drop_a_due_item_whose_job_is_gone(record: Record) -> None:
    store = new_store(ShopTask, lock_for=timedelta(seconds=1))
    store.add_job(new_job())
    key = {"task_id": "apscheduler#default", "use_case_id": "#aps#job#j-1"}
    ShopTask.tracker.connection().delete_item(key["task_id"], key["use_case_id"])
    with record:
        for _ in range(2):  # the first time, it might be that another scheduler has just moved the job on
            assert due(store) == []
    assert store.get_next_run_time() is None
