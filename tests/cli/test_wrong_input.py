"""Wrong input gets a one-line error with a remedy, an exit code, and never a traceback."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from examples.website_summary.processes import free_port
from signoff import Client, Signoff
from signoff.cli import target
from tests.cli.commands import interpreted, signoff
from tests.cli.conftest import Here
from tests.halves import sample
from tests.postgres.databases import fresh_database

USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 2, 3, 4, 5

WRONG: list[tuple[str, int, str]] = [
    # the shell's input
    ("nonsense", USAGE, "No such command 'nonsense'; see: signoff --help"),
    ("runs --state sleeping", USAGE, "'sleeping' is not one of"),
    ('runs --workflow " "', USAGE, "workflow: it is empty, so it matches nothing; leave it out"),
    ("runs --limit 0", USAGE, "0 is not in the range"),
    ("runs --after xyz", USAGE, "'xyz' is not a cursor of this list"),
    ("show", USAGE, "Missing argument 'RUN'; see: signoff show --help"),
    ("runs --url http://x --store sqlite:///x.db", USAGE, "give --url or --store, not both"),
    (
        "runs --store mysql://db/x",
        USAGE,
        "mysql:// is not a supported database; use sqlite:///file.db or",
    ),
    ("runs --store http://x", USAGE, "'http://x' is a server, not a database; use --url"),
    ("runs --store postgresql://h/x?nonsense=1", USAGE, 'invalid URI query parameter: "nonsense"'),
    ("runs --url nonsense", USAGE, "'nonsense' is not a valid server URL"),
    (
        "server --resonate --resonate-push ftp://x",
        USAGE,
        "Invalid value for '--resonate-push': 'ftp://x' is not",
    ),
    ("server --resonate-push https://x/", USAGE, "--resonate-push is for --resonate: add it"),
    ("runs --url ftp://x", USAGE, "'ftp://x' is not a valid server URL"),
    ("start add --arg o-1", USAGE, "'o-1' is not JSON; a text is written '\"o-1\"'"),
    ("start add --arg order=7", USAGE, "an argument by name is written --kwargs '{\"order\": ...}'"),
    ('start add --arg {"a":1,"a":2}', USAGE, "duplicate key 'a'"),
    ('answer known --value {"approved":false,"approved":true}', USAGE, "duplicate key 'approved'"),
    ("start add --arg NaN", USAGE, "'NaN' is not JSON"),
    ("start add --arg 1e999", USAGE, "'1e999' is not JSON"),
    ("start add --kwargs [1]", USAGE, "[1] is not a JSON object"),
    ('start add --kwargs {"priority":1}', USAGE, "'priority' would be read as an option of the start"),
    (
        'start add --kwargs {"id":"x","start_at":1}',
        USAGE,
        "'id' and 'start_at' would be read as an option of the start",
    ),
    ('start add --kwargs {"timeout_seconds":1}', USAGE, "pass that argument by position with --arg"),
    ('start add --kwargs {"delay_seconds":1,"group":"g"}', USAGE, "'delay_seconds' and 'group' would"),
    ("start add --delay -1", USAGE, "-1.0 is not in the range 0<=x<=1000000000000000.0"),
    ("start add --delay 1e300", USAGE, "1e+300 is not in the range 0<=x<="),
    ("move-deadline q 1e300", USAGE, "1e+300 is not in the range 0<x<="),
    ("answer q yes --alike 1e300", USAGE, "1e+300 is not in the range 0<x<="),
    ("groups limit default --rate 10/99999999999999999999999s", USAGE, "is not a valid rate, such as 10/min"),
    ("start add --start-at tomorrow", USAGE, "'tomorrow' is not a valid time, such as 2026-03-01T09:00"),
    ("start add --priority high", USAGE, "'high' is not a valid integer"),
    ("start add --priority 9999999999", USAGE, "priority: expected an integer from"),
    ("groups limit default --max-running -1", USAGE, "-1 is not in the range x>=1"),
    ("groups limit default --rate often", USAGE, "'often' is not a valid rate, such as 10/min"),
    ("groups limit default", USAGE, "give --max-running, --rate or both; or --none"),
    ("schedules create s add", USAGE, "Missing option '--cron'"),
    ("schedules create s add --cron often", USAGE, "cron: 'often' does not have five fields"),
    (
        'schedules create s add --cron "61 * * * *"',
        USAGE,
        "cron: '61 * * * *' is not a valid cron expression",
    ),
    (
        'schedules create s add --cron "0 0 30 2 *"',
        USAGE,
        "cron: '0 0 30 2 *' is not a valid cron expression",
    ),
    (
        'schedules create s add --cron "* * * * *" --timezone Mars/Base',
        USAGE,
        "timezone: 'Mars/Base' is not a time zone",
    ),
    (
        'schedules create s add --cron "* * * * *" --kwargs {"cron":1}',
        USAGE,
        "'cron' would be read as an option",
    ),
    ("prune --older-than -1", USAGE, "-1.0 is not in the range x>=0"),
    ("prune --older-than nan", USAGE, "nan is not a finite number"),
    ("prune --older-than inf", USAGE, "inf is not a finite number"),
    ("prune --older-than 1e300", USAGE, "1e+300 days is more than a timedelta can hold"),
    ("start add --delay nan", USAGE, "nan is not a finite number"),
    ("start add --delay inf", USAGE, "inf is not in the range 0<=x<="),
    ("start add --start-at 9999-12-31T23:59:59-23:00", USAGE, "is not a valid time, such as"),
    ("start add --start-at 0001-01-01T00:00+23:00", USAGE, "is not a valid time, such as"),
    ("start add --start-at 10000-01-01T00:00Z", USAGE, "is not a valid time, such as"),
    ("keys create x --days nan", USAGE, "nan is not a finite number"),
    ("move-deadline q nan", USAGE, "nan is not a finite number"),
    (f"start add --arg {'[' * 100_000}", USAGE, "the JSON is nested too deep"),
    (f"start add --arg {'[' * 5_000}{']' * 5_000}", USAGE, "nested"),
    (f"start add --arg {'[' * 500}{']' * 500}", USAGE, "is nested deeper than 100 levels"),
    (f"answer known --value {'[' * 100_000}", USAGE, "the JSON is nested too deep"),
    ("migrate --url http://x", USAGE, "http://x is a server: migrate where its database is"),
    ("migrate orders:app --store sqlite:///x.db", USAGE, "give --store or MODULE:APP, not both"),
    ("doctor orders:app --store sqlite:///x.db", USAGE, "give --store or MODULE:APP, not both"),
    ("doctor --url nonsense", USAGE, "'nonsense' is not a valid server URL"),
    ("start add --id \t", USAGE, "is not 1 to 256 printable characters"),
    ("signal known go {", USAGE, "'{' is not JSON"),
    ("answer known --approve --text x", USAGE, "give one of --approve, --reject, --edit, --value and --text"),
    ("answer known --value {", USAGE, "'{' is not JSON"),
    # what is not there
    ("show missing", NOT_FOUND, "no run 'missing'"),
    ("show missing --follow", NOT_FOUND, "no run 'missing'"),
    ("export missing", NOT_FOUND, "no run 'missing'"),
    ("signal missing go", NOT_FOUND, "no run 'missing'"),
    ("cancel missing", NOT_FOUND, "no run 'missing'"),
    ("retry missing", NOT_FOUND, "no run 'missing'"),
    ("terminate missing", NOT_FOUND, "no run 'missing'"),
    ("suspend missing", NOT_FOUND, "no run 'missing'"),
    ("resume missing", NOT_FOUND, "no run 'missing'"),
    ("answer missing --approve", NOT_FOUND, "no question 'missing'"),
    ("resolve missing", NOT_FOUND, "no promise 'missing'"),
    ("reject missing", NOT_FOUND, "no promise 'missing'"),
    ("replay orders:app missing", NOT_FOUND, "no run 'missing'"),
    # what is refused
    ("start add --id known --arg 2", CONFLICT, "id 'known' is taken"),
    ("retry known", CONFLICT, "cannot retry it"),
    # code that cannot be loaded
    ("worker orders:app --retain-days 1e300", USAGE, "1e+300 is not in the range 0<x<=36500"),
    ("worker orders", USAGE, "'orders' does not name an app: give module:app, as in orders:app"),
    ("worker orders.py:app", USAGE, "give the module, as in orders:app"),
    ("worker nowhere:app", USAGE, "no module 'nowhere' in"),
    ("worker orders.nowhere:app", USAGE, "no module 'orders.nowhere'"),
    ("worker orders:nothing", USAGE, "module 'orders' has no 'nothing'; did you mean orders:app?"),
    (
        "worker orders:mark",
        USAGE,
        "orders:mark is of type function, not a Signoff app; did you mean orders:app?",
    ),
    ("worker syntax:app", USAGE, "syntax.py:2: SyntaxError:"),
    ("worker needs:app", USAGE, "needs.py:1: ModuleNotFoundError: No module named 'not_installed'"),
    ("worker raises:app", USAGE, "raises.py:2: ValueError: two lines"),
    ("worker exits:app", USAGE, "exits.py:1: SystemExit: 3"),
    ("worker empty:app", USAGE, "module 'empty' has no 'app'; it needs app = Signoff(...)"),
    (
        "worker twice:app",
        USAGE,
        "twice.py:7: RegistrationError: workflow 'f' version '1' is registered twice",
    ),
    ("worker orders:app --url nonsense", USAGE, "'nonsense' is not a valid server URL"),
    ("worker orders:app --threads 0", USAGE, "0 is not in the range"),
    ("worker orders:app --hot-runs -1", USAGE, "-1 is not in the range"),
    ("server nowhere:app", USAGE, "no module 'nowhere' in"),
    ("server orders:app --store sqlite:///x.db", USAGE, "give --store or MODULE:APP, not both"),
    ("server --store mysql://db/x", USAGE, "mysql:// is not a supported database"),
    ("server --port 99999", USAGE, "99999 is not in the range"),
    ("server --store sqlite:////no/such/folder/x.db", UNAVAILABLE, "check that its directory exists"),
    ("server --host 203.0.113.1 --port 0", UNAVAILABLE, "cannot listen on 203.0.113.1 port 0"),
    ("dev orders:app --watch nowhere", USAGE, "'nowhere' does not exist"),
    # replay
    ("replay orders:app", USAGE, "name the runs to check: RUN..., --all, or --from FILE"),
    ("replay orders:app known --all", USAGE, "name the runs to check"),
    ("replay nowhere:app --all", USAGE, "no module 'nowhere' in"),
    ("replay orders:app --from nothing.json", USAGE, "cannot read nothing.json: No such file"),
    ("replay orders:app --from orders.py", USAGE, "orders.py is not what `signoff export` writes"),
]

MODULES = {
    "syntax": "x = 1\ndef broken(:\n",
    "needs": "import not_installed\n",
    "raises": "def f():\n    raise ValueError('two\\nlines')\nf()\n",
    "exits": "raise SystemExit(3)\n",
    "empty": "",
    "twice": (
        "from signoff import Signoff\napp = Signoff()\n@app.workflow\nasync def f(ctx): ...\n"
        "def again():\n    async def f(ctx): ...\n    app.workflow(f)\nagain()\n"
    ),
}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with modules, most of them wrong, and a run, to be copied: to make it takes most of a test's time."""
    folder = tmp_path_factory.mktemp("messy")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    app = Signoff(f"sqlite:///{folder / 'signoff.db'}")
    with Client(app) as client:
        client.start("add", 1, id="known")
    app.close()
    return folder


@pytest.fixture
def messy_shop(shop: Path, furnished: Path) -> Path:
    shutil.copytree(furnished, shop, dirs_exist_ok=True)
    return shop


def words(line: str) -> list[str]:
    """Split as a shell does, but for the quotes of JSON: a quoted word has spaces."""
    return [quoted or plain for quoted, plain in re.findall(r'(?<= )"([^"]* [^"]*)"|([^ ]+)', line)]


@pytest.mark.parametrize(("line", "code", "message"), WRONG, ids=[line[:60] for line, _, _ in WRONG])
def test_wrong_input(here: Here, messy_shop: Path, line: str, code: int, message: str) -> None:
    ended = here(*words(line), cwd=messy_shop)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.startswith("signoff: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("worker syntax:app", USAGE),
        pytest.param("show missing", NOT_FOUND, marks=pytest.mark.long),
        pytest.param("start add --id known --arg 2", CONFLICT, marks=pytest.mark.long),
    ],
)
def test_a_process_says_the_same(messy_shop: Path, line: str, code: int) -> None:
    ended = signoff(*line.split(), cwd=messy_shop)
    assert ended.code == code
    assert ended.err.startswith("signoff: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command", ["runs", "server", "migrate", "start add --arg 1", "worker there:app"])
def test_a_postgres_address_that_refuses_the_login(here: Here, shop: Path, command: str) -> None:
    with fresh_database() as url:
        for address, message in (
            (url.replace("@", "x@"), "password authentication failed for user"),
            (f"{url}_nowhere", "does not exist; create it, or check its name in the address"),
        ):
            (shop / "there.py").write_text(
                "import os\nfrom signoff import Signoff\napp = Signoff(os.environ['DB'])\n"
            )
            place = {"DB": address} if "there" in command else {"SIGNOFF_STORE": address}
            began_at = time.monotonic()
            ended = here(*command.split(), cwd=shop, **place)
            assert time.monotonic() - began_at < 45, "it is not waited for what will not come"
            assert (ended.code, ended.out, ended.err.count("\n")) == (UNAVAILABLE, "", 1)
            assert message in ended.err
            assert "x@" not in ended.err


def test_a_postgres_server_that_is_not_there(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "PATIENCE_SECONDS", 0.1)
    port = free_port()
    ended = here("runs", "--store", f"postgresql://ana:secret@127.0.0.1:{port}/shop", cwd=tmp_path)
    assert (ended.code, ended.err.count("\n")) == (UNAVAILABLE, 1)
    assert f"store postgresql://127.0.0.1:{port}/shop is not available" in ended.err
    assert "refused" in ended.err
    assert "secret" not in ended.err


def test_machines_get_the_error_as_an_object(here: Here, messy_shop: Path) -> None:
    missing = here("show", "missing", "--json", cwd=messy_shop)
    error = json.loads(missing.err)["error"]
    assert error.pop("message").startswith("no run 'missing'")
    assert error == {"exit_code": 3, "type": "NotFound"}
    assert json.loads(here("runs", "--json", "--limit", "x", cwd=messy_shop).err)["error"]["exit_code"] == 2


def test_help_names_every_exit_code(here: Here, tmp_path: Path) -> None:
    told = here("--help", cwd=tmp_path).out
    assert all(f"\n    {code}  " in told for code in range(6))
    assert here("show", "--help", cwd=tmp_path).code == 0


def test_without_a_command_it_shows_the_help(here: Here, tmp_path: Path) -> None:
    ended = here(cwd=tmp_path)
    assert (ended.code, ended.err) == (USAGE, "")
    assert "Exit codes:" in ended.out


def test_texts_of_others_cannot_command_the_terminal(here: Here, shop: Path) -> None:
    here("start", "add\x1b[2J", "--id", "evil", "--store", "sqlite:///signoff.db", cwd=shop)
    for command in (["runs"], ["show", "evil"]):
        assert "\x1b" not in here(*command, cwd=shop).out


@pytest.mark.parametrize("encoding", sample(["cp1252", "ascii", "latin-1:strict"]))
def test_a_terminal_that_cannot_show_an_emoji_shows_its_code(shop: Path, encoding: str) -> None:
    store = ("--store", "sqlite:///signoff.db")
    terminal = {"PYTHONIOENCODING": encoding}
    started = signoff(
        "start", "refund", "--arg", '"\U0001f389"', "--id", "party", *store, cwd=shop, **terminal
    )
    assert started.code == 0
    for command in (["runs"], ["show", "party"], ["inbox"]):
        ended = signoff(*command, *store, cwd=shop, **terminal)
        assert (ended.code, "Traceback" in ended.err) == (0, False)
    shown = signoff("show", "party", "--json", *store, cwd=shop, **terminal)
    assert "\U0001f389" in json.dumps(json.loads(shown.out), ensure_ascii=False)
    wrong = interpreted("start", "refund", "--arg", "\U0001f389", *store, cwd=shop, **terminal)
    assert (wrong.code, wrong.err.count("\n")) == (USAGE, 1)


def test_times_that_no_calendar_holds_are_spelled_in_words(here: Here, shop: Path) -> None:
    store = ("--store", "sqlite:///signoff.db")
    assert here("start", "add", "--delay", "1e15", "--id", "far", *store, cwd=shop).code == 0
    for command in (["runs"], ["runs", "--json"], ["show", "far"], ["show", "far", "--json"]):
        ended = here(*command, *store, cwd=shop)
        assert (ended.code, "Traceback" in ended.err) == (0, False)


@pytest.mark.parametrize("command", ["show", "start", "answer", "signal", "resolve", "runs --group", "load"])
def test_bytes_that_are_no_text_are_refused(here: Here, shop: Path, command: str) -> None:
    """A name that a Latin-1 terminal sends comes as bytes that no UTF-8 has."""
    rest = {"answer": ["--approve"], "signal": ["paid"], "resolve": ["1"]}.get(command, [])
    ended = here(*command.split(), "caf\udce9", *rest, "--store", "sqlite:///signoff.db", cwd=shop)
    assert ended.code in (USAGE, NOT_FOUND, UNAVAILABLE)
    assert ended.err.startswith("signoff: ")
    assert ended.err.count("\n") == 1


def test_a_file_that_no_disk_can_have_is_refused(here: Here, shop: Path) -> None:
    ended = here("runs", "--store", "x" * 5000, cwd=shop)
    assert ended.code == UNAVAILABLE
    assert ended.err.startswith("signoff: File name too long: ")
    assert len(ended.err) < 1000
    assert ended.err.count("\n") == 1


def test_help_shows_only_ranges_that_have_a_bound(here: Here, tmp_path: Path) -> None:
    for command in ("answer", "start", "prune", "move-deadline", "worker", "server", "dev"):
        assert "<=None" not in here(command, "--help", cwd=tmp_path).out


@pytest.mark.parametrize("command", ["runs", "runs --json", "audit export"])
def test_a_reader_that_has_enough_is_no_failure(here: Here, shop: Path, command: str) -> None:
    store = ("--store", "sqlite:///signoff.db")
    assert here("start", "refund", "--arg", '"o-1"', *store, cwd=shop).code == 0
    ended = subprocess.run(
        f"{sys.executable} -m signoff {command} {' '.join(store)} | true; exit ${{PIPESTATUS[0]}}",
        cwd=shop,
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "code"), [("runs >&-", 0), ("runs >&- 2>&- <&-", 0), ("answer q --approve <&- 2>&-", NOT_FOUND)]
)
def test_a_process_without_standard_streams_has_its_exit_code(
    here: Here, shop: Path, line: str, code: int
) -> None:
    store = "--store sqlite:///signoff.db"
    assert here("start", "refund", "--arg", '"o-1"', *store.split(), cwd=shop).code == 0
    command, _, closed = line.partition(" ")
    ended = subprocess.run(
        f"{sys.executable} -m signoff {command} {store} {closed}",
        cwd=shop,
        shell=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == code


@pytest.mark.parametrize(
    "line",
    [
        f"audit export --after {10**30}",
        f"audit verify --expect {'9' * 5000}:{'0' * 64}",
        "start add --arg \u202ea",
        f"start add --arg {'x' * 5000}",
    ],
)
def test_absurd_arguments_are_refused_in_one_short_line(here: Here, shop: Path, line: str) -> None:
    ended = here(*line.split(), "--store", "sqlite:///signoff.db", cwd=shop)
    assert (ended.code, ended.err.count("\n")) == (USAGE, 1)
    assert ended.err.rstrip("\n").isprintable()


LONG_LINES = [
    "show {long}",
    "cancel {long}",
    "signal {long} go",
    "answer {long} --approve",
    "start {long}",
    "start add --id {long}",
    "start add --group {long}",
    "start add --arg {long}=1",
    "retry x --reason {long}",
    "schedules create s add --cron {long}",
    "{long}",
]


@pytest.mark.parametrize("line", LONG_LINES)
def test_no_argument_is_too_long_for_one_short_line(here: Here, messy_shop: Path, line: str) -> None:
    given = line.format(long="x" * 100_000).split()
    ended = here(*given, "--store", "sqlite:///signoff.db", cwd=messy_shop)
    assert ended.code in (USAGE, NOT_FOUND)
    assert ended.err.startswith("signoff: ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 2_100


@pytest.mark.parametrize("line", LONG_LINES)
def test_no_argument_is_too_long_for_the_error_of_a_program(here: Here, messy_shop: Path, line: str) -> None:
    given = line.format(long="x" * 100_000).split()
    ended = here(*given, "--json", "--store", "sqlite:///signoff.db", cwd=messy_shop)
    assert ended.code in (USAGE, NOT_FOUND)
    assert len(ended.err) < 2_300
    assert json.loads(ended.err)["error"]["exit_code"] == ended.code
