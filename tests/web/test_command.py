"""`pynamodb-tracker web`: serves the page from a process, and says where."""

import re
import signal
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from tests.cli.command import run
from tests.demo.command import ran, started

APP = "tests.web.shop:ShopTask"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_an_address_that_logs_in_and_serves_until_a_signal(number: signal.Signals) -> None:
    with started("web", "--app", APP, "--port", "0", "--hide", "customer") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        assert process.stdout.readline() == "read-only (Ctrl-C quits)\n"
        base, token = address.split("?token=")
        browser = build_opener(HTTPCookieProcessor())
        assert browser.open(f"{base}healthz").read() == b"ok"
        with pytest.raises(HTTPError, match="401") as refused:
            browser.open(f"{base}static/page.js")
        refused.value.close()
        with browser.open(f"{base}static/page.js?token={token}") as answer:
            assert answer.url == f"{base}static/page.js"
        with pytest.raises(HTTPError, match="421") as refused:
            browser.open(Request(f"{base}static/page.js", headers={"Host": "evil.example"}))  # noqa: S310 - http
        refused.value.close()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_port_that_is_taken_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("web", "--port", str(port), of=APP)
    assert ended.code == 2
    assert ended.err.startswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use")
    assert ended.err.endswith("use a different --port\n")
    elsewhere = run("web", "--host", "192.0.2.1", "--host-name", "ops.internal", "--port", "0", of=APP)
    assert (elsewhere.code, elsewhere.err.endswith("use a different --host\n")) == (2, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "ops.internal"])  # noqa: S104 - refused
def test_other_addresses_need_a_name_for_browsers(host: str) -> None:
    ended = run("web", "--host", host, of=APP)
    assert ended.code == 2
    assert "--host-name ops.internal" in ended.err


def test_a_missing_package_is_reported_with_the_extra_that_has_it() -> None:
    ended = ran("web", "--app", "nowhere:App", missing=["starlette"])
    assert ended.returncode == 2
    assert ended.stderr == (
        "pynamodb-tracker needs starlette, which is not installed: pip install 'PATH-OF-THE-CLONE[cli,web]'\n"
    )


def test_an_app_without_the_extra_is_told_what_to_install() -> None:
    program = "import sys; sys.modules['jinja2'] = None; import pynamodb_tracker.web"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.stderr.splitlines()[-1] == "ImportError: the page needs jinja2: pip install 'PATH-OF-THE-CLONE[web]'"


def test_the_demo_serves_the_page_while_it_runs_and_until_a_signal() -> None:
    with started("demo", "--web", "--count", "2", "--port", "0") as process:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            address = line.split()[-1] if line.startswith("The page: ") else address
            if line == "The page stays open until Ctrl-C.\n":
                break
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(address) as answer:
            page = answer.read().decode()
            assert 'data-refresh="1.0"' in page
            assert set(re.findall("read-only|in memory|≈ [$]", page)) == {"read-only", "in memory"}
            assert "What needs you" in page
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
