"""The history of a question over HTTP: its own events, for callers who may read it."""

from __future__ import annotations

import httpx

from tests.server.conftest import asked, kind, path_of, start


def test_without_keys_a_question_shows_its_events_and_the_trail_is_closed(
    http: httpx.Client, name: str
) -> None:
    for run in (name, f"{name}-2"):
        start(http, "ask", run)
    id, other = asked(http, name), asked(http, f"{name}-2")
    said = {"text": "Is that the order of May?", "user_id": "ana"}
    http.post(f"/v1/questions/{path_of(id)}/comments", json=said).raise_for_status()
    http.post(f"/v1/questions/{path_of(other)}/comments", json=said | {"text": "another"}).raise_for_status()
    events = http.get(f"/v1/questions/{path_of(id)}/history").json()["items"]
    assert [(each["kind"], each["question_id"]) for each in events] == [("asked", id), ("commented", id)]
    assert (events[1]["by"], events[1]["details"]["text"]) == ("ana", said["text"])
    for path in ("/v1/audit", "/v1/audit/chain", "/v1/audit/export"):
        refused = http.get(path, params={"question_id": id} if path == "/v1/audit" else {})
        assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")


def test_a_history_is_read_page_by_page_and_outlives_the_answer(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    path = f"/v1/questions/{path_of(id)}"
    for number in range(5):
        http.post(f"{path}/comments", json={"text": str(number), "user_id": "ana"}).raise_for_status()
    http.post(f"{path}/answer", json={"value": True, "user_id": "ana"}).raise_for_status()
    events, after = [], None
    while True:
        query = {"limit": 2} if after is None else {"limit": 2, "after": after}
        page = http.get(f"{path}/history", params=query).json()
        events += page["items"]
        assert len(page["items"]) <= 2
        after = page["next"]
        if after is None:
            break
    assert [each["kind"] for each in events] == ["asked", *["commented"] * 5, "resolved"]
    assert [each["details"]["text"] for each in events[1:6]] == list("01234")
    wrong = http.get(f"{path}/history", params={"after": "17"})
    assert (wrong.status_code, kind(wrong)) == (422, "InvalidValue")


def test_what_is_no_question_has_no_history(http: httpx.Client, name: str) -> None:
    http.post("/v1/promises", json={"id": name}).raise_for_status()
    for id in (name, f"{name}-none"):
        refused = http.get(f"/v1/questions/{id}/history")
        assert (refused.status_code, kind(refused)) == (404, "NotFound")
