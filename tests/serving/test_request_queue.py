"""RequestQueue: every text once, within the token budget, of similar length, and no request starves."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.serving.request_queue import QueuedRequest, RequestQueue

ENCODER = SimpleNamespace()


def request(*lengths: int, encoder=ENCODER) -> QueuedRequest:
    return QueuedRequest(encoder, [f"{index}" for index in range(len(lengths))], list(lengths))


def queue_of(*requests: QueuedRequest) -> RequestQueue:
    queue = RequestQueue()
    for queued in requests:
        queue.add(queued)
    return queue


length_lists = st.lists(st.lists(st.integers(1, 128), min_size=1, max_size=30), min_size=1, max_size=30)


@settings(deadline=None)
@given(length_lists, st.integers(1, 2_000))
def test_every_text_is_taken_once_within_the_budget(lengths: list[list[int]], budget: int) -> None:
    requests = [request(*text_lengths) for text_lengths in lengths]
    queue = queue_of(*requests)
    assert queue.tokens == sum(map(sum, lengths))
    taken = []
    while queue:
        batch = queue.take(budget)
        assert len(batch.lengths) == 1 or max(batch.lengths) * len(batch.lengths) <= budget
        assert max(batch.lengths) <= 2 * min(batch.lengths) + 16
        taken += [(requests.index(queued), index) for queued, index in batch.items]
    assert sorted(taken) == [(number, index) for number, texts in enumerate(lengths) for index in range(len(texts))]
    assert queue.tokens == 0


@settings(deadline=None)
@given(length_lists, st.integers(64, 2_000), st.integers(1, 128))
def test_request_of_one_text_waits_at_most_one_batch_per_earlier_request(
    lengths: list[list[int]], budget: int, length: int
) -> None:
    queue = queue_of(*(request(*text_lengths) for text_lengths in lengths))
    small = request(length)
    queue.add(small)
    for _ in range(len(lengths) + 1):
        if not small.waiting:
            break
        queue.take(budget)
        queue.add(request(length, length, length, length))  # later requests of the same length do not overtake
    assert not small.waiting


def test_many_short_texts_delay_a_long_one_by_one_batch() -> None:
    short, long = request(*[5] * 1_000), request(128)
    queue = queue_of(short, long)
    assert [queued is short for queued, _ in queue.take(512).items] == [True] * 102
    assert [queued is long for queued, _ in queue.take(512).items] == [True]


def test_batch_has_one_text_per_request_before_a_second_of_any() -> None:
    requests = [request(*[10] * 50), *(request(10) for _ in range(20))]
    batch = queue_of(*requests).take(210)
    assert {id(queued) for queued, _ in batch.items} == {id(queued) for queued in requests}


def test_batch_has_one_encoder() -> None:
    other_encoder = SimpleNamespace()
    queue = queue_of(
        *(request(10, 10, encoder=encoder) for encoder in (ENCODER, other_encoder, ENCODER, other_encoder))
    )
    sizes = []
    while queue:
        batch = queue.take(512)
        assert all(queued.encoder is batch.encoder for queued, _ in batch.items)
        sizes.append(len(batch.items))
    assert sizes == [4, 4]


@settings(deadline=None)
@given(length_lists, st.data())
def test_discarded_request_is_never_taken(lengths: list[list[int]], data: st.DataObject) -> None:
    requests = [request(*text_lengths) for text_lengths in lengths]
    queue = queue_of(*requests)
    discarded = data.draw(st.sampled_from(requests))
    if data.draw(st.booleans()):
        queue.take(100)
    queue.discard(discarded)
    queue.discard(discarded)
    while queue:
        assert all(queued is not discarded for queued, _ in queue.take(100).items)
    assert queue.tokens == 0
