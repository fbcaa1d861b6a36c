"""Which rows meet in which step."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.training.sampler import BatchSampler


def plan(*rows: int, size: int = 4, seed: int = 0, **options) -> BatchSampler:
    lengths = [np.random.default_rng(each).integers(3, 40, each) for each in rows]
    return BatchSampler(lengths, [size] * len(rows), seed, **options)


def listed(batches) -> list[tuple[int, list[int]]]:
    return [(batch.source, batch.rows.tolist()) for batch in batches]


plans = st.builds(
    lambda rows, size, seed, epochs, buckets: plan(*rows, size=size, seed=seed, epochs=epochs, group_by_length=buckets),
    st.lists(st.integers(1, 60), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(0, 5),
    st.sampled_from([0.3, 1, 2, 2.5]),
    st.booleans(),
)


@given(plans, st.data())
@settings(max_examples=60, deadline=None)
def test_a_run_can_go_on_from_any_step(made, draw):
    step = draw.draw(st.integers(0, made.total_steps))
    every = listed(made.from_step(0))
    assert len(every) == made.total_steps
    assert listed(made.from_step(step)) == every[step:]
    assert listed(made.from_step(0)) == every


@given(plans)
@settings(max_examples=60, deadline=None)
def test_every_row_comes_once_an_epoch(made):
    batches = listed(made.from_step(0))
    for start in range(0, made.total_steps - made.steps_per_epoch + 1, made.steps_per_epoch):
        epoch = batches[start : start + made.steps_per_epoch]
        for source, lengths in enumerate(made.lengths):
            rows = sorted(row for each, rows in epoch if each == source for row in rows)
            assert rows == list(range(len(lengths)))


def test_seeds_and_epochs_differ():
    first, second = (listed(plan(40, seed=seed, epochs=2).from_step(0)) for seed in (0, 1))
    assert first != second
    assert first[:10] != first[10:]


def test_lengths_of_a_stage():
    assert plan(41, epochs=1).total_steps == 11
    assert plan(40, epochs=0.5).total_steps == 5
    assert plan(40, epochs=2.5).total_steps == 25
    assert plan(40, epochs=0.0001).total_steps == 1
    assert plan(40, steps=33).total_steps == 33
    assert len(listed(plan(40, steps=33).from_step(0))) == 33


def test_buckets_bring_similar_lengths_together_but_stay_random():
    def spread(made):
        return np.mean([np.ptp(made.lengths[0][batch.rows]) for batch in made.from_step(0)])

    loose, tight = (plan(4000, size=16, epochs=1, group_by_length=buckets) for buckets in (False, True))
    assert spread(tight) < spread(loose) / 10
    means = [loose.lengths[0][batch.rows].mean() for batch in tight.from_step(0)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.2  # short ones do not come first
    epochs = listed(plan(4000, size=16, epochs=2, group_by_length=True).from_step(0))
    neighbors = [{row: frozenset(rows) for _, rows in half for row in rows} for half in (epochs[:250], epochs[250:])]
    met_again = np.mean([len(neighbors[0][row] & neighbors[1][row]) - 1 for row in range(4000)])
    assert met_again < 3  # of 15 neighbors, in four buckets


def test_sources_are_mixed():
    order = [batch.source for batch in plan(400, 400, epochs=1).from_step(0)]
    assert sorted(order) == [0] * 100 + [1] * 100
    assert 60 < sum(a != b for a, b in pairwise(order)) < 140


@pytest.mark.parametrize("world_size", [2, 3])
def test_batches_can_be_shared(world_size):
    made = plan(41, 7, epochs=1, world_size=world_size)
    sizes = [len(batch.rows) for batch in made.from_step(0)]
    assert all(size and size % world_size == 0 for size in sizes)
    assert len(sizes) == made.total_steps


def test_fewer_rows_than_world_size():
    with pytest.raises(UsageError, match="fewer rows than processes"):
        plan(1, epochs=1, world_size=2)
