"""The store's rules for live text, the output of running steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signoff.errors import InvalidValue, LeaseLost
from signoff.records import LiveText, Run
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.contract.store import Change
from tests.stores.scene import KEPT_FAILURE, Scene, entry, rule, until


def piece(run: Run, seq: int, text: str = "Hello", *, n: int = 1, position: int = 0) -> LiveText:
    return LiveText(run.id, run.epoch, seq, n, "answer", 1, position, "text", text)


async def texts(scene: Scene, run_id: str = "r", **after: int) -> list[str]:
    return [each.text for each in await scene.store.read_live(run_id, **after)]


async def lose(scene: Scene, run: Run) -> None:
    """Have a run's lease run out."""
    scene.lease_clock.advance(scene.store.lease_seconds + 1)
    await scene.store.due()


@rule
async def test_live_text_is_read_in_order_from_the_start_or_from_any_piece(
    scene: Scene,
) -> None:
    run = await scene.run()
    said = [
        piece(run, 3, "Ä"),
        replace(piece(run, 5, "b\n", n=2), attempt=2, kind="thinking", name="plan"),
        piece(run, 9, "c", position=1),
    ]
    await scene.store.publish(said[:2])
    await scene.store.publish(said[2:])
    assert list(await scene.store.read_live("r")) == said
    assert await texts(scene, epoch=run.epoch, after=3) == ["b\n", "c"]
    assert await texts(scene, epoch=run.epoch, after=9) == []
    assert await texts(scene, epoch=run.epoch - 1, after=9) == ["Ä", "b\n", "c"]
    assert await texts(scene, "unknown") == []
    assert await scene.store.read_journal("r") == []


@rule
async def test_pieces_of_several_runs_are_published_together_and_wake_readers(scene: Scene) -> None:
    one, two = await scene.run("one"), await scene.run("two")
    heard: list[Change] = []
    stop = await scene.listen(heard)
    await scene.store.publish([piece(one, 0, "1"), piece(two, 1, "2"), piece(one, 2, "3")])
    await until(lambda: any(change.runs == {"one", "two"} for change in heard))
    stop()
    assert (await texts(scene, "one"), await texts(scene, "two")) == (["1", "3"], ["2"])


@rule
async def test_a_piece_that_is_published_again_is_there_once(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.publish([piece(run, 0)])
    await scene.store.publish([piece(run, 0), piece(run, 1, " world", position=5)])
    await scene.store.publish([])
    assert await texts(scene) == ["Hello", " world"]


@rule
async def test_who_has_lost_the_lease_publishes_nothing(scene: Scene) -> None:
    lost = await scene.run("lost")
    held = await scene.run("held")
    await lose(scene, lost)
    claims = {claim.run.id: claim.run for claim in await scene.claim(worker="w2")}
    held = claims["held"]
    await scene.store.publish([piece(lost, 0), piece(held, 1), replace(piece(held, 2), run_id="unknown")])
    assert (await texts(scene, "lost"), await texts(scene, "held")) == ([], ["Hello"])


@rule
async def test_what_is_live_ends_with_its_lease(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.publish([piece(run, 0)])
    await lose(scene, run)
    assert await texts(scene) == []
    [claim] = await scene.claim(worker="w2")
    assert await texts(scene) == []
    await scene.store.publish([piece(claim.run, 0, "Anew")])
    assert await texts(scene, epoch=run.epoch, after=7) == ["Anew"]


@rule
async def test_the_write_of_an_attempts_end_deletes_what_is_live_of_its_call(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.publish([piece(run, 0), piece(run, 1, "other", n=2)])
    with pytest.raises(LeaseLost):
        await scene.append(replace(run, epoch=run.epoch + 1), entry(0), unpublishes=[1])
    assert await texts(scene) == ["Hello", "other"]
    await scene.append(run, entry(0), unpublishes=[1, 7])
    assert await texts(scene) == ["other"]
    await scene.append(run, unpublishes=[2])
    assert await texts(scene) == []


@rule
async def test_nothing_is_live_of_a_run_that_is_paused_or_has_ended(scene: Scene) -> None:
    paused, ended, failed = await scene.run("paused"), await scene.run("ended"), await scene.run("failed")
    await scene.store.publish([piece(paused, 0), piece(ended, 1), piece(failed, 2)])
    assert await scene.pause(paused)
    await scene.complete(ended)
    await scene.complete(failed, KEPT_FAILURE)
    await scene.store.publish([piece(paused, 3), piece(ended, 4), piece(failed, 5)])
    await scene.store.signal("paused", "go", "1")
    await scene.store.retry("failed")
    again = {claim.run.id for claim in await scene.claim()}
    assert again == {"paused", "failed"}
    assert [await texts(scene, id) for id in ("paused", "ended", "failed")] == [[], [], []]


@rule
async def test_of_a_long_text_the_last_part_is_kept(scene: Scene) -> None:
    run = await scene.run()
    size = KEPT_CHARACTERS // 4
    await scene.store.publish([piece(run, 0, "other", n=2)])
    for number in range(8):
        await scene.store.publish([piece(run, number + 1, str(number) * size, position=number * size)])
    assert [text[0] for text in await texts(scene)] == ["o", "3", "4", "5", "6", "7"]


@rule
async def test_the_kept_length_does_not_depend_on_the_order_of_arrival(scene: Scene) -> None:
    far = 2 * KEPT_CHARACTERS
    for number, order in enumerate(((0, 3), (3, 0))):
        run = await scene.run(f"r{number}")
        pieces = {seq: piece(run, seq, str(seq), position=far if seq else 0) for seq in (0, 3)}
        await scene.store.publish([pieces[seq] for seq in order])
        assert await texts(scene, run.id) == ["3"]


@rule
async def test_live_text_that_cannot_be_kept_is_refused(scene: Scene) -> None:
    run = await scene.run()
    for text in ("a\0b", "\ud800"):
        with pytest.raises(InvalidValue):
            await scene.store.publish([piece(run, 0, text)])
    assert await texts(scene) == []


@rule
async def test_live_text_stays_in_its_namespace(scene: Scene) -> None:
    run = await scene.run()
    acme = scene.within("acme")
    await acme.run()
    await scene.store.publish([piece(run, 0)])
    assert (await texts(scene), await texts(acme)) == (["Hello"], [])
