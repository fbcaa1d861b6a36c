"""Batch sampler: exact resume, epochs, length grouping, sources, ranks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.training.sampler import BatchSampler


def sampler(*rows: int, size: int = 4, seed: int = 0, **options) -> BatchSampler:
    lengths = [np.random.default_rng(count).integers(3, 40, count) for count in rows]
    return BatchSampler(lengths, [size] * len(rows), seed, **options)


def as_lists(batches) -> list[tuple[int, list[int]]]:
    return [(batch.source, batch.rows.tolist()) for batch in batches]


samplers = st.builds(
    lambda rows, size, seed, epochs, buckets: sampler(
        *rows, size=size, seed=seed, epochs=epochs, group_by_length=buckets
    ),
    st.lists(st.integers(1, 60), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(0, 5),
    st.sampled_from([0.3, 1, 2, 2.5]),
    st.booleans(),
)


@given(samplers, st.data())
@settings(max_examples=60, deadline=None)
def test_batches_from_any_step_are_the_same(batch_sampler, data):
    step = data.draw(st.integers(0, batch_sampler.total_steps))
    batches = as_lists(batch_sampler.from_step(0))
    assert len(batches) == batch_sampler.total_steps
    assert as_lists(batch_sampler.from_step(step)) == batches[step:]
    assert as_lists(batch_sampler.from_step(0)) == batches


@given(samplers)
@settings(max_examples=60, deadline=None)
def test_every_row_occurs_once_per_epoch(batch_sampler):
    batches = as_lists(batch_sampler.from_step(0))
    for start in range(0, batch_sampler.total_steps - batch_sampler.steps_per_epoch + 1, batch_sampler.steps_per_epoch):
        epoch = batches[start : start + batch_sampler.steps_per_epoch]
        for source, lengths in enumerate(batch_sampler.lengths):
            rows = sorted(row for batch_source, rows in epoch if batch_source == source for row in rows)
            assert rows == list(range(len(lengths)))


def test_seeds_and_epochs_give_different_batches():
    first, second = (as_lists(sampler(40, seed=seed, epochs=2).from_step(0)) for seed in (0, 1))
    assert first != second
    assert first[:10] != first[10:]


def test_total_steps_from_epochs_or_steps():
    assert sampler(41, epochs=1).total_steps == 11
    assert sampler(40, epochs=0.5).total_steps == 5
    assert sampler(40, epochs=2.5).total_steps == 25
    assert sampler(40, epochs=0.0001).total_steps == 1
    assert sampler(40, steps=33).total_steps == 33
    assert len(as_lists(sampler(40, steps=33).from_step(0))) == 33


def test_group_by_length_gives_similar_lengths_in_random_order():
    def spread(batch_sampler):
        return np.mean([np.ptp(batch_sampler.lengths[0][batch.rows]) for batch in batch_sampler.from_step(0)])

    random_batches, grouped = (sampler(4000, size=16, epochs=1, group_by_length=buckets) for buckets in (False, True))
    assert spread(grouped) < spread(random_batches) / 10
    means = [random_batches.lengths[0][batch.rows].mean() for batch in grouped.from_step(0)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.2  # short batches do not come first
    epochs = as_lists(sampler(4000, size=16, epochs=2, group_by_length=True).from_step(0))
    neighbors = [{row: frozenset(rows) for _, rows in half for row in rows} for half in (epochs[:250], epochs[250:])]
    met_again = np.mean([len(neighbors[0][row] & neighbors[1][row]) - 1 for row in range(4000)])
    assert met_again < 3  # of 15 neighbors, in four buckets


def test_sources_are_mixed():
    order = [batch.source for batch in sampler(400, 400, epochs=1).from_step(0)]
    assert sorted(order) == [0] * 100 + [1] * 100
    assert 60 < sum(a != b for a, b in pairwise(order)) < 140


@pytest.mark.parametrize("world_size", [2, 3])
def test_batches_are_multiples_of_the_world_size(world_size):
    batch_sampler = sampler(41, 7, epochs=1, world_size=world_size)
    sizes = [len(batch.rows) for batch in batch_sampler.from_step(0)]
    assert all(size and size % world_size == 0 for size in sizes)
    assert len(sizes) == batch_sampler.total_steps


def test_fewer_rows_than_processes_are_a_usage_error():
    with pytest.raises(UsageError, match="fewer rows than processes"):
        sampler(1, epochs=1, world_size=2)


def distinct(columns, size, seed=0, world_size=1, epochs=2) -> BatchSampler:
    columns = [np.asarray(column) for column in columns]
    lengths = [np.ones(len(columns[0]), np.int64)]
    return BatchSampler(lengths, [size], seed, epochs=epochs, no_duplicates=[columns], world_size=world_size)


def shared_texts(columns, rows) -> int:
    texts = [{int(column[row]) for column in columns} for row in rows]
    return sum(map(len, texts)) - len(set().union(*texts))


tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 12), min_size=width, max_size=width), min_size=3, max_size=60)
)


@given(tables, st.integers(1, 9), st.integers(0, 5), st.sampled_from([1, 2, 3]))
@settings(max_examples=100, deadline=None)
def test_no_duplicates_in_any_batch_and_every_row_at_most_once(table, size, seed, world_size):
    columns = np.array(table).T
    try:
        batch_sampler = distinct(columns, size, seed, world_size)
        batches = list(batch_sampler.from_step(0))
    except UsageError:  # fewer rows than processes, or a text that is in most rows
        assume(False)
    assert len(batches) == batch_sampler.total_steps
    assert all(0 < len(batch.rows) <= size and len(batch.rows) % world_size == 0 for batch in batches)
    assert all(shared_texts(columns, batch.rows) == 0 for batch in batches)
    for epoch in (batches[: batch_sampler.steps_per_epoch], batches[batch_sampler.steps_per_epoch :]):
        rows = [row for batch in epoch for row in batch.rows]
        assert len(rows) == len(set(rows))
    half = len(batches) // 2
    assert as_lists(batch_sampler.from_step(half)) == as_lists(batches)[half:]


def test_no_duplicates_keeps_all_rows_where_that_is_possible():
    """As the NLI triplets in both directions: every anchor twice, some sentences often."""
    generator = np.random.default_rng(0)
    anchors, positives = generator.permutation(6_000).reshape(2, -1)
    positives[:40] = positives[0]  # in 80 of 94 batches
    negatives = generator.integers(6_000, 6_300, len(anchors))
    columns = [np.append(anchors, positives), np.append(positives, anchors), np.append(negatives, negatives)]
    batch_sampler = distinct(columns, 64)
    assert batch_sampler.steps_per_epoch == 94
    batches = list(batch_sampler.from_step(0))
    assert sorted(len(batch.rows) for batch in batches[:94]) == [48] + [64] * 93
    assert not any(shared_texts(columns, batch.rows) for batch in batches)
    first, second = as_lists(batches[:94]), as_lists(batches[94:])
    assert first != second
    assert first == as_lists(distinct(columns, 64, epochs=1).from_step(0))
    partners = {frozenset(rows) for _, rows in first} & {frozenset(rows) for _, rows in second}
    assert not partners


def test_no_duplicates_leaves_out_rows_of_a_text_that_is_in_too_many():
    columns = [np.arange(100), np.r_[np.full(30, 1_000), np.arange(200, 270)]]
    batch_sampler = distinct(columns, 8)  # 13 batches for 30 rows of one text
    for batches in (list(batch_sampler.from_step(0))[:13], list(batch_sampler.from_step(13))):
        rows = np.concatenate([batch.rows for batch in batches])
        assert sorted(rows[rows >= 30]) == list(range(30, 100))
        assert len(rows[rows < 30]) == 13


def test_no_duplicates_with_several_sources():
    columns = [[np.arange(40) % 20], [np.arange(60) // 3, np.arange(60) + 100]]
    lengths = [np.ones(40, np.int64), np.ones(60, np.int64)]
    batch_sampler = BatchSampler(lengths, [4, 5], 0, epochs=1, no_duplicates=columns)
    batches = list(batch_sampler.from_step(0))
    assert [sum(batch.source == source for batch in batches) for source in (0, 1)] == [10, 12]
    assert sum(len(batch.rows) for batch in batches) == 100
    assert not any(shared_texts(columns[batch.source], batch.rows) for batch in batches)
