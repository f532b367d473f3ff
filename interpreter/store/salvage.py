"""Reading a damaged table: everything but what is on the damaged pages.

A query that comes to a damaged page fails, and nothing behind it is read. So the rows are asked for
by their keys: from the last row that could be read the next readable key is looked for, first in
steps that double, and then what lies between is halved until every key that can be had is there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

LARGEST = 2**62
MOST_QUERIES = 200_000
"""After which the rest of what does not answer is given up."""
NEARBY = 10_000
"""Keys that are tried one by one when nothing behind them answers."""

Row = tuple[Any, ...]
Broken = tuple[int, int]
"""The first and the last of keys that cannot be read."""


class Salvage:
    """The rows of one table that can be read, in the order of their keys."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        key: str,
        whole: Callable[[Row], bool] = lambda row: True,
    ) -> None:
        self.broken: list[Broken] = []
        self.unreadable = 0
        """Rows that are there, but with something in them that was not written so."""
        self._connection = connection
        self._table, self._key = table, key
        self._whole = whole
        self._queries = 0
        described = connection.execute(f"PRAGMA table_info({table})").fetchall()
        self.columns: Sequence[str] = [column[1] for column in described]
        self._place = self.columns.index(key)

    def rows(self) -> Iterator[Row]:
        first: int | None = -LARGEST
        while first is not None:
            last = yield from self._read(first, LARGEST)
            if last is None:
                return
            # Reading stopped behind the row `last`.
            after = max(last + 1, 0)
            first = self._next_readable(after)
            if first is not None:
                yield from self._halve(after, first - 1)
            else:
                # There may still be something that the steps went past.
                yield from self._halve(after, after + NEARBY)
                self._add_broken(after + NEARBY + 1, LARGEST)

    def lost(self, indexes: Sequence[str]) -> int | None:
        """How many rows were lost, as far as an index still knows of them; None if none does."""
        if not self.broken:
            return self.unreadable
        known: set[int] | None = None
        for index in indexes:
            for order in ("ASC", "DESC"):
                for key in self._keys(index, order):
                    known = set() if known is None else known
                    if any(first <= key <= last for first, last in self.broken):
                        known.add(key)
        return None if known is None else len(known) + self.unreadable

    # -- asking

    def _ask(self, first: int, last: int, limit: int) -> Iterator[Row]:
        self._queries += 1
        query = f"SELECT * FROM {self._table} WHERE {self._key} BETWEEN ? AND ? ORDER BY {self._key}"
        yield from self._connection.execute(f"{query} LIMIT ?", (first, last, limit))

    def _read(self, first: int, last: int) -> Generator[Row, None, int | None]:
        """Yields rows as long as that works; returns the last key if it stopped, else None."""
        at = first - 1
        try:
            for row in self._ask(first, last, -1):
                if not at < row[self._place] <= last:
                    return at  # damage can make a circle of a tree
                at = row[self._place]
                if self._whole(row):
                    yield row
                else:
                    self.unreadable += 1
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return at
        return None

    def _answers(self, key: int) -> bool:
        try:
            for _ in self._ask(key, LARGEST, 1):
                pass
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return False
        return True

    def _next_readable(self, bad: int) -> int | None:
        """A key behind `bad` from which reading works again; None if there is none."""
        step = 1
        while bad + step < LARGEST:
            if self._answers(bad + step):
                return bad + step
            step *= 2
        return None

    def _halve(self, first: int, last: int) -> Iterator[Row]:
        """The rows between two keys that can be had, one by one if it must be."""
        todo = [(first, last)]
        while todo:
            low, high = todo.pop()
            if low > high:
                continue
            stopped = yield from self._read(low, high)
            if stopped is None:
                continue
            low = max(low, stopped + 1)
            if low == high or self._queries > MOST_QUERIES:
                self._add_broken(low, high)
                continue
            middle = (low + high) // 2
            todo += [(middle + 1, high), (low, middle)]

    def _add_broken(self, first: int, last: int) -> None:
        if self.broken and self.broken[-1][1] + 1 == first:
            first = self.broken.pop()[0]
        self.broken.append((first, last))

    def _keys(self, index: str, order: str) -> Iterator[int]:
        columns = self._connection.execute(f"PRAGMA index_info({index})").fetchall()
        by = ", ".join(f"{name} {order}" for _, _, name in columns if name)
        query = f"SELECT {self._key} FROM {self._table} INDEXED BY {index} ORDER BY {by}"
        try:
            for (key,) in self._connection.execute(query):
                yield key
        except sqlite3.DatabaseError:
            return
