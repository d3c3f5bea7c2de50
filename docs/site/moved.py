"""Leave a page at the address of each page that has gone, which leads to the one that has its text now."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

MOVED = {
    "explanation/compatibility": "how-to/deploy-a-new-version.html#changes-of-the-library",
    "explanation/hooks": "how-to/monitor.html#hooks",
    "explanation/states": "explanation/life-of-a-task.html",
    "explanation/waiting": "explanation/life-of-a-task.html#waiting",
    "explanation/why-not": "comparison.html",
    "how-to/add-a-step": "how-to/deploy-a-new-version.html",
    "how-to/check-a-table": "reference/doctor.html",
    "how-to/choose-a-call": "how-to/index.html",
    "how-to/data-and-money": "how-to/store-and-find-data.html",
    "how-to/fail-over": "how-to/recover-after-a-restore.html#fail-over-to-another-region",
    "how-to/find-by-attribute": "how-to/store-and-find-data.html#find-the-orders-of-a-customer",
    "how-to/grant-permissions": "how-to/deploy-the-table.html#permissions",
    "how-to/keep-a-history": "how-to/publish-events.html#keep-a-history",
    "how-to/large-data": "how-to/store-and-find-data.html#large-data",
    "how-to/merge-requests": "how-to/repeat-a-task.html#merge-requests-for-the-same-work",
    "how-to/move-from-a-status-column": "how-to/migrate.html",
    "how-to/move-from-pynamodb-mate": "how-to/migrate.html#from-pynamodb_mate",
    "how-to/pause-a-step": "how-to/limit-what-runs-at-once.html#pause-a-step",
    "how-to/personal-data": "security.html#personal-data",
    "how-to/retry-on-a-schedule": "how-to/retry-and-reopen.html#retry-on-a-schedule",
    "how-to/run-several-steps": "how-to/chain-steps-and-tasks.html",
    "how-to/run-what-failed": "how-to/retry-and-reopen.html",
    "how-to/set-aside-and-reopen": "how-to/retry-and-reopen.html#reopen",
    "how-to/shard-a-hot-state": "explanation/scale.html#shards",
    "how-to/start-follow-ups": "how-to/chain-steps-and-tasks.html#start-follow-up-tasks",
    "how-to/store-money": "how-to/store-and-find-data.html#money",
    "how-to/upgrade": "how-to/deploy-a-new-version.html#upgrade-the-library",
    "how-to/use-with-apscheduler": "reference/apscheduler.html",
    "how-to/use-with-fastapi": "how-to/use-asyncio.html#fastapi",
    "how-to/use-with-opentelemetry": "how-to/monitor.html#opentelemetry",
    "how-to/use-with-powertools": "how-to/lambda.html#use-powertools",
    "how-to/wait-for-other-tasks": "how-to/chain-steps-and-tasks.html#wait-for-other-tasks",
    "how-to/watch-and-alarm": "how-to/deploy-a-pipeline.html#the-alarms",
    "how-to/wrap-a-lambda-handler": "how-to/lambda.html",
    "how-to/write-a-hook": "how-to/monitor.html#hooks",
}

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={to}">
<title>This page has moved</title>
<p>This page has moved: <a href="{to}">{to}</a>
</html>
"""


def on_post_build(config: MkDocsConfig) -> None:
    """Write these pages into the site."""
    for old, new in MOVED.items():
        page = Path(config.site_dir, f"{old}.html")
        page.write_text(_PAGE.format(to=f"../{new}"), encoding="utf-8")
