"""Live text in the reference model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from signoff.records import LiveText, RunState
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.testing.model.state import State


class Live:
    """The live text of running steps."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._live = state.tables.live

    def publish(self, namespace: str, pieces: Sequence[LiveText]) -> None:
        newest: dict[tuple[str, int, int, int], int] = {}
        for piece in pieces:
            run = self._state.tables.runs.get((namespace, piece.run_id))
            if run is None or (run.state, run.epoch) != (RunState.RUNNING, piece.epoch):
                continue
            self._add(namespace, piece)
            call = (piece.run_id, piece.epoch, piece.n, piece.attempt)
            newest[call] = max(newest.get(call, 0), piece.position)
        for call, position in newest.items():
            self._drop_farther(namespace, call, position - KEPT_CHARACTERS)

    def _add(self, namespace: str, piece: LiveText) -> None:
        self._state.commit.runs.add((namespace, piece.run_id))
        known = self._live.setdefault((namespace, piece.run_id), [])
        if all((each.epoch, each.seq) != (piece.epoch, piece.seq) for each in known):
            known.append(piece)
            known.sort(key=lambda each: each.seq)
        self._keep(namespace, piece.run_id, lambda each: each.epoch == piece.epoch)

    def _drop_farther(self, namespace: str, call: tuple[str, int, int, int], first: int) -> None:
        run_id, *of = call
        self._keep(
            namespace,
            run_id,
            lambda each: [each.epoch, each.n, each.attempt] != of or each.position >= first,
        )

    def read(self, namespace: str, run_id: str, epoch: int, after: int) -> list[LiveText]:
        run = self._state.tables.runs.get((namespace, run_id))
        if run is None or run.state is not RunState.RUNNING:
            return []
        return [
            each
            for each in self._live.get((namespace, run_id), ())
            if each.epoch == run.epoch and (each.epoch != epoch or each.seq > after)
        ]

    def delete_of_call(self, namespace: str, run_id: str, n: int) -> None:
        self._keep(namespace, run_id, lambda each: each.n != n)

    def delete(self, namespace: str, run_id: str) -> None:
        self._live.pop((namespace, run_id), None)

    def _keep(self, namespace: str, run_id: str, is_kept: Callable[[LiveText], bool]) -> None:
        known = self._live.get((namespace, run_id), [])
        known[:] = filter(is_kept, known)
