"""``signoff inbox``, ``answer``, ``claim``, ``release``, ``delegate`` and ``audit``."""

from __future__ import annotations

import getpass
import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Ended, Running, environment, signoff, until
from tests.cli.conftest import Here
from tests.cli.questions import ask
from tests.terminal import Terminal


def result(here: Here, shop: Path, run_id: str) -> object:
    """The result of a run, once it has ended."""
    return until(lambda: here("show", run_id, "--json", cwd=shop).json["run"].get("result"))


def test_the_inbox_shows_what_is_asked_until_it_is_answered(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "in-1", "refund", "--arg", '"o-1"')
    table = signoff("inbox", "--run", "in-1", cwd=open_shop)
    assert table.out.splitlines()[0].split() == ["QUESTION", "ASKED", "UNTIL", "FOR", "KIND", "TEXT"]
    assert "Refund order o-1?" in table.out
    listed = here("inbox", "--run", "in-1", "--json", cwd=open_shop).json
    assert listed["next"] is None
    assert listed["items"][0]["data"]["metadata"] == {"order": "o-1"}
    found = here("inbox", "--text", "in-1 REFUND", "--workflow", "refund", "--json", cwd=open_shop).json
    assert found == listed
    for other in (("--text", "in-1 banana"), ("--workflow", "other"), ("--group", "other")):
        assert here("inbox", "--run", "in-1", *other, cwd=open_shop).err == "no open questions\n"
    assert (
        here("answer", question, "--reject", cwd=open_shop).out
        == f"question {question} is answered: rejected\n"
    )
    empty = here("inbox", "--run", "in-1", cwd=open_shop)
    assert (empty.code, empty.out, empty.err) == (0, "", "no open questions\n")


def test_an_answer_is_given_in_the_login_name_and_once(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "once-1", "refund", "--arg", '"o-1"')
    first = signoff("answer", question, "--approve", "--note", "ok", "--json", cwd=open_shop, LOGNAME="ana")
    assert first.code == 0
    assert (first.json["settled_by"], first.json["note"], first.json["value"]) == (
        "ana",
        "ok",
        {"approved": True},
    )
    assert result(here, open_shop, "once-1") == {"approved": True, "by": "ana", "note": "ok"}
    late = here("answer", question, "--reject", "--user", "eve", cwd=open_shop)
    assert late.code == 4
    assert "already resolved by ana" in late.err


def test_a_wrong_answer_is_refused_by_field_and_the_question_stays_open(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "wrong-1", "ship")
    wrong = here("answer", question, "--value", '{"street": "Main St", "parcels": "two"}', cwd=open_shop)
    assert wrong.code == 4
    assert 'parcels: "two" is not of type "integer"' in wrong.err
    as_json = here("answer", question, "--approve", "--json", cwd=open_shop)
    error = json.loads(as_json.err)["error"]
    assert (error["type"], error["exit_code"]) == ("WrongAnswer", 4)
    assert error["fields"][0]["message"] == 'true is not of type "object"'
    right = here("answer", question, "--value", '{"street": "Main St", "parcels": 2}', cwd=open_shop)
    assert right.code == 0
    assert result(here, open_shop, "wrong-1") == {"street": "Main St", "parcels": 2, "express": False}


def test_several_questions_get_the_same_answer_each_by_itself(here: Here, open_shop: Path) -> None:
    first = ask(here, open_shop, "many-1", "refund", "--arg", '"o-1"')
    second = ask(here, open_shop, "many-2", "refund", "--arg", '"o-2"')
    said = here("answer", first, "none", second, "--approve", "--user", "ana", cwd=open_shop)
    assert said.code == 3
    assert said.out.splitlines() == [
        f"question {first} is answered: approved",
        "refused: no question 'none' here; check the id, the namespace and the store",
        f"question {second} is answered: approved",
    ]
    assert "1 of 3 answers were refused" in said.err
    late = here("answer", first, second, "--reject", "--json", cwd=open_shop)
    assert late.code == 4
    assert [item["problem"]["type"] for item in late.json["items"]] == ["urn:signoff:AlreadySettled"] * 2
    unsaid = here("answer", first, second, cwd=open_shop)
    assert (unsaid.code, "several questions need --approve" in unsaid.err) == (2, True)


def test_others_like_it_are_approved_until_the_rule_is_revoked(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "mail-1", "mail", "--arg", '"bob"')
    lonely = here("answer", question, "--approve", "--same", "/to", cwd=open_shop)
    assert (lonely.code, "go with --alike SECONDS" in lonely.err) == (2, True)
    rejected = here("answer", question, "--reject", "--alike", "60", cwd=open_shop)
    assert (rejected.code, "--alike goes with --approve" in rejected.err) == (2, True)
    said = ("--alike", "60", "--same", "/to", "--everywhere", "--user", "ana")
    assert here("answer", question, "--approve", *said, cwd=open_shop).code == 0
    here("start", "mail", "--arg", '"bob"', "--id", "mail-2", cwd=open_shop)
    assert result(here, open_shop, "mail-2") == {"approved": True, "by": "ana"}
    [rule] = here("rules", "list", "--json", cwd=open_shop).json["items"]
    row = here("rules", "list", "--user", "ana", cwd=open_shop).out.splitlines()[1]
    assert [part in row for part in (rule["id"], "ana", "send_mail", '{"/to": "bob"}', "all runs", "1")] == [
        True
    ] * 6
    gone = here("rules", "revoke", rule["id"], "--reason", "enough", cwd=open_shop)
    assert gone.out == f"rule {rule['id']} is revoked\n"
    assert here("rules", "list", cwd=open_shop).err == "no rules are in force\n"
    assert "revoked" in here("rules", "list", "--all", cwd=open_shop).out
    ask(here, open_shop, "mail-3", "mail", "--arg", '"bob"')
    assert here("rules", "revoke", "none", cwd=open_shop).code == 3


def test_others_like_it_in_its_session_are_approved_without_a_time(here: Here, open_shop: Path) -> None:
    alone = ask(here, open_shop, "alone-1", "mail", "--arg", '"bob"')
    refused = here("answer", alone, "--approve", "--session", cwd=open_shop)
    assert (refused.code, "no run in a session" in refused.err) == (2, True)
    question = ask(here, open_shop, "turn-1", "mail", "--arg", '"bob"', "--session", "c-1")
    assert here("answer", question, "--approve", "--session", "--user", "ana", cwd=open_shop).code == 0
    here("start", "mail", "--arg", '"bob"', "--id", "turn-2", "--session", "c-1", cwd=open_shop)
    assert result(here, open_shop, "turn-2") == {"approved": True, "by": "ana"}
    row = here("rules", "list", "--session", "c-1", cwd=open_shop).out.splitlines()[1]
    assert [part in row for part in ("session c-1", "it is revoked")] == [True, True]
    assert here("rules", "list", "--session", "c-2", cwd=open_shop).err == "no rules are in force\n"


def test_a_question_is_withdrawn_in_the_login_name(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "gone-1", "refund", "--arg", '"o-1"')
    moved = signoff("reassign", question, "user:bob", "--reason", "ill", cwd=open_shop, LOGNAME="olga")
    assert moved.out == f"question {question} is now assigned to user:bob\n"
    endless = here("move-deadline", question, "60", cwd=open_shop)
    assert (endless.code, "has no deadline" in endless.err) == (2, True)
    gone = signoff("cancel-question", question, "--reason", "a mistake", cwd=open_shop, LOGNAME="olga")
    assert gone.out == f"question {question} is cancelled\n"
    late = here("answer", question, "--approve", "--user", "bob", cwd=open_shop)
    assert (late.code, "already cancelled by olga" in late.err) == (4, True)
    error = until(lambda: here("show", "gone-1", "--json", cwd=open_shop).json["run"].get("error"))
    assert "was cancelled by olga: a mistake" in error["message"]


def test_a_promise_is_no_question(here: Here, open_shop: Path) -> None:
    here("start", "pay_later", "--id", "promise-1", cwd=open_shop)
    until(lambda: here("resolve", "nothing", cwd=open_shop).code == 3)
    until(lambda: "promise-1-paid" in here("show", "promise-1", cwd=open_shop).out)
    ended = here("answer", "promise-1-paid", "--approve", cwd=open_shop)
    assert ended.code == 3
    assert "signoff resolve promise-1-paid" in ended.err


def test_a_question_is_no_promise(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "no-promise-1", "refund", "--arg", '"o-1"')
    for verb in ("resolve", "reject"):
        ended = here(verb, question, "true", cwd=open_shop)
        assert (ended.code, f"signoff answer {question}" in ended.err) == (3, True)
    assert here("resolve", "none", cwd=open_shop).code == 3


def test_without_a_terminal_it_says_which_options_there_are(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "mute-1", "refund", "--arg", '"o-1"')
    ended = signoff("answer", question, cwd=open_shop)
    assert ended.code == 2
    assert "--approve, --reject, --edit JSON, --value JSON or --text" in ended.err


def test_on_a_terminal_a_form_is_put_field_by_field_until_it_is_right(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "form-1", "ship")
    with on_terminal("answer", question, "--user", "ana", cwd=open_shop) as terminal:
        terminal.expect("Where to?")
        terminal.type("street:", "Main St")
        terminal.type("parcels [whole number]:", '"many"')
        terminal.type("express (optional) [y/n] [n]:", "y")
        terminal.type("Note:", "")
        terminal.expect('parcels: "many" is not of type "integer"')
        terminal.type("street:", "Main St")
        terminal.type("parcels [whole number]:", "3")
        terminal.type("express (optional) [y/n] [n]:", "y")
        terminal.expect("is answered")
        assert terminal.ends() == 0
    assert result(here, open_shop, "form-1") == {"street": "Main St", "parcels": 3, "express": True}


def test_on_a_terminal_an_approval_is_put_with_what_it_is_about(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "form-2", "refund", "--arg", '"o-7"')
    with on_terminal("answer", question, "--user", "ana", cwd=open_shop) as terminal:
        terminal.expect("Refund order o-7?")
        terminal.expect("order: o-7")
        terminal.type("[a]pprove, [r]eject:", "maybe")
        terminal.type("[a]pprove, [r]eject:", "a")
        terminal.type("Note:", "as agreed")
        assert terminal.ends() == 0
    assert result(here, open_shop, "form-2") == {"approved": True, "by": "ana", "note": "as agreed"}


def test_an_edit_changes_the_named_fields_and_is_kept_with_the_answer(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "edit-1", "send")
    wrong = here("answer", question, "--edit", '{"parcels": "two"}', cwd=open_shop)
    assert wrong.code == 4
    assert 'edited.parcels: "two" is not of type "integer"' in wrong.err
    done = here("answer", question, "--edit", '{"parcels": 5}', cwd=open_shop)
    assert done.out == f"question {question} is answered: approved with 1 edit\n"
    assert result(here, open_shop, "edit-1") == {"approved": True, "parcels": 5, "edits": 1}
    shown = here("show", "edit-1", "--json", cwd=open_shop).json["timeline"]
    [value] = [item["value"] for item in shown if item["kind"] == "question"]
    assert value["edits"] == [{"op": "replace", "path": "/parcels", "value": 5, "old": 2}]
    assert "approved with 1 edit" in here("show", "edit-1", cwd=open_shop).out


def test_an_edit_needs_a_proposal_and_json(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "edit-2", "refund", "--arg", '"o-1"')
    nothing = here("answer", question, "--edit", "{}", cwd=open_shop)
    assert nothing.code == 2
    assert "has no proposal to --edit" in nothing.err
    no_json = here("answer", question, "--edit", "{amount: 5}", cwd=open_shop)
    assert no_json.code == 2
    assert "is not JSON" in no_json.err
    assert here("answer", question, "--reject", "--edit", "{}", cwd=open_shop).code == 2
    assert here("inbox", "--run", "edit-2", "--json", cwd=open_shop).json["items"]


def test_on_a_terminal_a_proposal_shows_its_context_and_is_edited_by_field(
    here: Here, open_shop: Path
) -> None:
    question = ask(here, open_shop, "edit-3", "send")
    with on_terminal("answer", question, "--user", "ana", cwd=open_shop) as terminal:
        terminal.expect("Send it?")
        terminal.expect("It cannot be taken back.")
        terminal.expect("Label: https://example.com/label.pdf")
        terminal.expect('"parcels": 2')
        terminal.type("[a]pprove, [e]dit and approve, [r]eject:", "e")
        terminal.type("street [Main St]:", "")
        terminal.type("parcels [whole number] [2]:", "3")
        terminal.type("express (optional) [y/n] [n]:", "")
        terminal.type("Note:", "")
        terminal.expect("approved with 1 edit")
        assert terminal.ends() == 0
    assert result(here, open_shop, "edit-3") == {"approved": True, "parcels": 3, "edits": 1}


@pytest.mark.parametrize(
    ("typed", "prompt"),
    [("", "[r]eject:"), ("e", "street [Main St]:"), ("r", "Note:")],
    ids=["choice", "field", "note"],
)
def test_ctrl_c_at_a_prompt_ends_the_command_and_leaves_the_question_open(
    here: Here, open_shop: Path, typed: str, prompt: str
) -> None:
    run_id = f"interrupted-{typed}"
    question = ask(here, open_shop, run_id, "send")
    with on_terminal("answer", question, "--user", "ana", cwd=open_shop) as terminal:
        if typed:
            terminal.type("[r]eject:", typed)
        terminal.interrupt(prompt)
        assert terminal.ends() == 130
        assert "Traceback" not in terminal.rest()
    assert here("inbox", "--run", run_id, "--json", cwd=open_shop).json["items"]


def on_terminal(*arguments: str, cwd: Path) -> Terminal:
    """Run a command on a terminal of its own."""
    return Terminal(["signoff", *arguments], cwd=cwd, env=environment({"TERM": "dumb", "COLUMNS": "200"}))


def test_two_people_of_a_group_agree_on_what_a_third_has_asked_for(here: Here, open_shop: Path) -> None:
    started = here("start", "deploy", "--id", "dep-1", "--started-by", "user:req", "--json", cwd=open_shop)
    assert started.json["started_by"] == "user:req"
    question = until(lambda: here("inbox", "--run", "dep-1", "--json", cwd=open_shop).json["items"])[0]["id"]

    def inbox(*who: str) -> str:
        return here("inbox", *who, cwd=open_shop).out

    assert question in inbox("--user", "ana", "--in-group", "ops")
    assert "group:ops, user:boss" in inbox("--user", "boss")
    assert question not in inbox("--user", "ana")
    assert question not in inbox("--in-group", "dev", "--role", "ops")

    def answer(user: str, *more: str) -> Ended:
        return here("answer", question, "--approve", "--user", user, *more, cwd=open_shop)

    for refused in (answer("ana"), answer("ana", "--in-group", "dev"), answer("req", "--in-group", "ops")):
        assert (refused.code, refused.out) == (4, "")
        assert "is not for user:" in refused.err
    voted = answer("ana", "--in-group", "ops")
    assert voted.out == (
        f"your vote on question {question} counts: 1 of 2 approvals, 0 rejections; it stays open\n"
    )
    assert answer("boss").out == f"question {question} is answered: approved, with 2 of 2 votes for it\n"
    assert result(here, open_shop, "dep-1") == {"approved": True, "votes": ["ana", "boss"]}


def test_a_question_is_claimed_released_and_delegated(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "own-1", "refund", "--arg", '"o-1"')
    claimed = here("claim", question, "--user", "ana", cwd=open_shop)
    assert (claimed.code, claimed.out) == (0, f"question {question} is claimed by user:ana\n")
    assert "user:ana (claimed)" in here("inbox", "--run", "own-1", cwd=open_shop).out
    refused = here("answer", question, "--approve", "--user", "bob", cwd=open_shop)
    assert (refused.code, refused.out) == (4, "")
    assert "claimed by user:ana" in refused.err
    assert here("release", question, "--user", "bob", cwd=open_shop).code == 4
    assert (
        here("release", question, "--user", "ana", cwd=open_shop).out == f"question {question} is released\n"
    )
    delegated = here("delegate", question, "user:eva", "group:desk", "--user", "ana", cwd=open_shop)
    assert delegated.out == f"question {question} is now assigned to user:eva, group:desk\n"
    assert here("delegate", question, "eva", "--user", "eva", cwd=open_shop).code == 2
    assert here("claim", "none", "--user", "ana", cwd=open_shop).code == 3
    as_json = here("answer", question, "--approve", "--user", "eva", "--json", cwd=open_shop).json
    assert (as_json["settled_by"], as_json["assignees"]) == ("eva", ["user:eva", "group:desk"])


def test_the_trail_is_listed_exported_and_verified(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "trail-1", "refund", "--arg", '"o-1"')
    here("answer", question, "--value", '"banana"', "--user", "ana", cwd=open_shop)
    here("answer", question, "--approve", "--user", "ana", cwd=open_shop)
    table = here("audit", "list", "--run", "trail-1", cwd=open_shop).out
    assert [line.split()[2] for line in table.splitlines()[1:]] == ["asked", "refused", "resolved"]
    listed = here("audit", "list", "--question", question, "--json", cwd=open_shop).json["items"]
    assert [event["kind"] for event in listed] == ["asked", "refused", "resolved"]
    at = {"way": "cli", "credential": getpass.getuser(), "address": socket.gethostname()}
    assert [event.get("origin") for event in listed] == [None, at, at]
    assert f"command line {getpass.getuser()[:12]}, {socket.gethostname()}" in table

    def exported() -> list[dict[str, Any]] | None:
        lines = [json.loads(line) for line in here("audit", "export", cwd=open_shop).out.splitlines()]
        return lines if sum(line["event"]["question_id"] == question for line in lines) == 3 else None

    lines = until(exported)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    verified = here("audit", "verify", cwd=open_shop)
    assert verified.code == 0
    assert verified.out.splitlines()[0].endswith("events, each follows from the one before it")
    head = verified.out.splitlines()[1]
    assert here("audit", "verify", "--expect", head, cwd=open_shop).code == 0
    assert here("audit", "verify", "--expect", "0:banana", cwd=open_shop).code == 2
    other = here("audit", "verify", "--expect", f"0:{'0' * 64}", "--json", cwd=open_shop)
    assert other.code == 1
    assert "event 0 has hash" in json.loads(other.err)["error"]["message"]


def test_a_changed_trail_is_detected(here: Here, shop: Path) -> None:
    with Running("worker", "orders:app", cwd=shop) as worker:
        worker.wait_for("working")
        question = ask(here, shop, "forged", "refund", "--arg", '"o-1"')
        here("answer", question, "--approve", "--user", "ana", cwd=shop)
        until(lambda: "2 events" in here("audit", "verify", cwd=shop).out)
    with closing(sqlite3.connect(shop / "signoff.db")) as db:
        db.execute("DROP TRIGGER audit_is_not_changed")
        db.execute("UPDATE audit SET by = 'eve' WHERE kind = 'resolved'")
        db.commit()
    found = here("audit", "verify", cwd=shop)
    assert (found.code, found.out) == (1, "")
    assert f"question {question!r}) was changed" in found.err
