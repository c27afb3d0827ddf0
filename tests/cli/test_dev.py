"""``signoff dev``: changed code is reloaded, and code that cannot be loaded changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import ORDERS, Running, until
from tests.cli.conftest import Here

pytestmark = pytest.mark.timeout(300)


def change(shop: Path, old: str, new: str) -> None:
    assert old in ORDERS
    (shop / "orders.py").write_text(ORDERS.replace(old, new))


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(ORDERS.splitlines(), start=1) if text in line)


def test_changed_code_is_loaded_on_the_same_port_and_broken_code_is_not(here: Here, shop: Path) -> None:
    with Running("dev", "orders:app", "--port", "0", cwd=shop) as dev:
        url = dev.wait_for("listening")["url"]
        dev.wait_for("working")
        add = ("start", "add", "--arg", "5", "--wait", "--url", url)
        assert here(*add, cwd=shop).out == "6\n"

        change(shop, "lambda: a + b", "lambda: a + b +")
        assert dev.wait_for("broken")["running"] is True
        assert f"orders.py:{line_of('lambda: a + b')}: SyntaxError" in dev.err
        assert here(*add, cwd=shop).out == "6\n"  # what ran before goes on

        change(shop, "lambda: a + b", "lambda: a * b")
        dev.wait_for("working", times=2)
        assert dev.events("listening")[-1]["url"] == url
        assert here(*add, cwd=shop).out == "5\n"

        dev.signal(signal.SIGINT)
        assert dev.ends() == 0
        assert "Traceback" not in dev.err


@pytest.mark.long
def test_a_reload_lets_a_running_step_finish_and_no_step_runs_twice(here: Here, shop: Path) -> None:
    with Running("dev", "orders:app", "--port", "0", cwd=shop) as dev:
        dev.wait_for("working")
        here("start", "slow", "--id", "slow-1", cwd=shop)
        until((shop / "marks").exists)
        change(shop, "lambda: a + b", "lambda: a - b")
        dev.wait_for("draining")
        (shop / "go").touch()
        dev.wait_for("working", times=2)
        until(lambda: here("show", "slow-1", "--json", cwd=shop).json["run"]["state"] == "succeeded")
        assert (shop / "marks").read_text() == "begun\n"


@pytest.mark.long
def test_it_starts_with_broken_code_and_waits_for_it_to_be_mended(shop: Path) -> None:
    (shop / "orders.py").write_text("app = 1\n")
    with Running("dev", "orders:app", "--port", "0", cwd=shop) as dev:
        assert dev.wait_for("broken")["running"] is False
        assert "not a Signoff app" in dev.err
        (shop / "orders.py").write_text(ORDERS)
        dev.wait_for("working")


def test_what_it_started_ends_when_it_is_killed(shop: Path) -> None:
    with Running("dev", "orders:app", "--port", "0", cwd=shop) as dev:
        dev.wait_for("working")
        dev.process.kill()
        until(lambda: dev.events("stopped"))


@pytest.mark.long
def test_a_port_that_is_taken_ends_it(shop: Path) -> None:
    with Running("server", "--port", "0", cwd=shop) as server:
        port = server.wait_for("listening")["port"]
        with Running("dev", "orders:app", "--port", str(port), cwd=shop) as dev:
            assert dev.ends() == 5
            assert f"port {port}" in dev.err


PAID = """
@app.workflow
async def paid(ctx: Context) -> dict:
    payment = await ctx.callback("Payment")
    await ctx.step("tell", lambda: pathlib.Path(f"url-{ctx.run_id}").write_text(payment.url))
    answer = await payment
    return {"said": answer.value.body, "by": answer.user_id}
"""


@pytest.mark.long
def test_callbacks_come_to_its_own_address_which_nothing_shows(here: Here, shop: Path) -> None:
    (shop / "orders.py").write_text(ORDERS + PAID)
    with Running("dev", "orders:app", "--port", "0", cwd=shop) as dev:
        url = dev.wait_for("listening")["url"]
        dev.wait_for("working")
        for run in ("p-1", "p-2"):
            here("start", "paid", "--id", run, cwd=shop)
            until(lambda run=run: (shop / f"url-{run}").exists() and (shop / f"url-{run}").read_text())
        told = (shop / "url-p-1").read_text()
        assert told.startswith(f"{url}/c/sgc_")
        secret = told.rpartition("/")[2]
        for command in (("show", "p-1"), ("show", "p-1", "--json"), ("export", "p-1"), ("inbox", "--json")):
            assert secret not in here(*command, cwd=shop).out
        assert httpx.post(told, content=b"yes", trust_env=False, timeout=60).json() == {"received": True}
        assert here("start", "paid", "--id", "p-1", "--wait", cwd=shop).json == {"said": "yes", "by": None}

        value = ("--value", '{"body": "by bank"}')
        assert here("answer", "p-2.1", *value, "--user", "ana", cwd=shop).code == 4
        assert here("answer", "p-2.1", *value, "--user", "ana", "--role", "operator", cwd=shop).code == 0
        assert here("start", "paid", "--id", "p-2", "--wait", cwd=shop).json == {
            "said": "by bank",
            "by": "ana",
        }
