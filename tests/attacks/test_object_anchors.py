"""Anchors of the audit trail in an object store: a real S3 server, over HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from examples.website_summary.processes import free_port
from signoff.errors import InvalidValue
from signoff.people.audit.anchors.anchor import AnchorUnavailable
from signoff.people.audit.anchors.anchoring import MOST_FAILURES, Anchoring, restart
from signoff.people.audit.anchors.checkpoint import Checkpoint
from signoff.people.audit.anchors.config import Anchors, anchors_of
from signoff.people.audit.anchors.object_store import ObjectAnchor
from signoff.people.audit.anchors.verification import Examination, examine
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.trails import add, anchor, cut_from, forge
from tests.cli.commands import Ended, signoff
from tests.stores.scene import Scene, rule
from tests.support import in_asyncio

BUCKET = "ledger"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "a-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }.items():
            patch.setenv(name, value)
        try:
            yield f"http://{host}:{port}"
        finally:
            server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Iterator[Any]:
    """A bucket that keeps each version of an object."""
    s3 = boto3.resource("s3", endpoint_url=endpoint)
    made = s3.create_bucket(Bucket=BUCKET)
    made.Versioning().enable()
    yield made
    made.object_versions.delete()
    made.delete()


async def looked(store: Store, anchors: Anchors) -> Examination:
    return await examine(store, store.namespace, anchors, store=store)


@pytest.mark.usefixtures("bucket")
@rule
async def test_a_trail_is_compared_with_its_checkpoints_in_a_bucket(scene: Scene) -> None:
    """Also after it was cut off, rewritten, and counted anew."""
    place = ObjectAnchor(f"s3://{BUCKET}/audit/here/")
    anchors = Anchors((place,), "signoff.example.com/prod")
    other = scene.within("a/b c")
    await add(scene.store, 3)
    await add(other.store, 2, "o")
    for count in (1, 2):
        await anchor(scene.store, anchors)
        await add(scene.store, count, f"more{count}-")
    kept = await place.read(anchors.origin)
    assert kept is not None
    assert kept.unreadable == 0
    assert sorted((each.namespace, each.size) for each in kept.checkpoints) == [
        ("a/b c", 2),
        ("default", 3),
        ("default", 4),
    ]
    for each in (scene.store, other.store):
        found = await looked(each, anchors)
        assert found.verdict.problems == ()
        assert found.unverified == []
        assert found.anchored is not None
    shorter = await place.read("signoff.example.com")
    assert shorter is not None
    assert shorter.checkpoints == []

    await place.keep(Checkpoint(anchors.origin, "default", 2, "f" * 64, scene.clock.now()))
    [problem] = (await looked(scene.store, anchors)).verdict.problems
    assert "event 1" in str(problem)
    scene.clock.advance(1)
    await restart(scene.store, anchors.anchors, "backup of May 1", origin=anchors.origin)
    found = await looked(scene.store, anchors)
    assert found.verdict.problems == ()
    assert [each.restart for look in found.looks for each in look.restarts] == ["backup of May 1"]


ODD = (".", "..", "~", "a/../b", "%2E", "ü" * 200, "\N{PILE OF POO}" * 128, "x" * 255)


@in_asyncio
async def test_a_namespace_of_any_name_is_kept_and_read_back(bucket: Any) -> None:
    place = ObjectAnchor(f"s3://{BUCKET}/x")
    for number, name in enumerate(ODD):
        await place.keep(Checkpoint("..", name, number, "a" * 64, -5.0 + number))
    keys = [each.key for each in bucket.objects.all()]
    assert len(keys) == len(ODD)
    assert max(len(key.encode()) for key in keys) <= 1024
    for number, name in enumerate(ODD):
        kept = await place.read("..", name)
        assert kept is not None
        assert [(each.namespace, each.size, each.at) for each in kept.checkpoints] == [
            (name, number, -5.0 + number)
        ]
    kept = await place.read("..")
    assert kept is not None
    assert ({each.namespace for each in kept.checkpoints}, kept.unreadable) == (set(ODD), 0)


class Choosy:
    """An anchor that refuses some namespaces."""

    name = "choosy"

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def keep(self, checkpoint: Checkpoint) -> None:
        if checkpoint.namespace.startswith("bad"):
            raise ValueError("no such path")
        self.kept.append(checkpoint.namespace)

    async def read(self, origin: str, namespace: str | None = None) -> None:
        return None

    async def close(self) -> None: ...


@rule
async def test_namespaces_that_an_anchor_refuses_keep_no_other_from_it(scene: Scene) -> None:
    """There are more of them than it takes to count an anchor as away, and they come first."""
    for name in (*(f"bad-{number}" for number in range(MOST_FAILURES + 2)), "zoo"):
        await add(scene.within(name).store, 1, name)
    choosy = Choosy()
    anchoring = Anchoring(scene.store, (choosy,))
    for _ in range(3):
        await anchoring.bring_all()
    assert choosy.kept == ["zoo"]
    assert anchoring.states["choosy"].failures == 3


@in_asyncio
async def test_an_object_is_never_written_over(bucket: Any) -> None:
    place = ObjectAnchor(f"s3://{BUCKET}")
    first = Checkpoint("signoff", "default", 7, "a" * 64, 1.0)
    await asyncio.gather(*(place.keep(first) for _ in range(8)))  # many processes
    await ObjectAnchor(f"s3://{BUCKET}").keep(Checkpoint("signoff", "default", 7, "a" * 64, 2.0))
    await place.keep(Checkpoint("signoff", "default", 7, "b" * 64, 3.0))
    versions = list(bucket.object_versions.all())
    assert len(versions) == 3
    assert {version.get()["Body"].read().decode() for version in versions} == {
        first.text,
        Checkpoint("signoff", "default", 7, "a" * 64, 2.0).text,
        Checkpoint("signoff", "default", 7, "b" * 64, 3.0).text,
    }


@in_asyncio
async def test_what_is_no_checkpoint_in_a_bucket_is_counted_and_hides_none(bucket: Any) -> None:
    place = ObjectAnchor(f"s3://{BUCKET}")
    good = Checkpoint("signoff", "default", 7, "a" * 64, 1.0)
    await place.keep(good)
    for key, body in {
        "signoff/default/readme.txt": "x",
        f"signoff/default/{8:019d}-{'c' * 64}-1-restart.txt": "not a checkpoint",
        f"elsewhere/default/{8:019d}-{'c' * 64}-1.txt": "of another log",
    }.items():
        bucket.put_object(Key=key, Body=body.encode())
    kept = await place.read("signoff", "default")
    assert kept is not None
    assert [each.size for each in kept.checkpoints] == [7]
    assert kept.unreadable == 2


@pytest.mark.usefixtures("endpoint")
@in_asyncio
async def test_a_bucket_that_is_not_there_or_not_open_is_named_and_no_secret_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = Checkpoint("signoff", "default", 7, "a" * 64, 1.0)
    with pytest.raises(AnchorUnavailable, match="s3://missing/x") as refused:
        await ObjectAnchor("s3://missing/x").keep(checkpoint)
    assert "a-secret-key" not in str(refused.value)
    assert "\n" not in str(refused.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AnchorUnavailable, match="s3://missing/x"):
        async with asyncio.timeout(60):
            await ObjectAnchor("s3://missing/x").read("signoff")


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///x",
        "s3://key:secret@bucket/x",
        "s3://bucket/x?y=1",
        "s3://bucket/x#y",
        "ftp://bucket/x",
    ],
)
def test_what_is_not_an_object_store_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(InvalidValue, match="SIGNOFF_AUDIT_ANCHORS") as refused:
        anchors_of({"SIGNOFF_AUDIT_ANCHORS": url})
    assert "secret" not in str(refused.value)


def test_verify_reads_the_bucket_by_default(bucket: Any, tmp_path: Path) -> None:
    """From a program of its own, after the trail was cut off beside all triggers."""
    store = f"sqlite:///{tmp_path}/signoff.db"
    url = f"s3://{BUCKET}/prod"

    async def fill() -> None:
        made = SqliteStore(tmp_path / "signoff.db")
        await made.open()
        await add(made, 5)
        await anchor(made, Anchors((ObjectAnchor(url),)))
        await made.close()

    def verified(*options: str) -> Ended:
        return signoff("audit", "verify", "--store", store, *options, cwd=tmp_path, SIGNOFF_AUDIT_ANCHORS=url)

    asyncio.run(fill())
    assert len(list(bucket.objects.all())) == 1
    whole = verified("--strict")
    assert whole.code == 0, whole.err
    forge(store, *cut_from(3))
    cut = verified()
    assert cut.code == 1
    assert url in cut.out + cut.err
