"""Leave a page at the address of each page that has gone, which leads to the one that has its text now."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

MOVED = {
    "explanation/compatibility": "how-to/deploy-a-new-version.html#changes-of-the-library",
    "explanation/hooks": "how-to/write-a-hook.html",
    "explanation/states": "explanation/life-of-a-task.html",
    "explanation/waiting": "explanation/life-of-a-task.html#waiting",
    "explanation/why-not": "comparison.html",
    "how-to/add-a-step": "how-to/deploy-a-new-version.html",
    "how-to/choose-a-call": "how-to/index.html",
    "how-to/data-and-money": "how-to/store-and-find-data.html",
    "how-to/find-by-attribute": "how-to/store-and-find-data.html#find-the-orders-of-a-customer",
    "how-to/large-data": "how-to/store-and-find-data.html#large-data",
    "how-to/merge-requests": "how-to/repeat-a-task.html#merge-requests-for-the-same-work",
    "how-to/pause-a-step": "how-to/limit-what-runs-at-once.html#pause-a-step",
    "how-to/retry-on-a-schedule": "how-to/retry-and-reopen.html#retry-on-a-schedule",
    "how-to/run-several-steps": "how-to/chain-steps-and-tasks.html",
    "how-to/run-what-failed": "how-to/retry-and-reopen.html",
    "how-to/set-aside-and-reopen": "how-to/retry-and-reopen.html#reopen",
    "how-to/start-follow-ups": "how-to/chain-steps-and-tasks.html#start-follow-up-tasks",
    "how-to/store-money": "how-to/store-and-find-data.html#money",
    "how-to/upgrade": "how-to/deploy-a-new-version.html#upgrade-the-library",
    "how-to/use-with-fastapi": "how-to/use-asyncio.html#fastapi",
    "how-to/use-with-powertools": "how-to/lambda.html#use-powertools",
    "how-to/wait-for-other-tasks": "how-to/chain-steps-and-tasks.html#wait-for-other-tasks",
    "how-to/wrap-a-lambda-handler": "how-to/lambda.html",
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
