"""What threads leave for one that waits for processes too."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Inbox(Generic[Thing]):
    """Things for one taker, and a bell that can be waited for as connections and processes can."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[Thing] = []
        self._open = True
        self.bell, self._rope = multiprocessing.Pipe(duplex=False)

    def put(self, thing: Thing) -> None:
        """Leave something, from any thread; once the taker is gone, it is dropped."""
        with self._lock:
            if self._open:
                self._left.append(thing)
                if len(self._left) == 1:  # one ring for all that is taken at once: a full pipe would hold up the thread
                    self._rope.send_bytes(b"!")

    def take(self) -> list[Thing]:
        """All that was left since the last time."""
        with self._lock:
            if self._left:
                self.bell.recv_bytes()
            found, self._left = self._left, []
            return found

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self._open = False
            self.bell.close()
            self._rope.close()
