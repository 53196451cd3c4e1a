"""The deterministic interleaver of threads."""

import itertools
import threading

import pytest

from capturegate.interleave import CooperativeLock, Interleaver, Stuck


class Counter:
    """Counts in two steps, so that an update can be lost between them."""

    def __init__(self, lock):
        self.lock = lock
        self.total = 0

    def add(self):
        with self.lock:
            seen = self.total
            self.total = seen + 1


class NoLock:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def counted(seed, lock=None, one_in=3):
    interleaver = Interleaver(seed, frozenset({__file__}), one_in=one_in)
    counter = Counter(lock or CooperativeLock(interleaver))
    order = []

    def job(number):
        for _ in range(5):
            counter.add()
            order.append(number)

    failures = interleaver.run([lambda n=n: job(n) for n in range(4)])
    assert failures == [None] * 4
    return counter.total, tuple(order), interleaver.switches


def test_with_a_lock_no_update_is_lost():
    assert [counted(seed)[0] for seed in range(5)] == [20] * 5


def test_without_a_lock_updates_are_lost():
    assert all(counted(seed, NoLock())[0] < 20 for seed in range(5))


def test_the_same_seed_gives_the_same_order_and_another_one_another():
    assert counted(3) == counted(3)
    assert len({counted(seed)[1] for seed in range(5)}) == 5


def test_a_thread_loses_its_turn_in_watched_files_only():
    interleaver = Interleaver(0, frozenset({"elsewhere.py"}))
    order = []

    def job(number):
        for _ in range(50):
            order.append(number)

    interleaver.run([lambda n=n: job(n) for n in range(3)])
    assert len(set(itertools.pairwise(order))) == 5  # three runs, two seams
    assert len(order) == 150


def test_what_a_job_raises_is_told_and_the_others_go_on():
    done = []

    def fails():
        raise ValueError("as planned")

    failures = Interleaver(0, frozenset({__file__})).run([fails, lambda: done.append(1)])
    assert (repr(failures[0]), failures[1], done) == ("ValueError('as planned')", None, [1])


def test_threads_that_wait_for_each_other_are_told_apart_from_slow_ones():
    interleaver = Interleaver(0, frozenset({__file__}), one_in=1)
    first, second = CooperativeLock(interleaver), CooperativeLock(interleaver)

    def forwards():
        with first, second:
            pass

    def backwards():
        with second, first:
            pass

    failures = interleaver.run([forwards, backwards])
    assert any(isinstance(failure, Stuck) for failure in failures)


def test_locks_that_are_built_meanwhile_are_the_interleavers():
    interleaver = Interleaver(0, frozenset())
    former = threading.Lock
    with interleaver.locks():
        assert isinstance(threading.Lock(), CooperativeLock)
    assert threading.Lock is former
    lock = CooperativeLock(interleaver)
    lock.acquire()
    with pytest.raises(Stuck):
        lock.acquire()


def test_a_lock_that_is_never_given_back_ends_those_who_wait_for_it():
    interleaver = Interleaver(0, frozenset({__file__}), one_in=1)
    lock = CooperativeLock(interleaver)
    failures = interleaver.run([lock.acquire, lock.acquire, lock.acquire])
    assert [type(failure) for failure in failures].count(Stuck) == 2


def test_no_jobs_are_no_work():
    assert Interleaver(0, frozenset()).run([]) == []
