"""A lock for threads that take turns."""

from __future__ import annotations

import threading
import time

import pytest

from gridveil.core.threads import Turns


def test_one_thread_at_a_time_has_it():
    turns, inside, most = Turns(), [], []

    def work() -> None:
        for _ in range(50):
            with turns:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 200 and not turns.locked()


def test_whoever_asks_first_has_it_first():
    """A simulation that asks again at once does not keep a release in another tab waiting."""
    turns, order = Turns(), []

    def work(name: str, times: int) -> None:
        for _ in range(times):
            with turns:
                order.append(name)

    threads = []
    with turns:
        for asked, (name, times) in enumerate((("simulation", 3), ("release", 1)), start=2):
            threads.append(threading.Thread(target=work, args=(name, times)))
            threads[-1].start()
            while turns._asked < asked:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == ["simulation", "release", "simulation", "simulation"]


def test_an_exception_lets_it_go():
    turns = Turns()
    with pytest.raises(ValueError, match="inside"), turns:
        assert turns.locked()
        raise ValueError("inside")
    assert not turns.locked()
    with turns:
        pass
