"""Which datasets a session sees: chosen when it is created, changed at any time after.

What a session's record says is so. Its sandbox, while it has one, sees the same, and is made to see
it again after it was started anew or found again. A session keeps the version it was given, also
when the dataset is uploaded anew or deleted, until the name is attached once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from interpreter.errors import DatasetNotFound, InputsUnavailable, WrongState
from interpreter.orchestrator.session import LiveSession
from interpreter.store import Store
from interpreter.workspace import Datasets, InputFolders

MOST_INPUTS = 100


class SessionInputs:
    """Attaches datasets to sessions, and takes them away."""

    def __init__(
        self,
        datasets: Datasets,
        folders: InputFolders,
        get: Callable[[str], LiveSession],
        all: Callable[[], Iterable[LiveSession]],
        store: Store,
    ) -> None:
        self._datasets = datasets
        self._folders = folders
        self._get = get
        self._all = all
        datasets.in_use = lambda: set(self.users())
        self._store = store

    def choose(self, names: Sequence[str]) -> dict[str, str]:
        """The versions that these names stand for now."""
        if names:
            self._folders.check()
        return {name: self._datasets.get(name).version for name in names}

    def users(self) -> Counter[str]:
        """Version → how many sessions have it."""
        return Counter(v for session in self._all() for v in session.record.inputs.values())

    async def attach(self, session_id: str, name: str) -> LiveSession:
        """Has a session see a dataset as it is now, in place of what it has under that name."""
        self._folders.check()
        async with self._get(session_id).attaching:
            session = await self._created(session_id)
            version = self._datasets.get(name).version
            wanted = {**session.record.inputs, name: version}
            if len(wanted) > MOST_INPUTS:
                raise WrongState(f"A session sees at most {MOST_INPUTS} datasets.", "Detach one first.")
            with self._datasets.pinned(version):
                await self._change(session, wanted)
        await self._datasets.collect()
        return session

    async def detach(self, session_id: str, name: str) -> LiveSession:
        async with self._get(session_id).attaching:
            session = await self._created(session_id)
            if name not in session.record.inputs:
                raise DatasetNotFound(f"This session has no input '{name[:100]}'.")
            await self._change(session, {n: v for n, v in session.record.inputs.items() if n != name})
        await self._datasets.collect()
        return session

    async def _created(self, session_id: str) -> LiveSession:
        """The session, if it is still there by now, and neither being created nor found again."""
        self._store.condition.check()
        session = self._get(session_id)
        session.check_here()
        await session.created.wait()
        return session

    async def _change(self, session: LiveSession, wanted: dict[str, str]) -> None:
        while True:
            live = session.live
            if live is not None:
                try:
                    await live.see(wanted)
                except InputsUnavailable:
                    if session.live is live:
                        raise
            if session.live is live and session.created.is_set():
                break
            await session.created.wait()  # it has got another sandbox meanwhile, or none
        await session.stored(session.update(inputs=wanted))
