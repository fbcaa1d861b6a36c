"""Which texts go together: every text once, within the budget, of similar length, and nobody waits for ever."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.serving.request_queue import Job, RequestQueue

MODEL = SimpleNamespace()


def job(*lengths: int, model=MODEL) -> Job:
    return Job(model, [f"{place}" for place in range(len(lengths))], list(lengths))


requests = st.lists(st.lists(st.integers(1, 128), min_size=1, max_size=30), min_size=1, max_size=30)


@settings(deadline=None)
@given(requests, st.integers(1, 2_000))
def test_every_text_once_and_within_the_budget(lengths: list[list[int]], budget: int) -> None:
    waiting = RequestQueue()
    jobs = [job(*each) for each in lengths]
    for each in jobs:
        waiting.add(each)
    assert waiting.tokens == sum(map(sum, lengths))
    taken = []
    while waiting:
        batch = waiting.take(budget)
        sizes = batch.lengths
        assert len(sizes) == 1 or max(sizes) * len(sizes) <= budget
        assert max(sizes) <= 2 * min(sizes) + 16
        taken += [(jobs.index(each), place) for each, place in batch.places]
    assert sorted(taken) == [(number, place) for number, each in enumerate(lengths) for place in range(len(each))]
    assert waiting.tokens == 0


@settings(deadline=None)
@given(requests, st.integers(64, 2_000), st.integers(1, 128))
def test_nobody_waits_longer_than_those_before_take(lengths: list[list[int]], budget: int, own: int) -> None:
    """A request of one text is served within as many batches as there are requests before it, whatever comes after."""
    waiting = RequestQueue()
    for each in lengths:
        waiting.add(job(*each))
    small = job(own)
    waiting.add(small)
    for _ in range(len(lengths) + 1):
        if not small.left:
            break
        waiting.take(budget)
        waiting.add(job(own, own, own, own))  # newcomers of the same length go behind
    assert not small.left


def test_many_short_texts_do_not_hold_up_one_long() -> None:
    waiting = RequestQueue()
    short, long = job(*[5] * 1_000), job(128)
    waiting.add(short)
    waiting.add(long)
    assert [each is short for each, _ in waiting.take(512).places] == [True] * 102
    assert [each is long for each, _ in waiting.take(512).places] == [True]


def test_one_of_each_request_before_a_second_of_any() -> None:
    waiting = RequestQueue()
    jobs = [job(*[10] * 50), *(job(10) for _ in range(20))]
    for each in jobs:
        waiting.add(each)
    first = waiting.take(210)
    assert {id(each) for each, _ in first.places} == {id(each) for each in jobs}


def test_batches_are_of_one_model() -> None:
    waiting = RequestQueue()
    other = SimpleNamespace()
    for model in (MODEL, other, MODEL, other):
        waiting.add(job(10, 10, model=model))
    seen = []
    while waiting:
        batch = waiting.take(512)
        assert all(each.model is batch.model for each, _ in batch.places)
        seen.append(len(batch.places))
    assert seen == [4, 4]


@settings(deadline=None)
@given(requests, st.data())
def test_what_is_discarded_is_never_taken(lengths: list[list[int]], data: st.DataObject) -> None:
    waiting = RequestQueue()
    jobs = [job(*each) for each in lengths]
    for each in jobs:
        waiting.add(each)
    gone = data.draw(st.sampled_from(jobs))
    if data.draw(st.booleans()):
        waiting.take(100)
    waiting.discard(gone)
    waiting.discard(gone)
    while waiting:
        assert all(each is not gone for each, _ in waiting.take(100).places)
    assert waiting.tokens == 0
