"""Batches of similar length: what they hold, and that any place can be gone on from."""

import json
import random

import pytest
import torch
from feedline import DataLoader, LengthBatches, Text, TokenBatches

LENGTHS = random.Random(3).choices(range(61), k=203)


def kinds(**options):
    return [
        LengthBatches(LENGTHS, 8, bucket=5, **options),
        TokenBatches(LENGTHS, 200, bucket=40, **options),
        TokenBatches(LENGTHS, 200, bucket=40, padded=False, max_samples=6, **options),
    ]


def test_every_sample_comes_once_in_an_epoch():
    for batches in kinds():
        for _ in range(2):
            count = len(batches)  # of the epoch to come: later ones may have more
            given = list(batches)
            assert sorted(sample for batch in given for sample in batch) == list(range(len(LENGTHS)))
            assert len(given) == count


def test_batches_are_as_large_as_they_may_be():
    length, padded, summed = (list(batches) for batches in kinds())
    assert sorted(map(len, length))[1:] == [8] * 25
    assert all(max(LENGTHS[sample] for sample in batch) * len(batch) <= 200 for batch in padded)
    assert all(sum(LENGTHS[sample] for sample in batch) <= 200 and len(batch) <= 6 for batch in summed)
    dropped = LengthBatches(LENGTHS, 8, drop_last=True)
    assert len(dropped) == len(LENGTHS) // 8
    assert all(len(batch) == 8 for batch in dropped)


def test_lengths_of_a_batch_are_similar():
    def spread(batches):
        return sum(
            max(LENGTHS[sample] for sample in batch) * len(batch) - sum(LENGTHS[sample] for sample in batch)
            for batch in batches
        )

    assert spread(LengthBatches(LENGTHS, 8, bucket=50)) < spread(LengthBatches(LENGTHS, 8, bucket=1)) / 3


def test_an_epoch_depends_on_the_seed_and_its_number_alone():
    for one, other in zip(kinds(seed=4), kinds(seed=4), strict=True):
        epochs = [list(one) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        other.set_epoch(2)
        assert list(other) == epochs[2]
        other.set_epoch(0)
        assert list(other) == epochs[0]
        assert list(other) == epochs[1]
    assert list(kinds(seed=4)[0]) != list(kinds(seed=5)[0])
    assert list(kinds(shuffle=False)[0]) == list(kinds(shuffle=False, seed=9)[0])


def test_every_place_can_be_gone_on_from():
    for number in range(3):
        whole = kinds(seed=1)[number]
        epochs = [list(whole), list(whole), list(whole)]
        for place in range(len(epochs[1]) + 1):
            first = kinds(seed=1)[number]
            list(first)
            batches = iter(first)
            for _ in range(place):
                next(batches)
            state = json.loads(json.dumps(first.state_dict()))
            second = kinds(seed=1)[number]
            second.load_state_dict(state)
            second.set_epoch(state["epoch"])  # as training loops do, also after a resume
            rest = list(second)
            if place == len(epochs[1]):
                assert rest == epochs[2]
            else:
                assert rest == epochs[1][place:]
                assert list(second) == epochs[2]


def test_an_epoch_that_was_left_is_not_gone_on_with():
    whole = kinds()[0]
    epochs = [list(whole), list(whole)]
    left = kinds()[0]
    next(iter(left))
    begun = iter(left)
    assert left.state_dict()["epoch"] == 1
    assert list(begun) == epochs[1]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader_of", [DataLoader, torch.utils.data.DataLoader])
def test_loaders_take_them(loader_of, workers):
    text = Text.tokens([[1] * length for length in LENGTHS], range(len(LENGTHS)))
    assert text.lengths() == LENGTHS
    for batches, reference in zip(kinds(), kinds(), strict=True):
        loader = loader_of(text, batch_sampler=batches, num_workers=workers, collate_fn=text.collate)
        for _ in range(2):
            given = [labels.tolist() for _, labels in loader]
            assert given == list(reference)


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("number", [0, 1])
def test_the_loaders_state_has_their_place(number, workers):
    text = Text.strings(["a " * length for length in LENGTHS], range(len(LENGTHS))).tokenize(9)

    def loader(workers):
        return DataLoader(text, batch_sampler=kinds(seed=1)[number], num_workers=workers)

    def labels(batches):
        return [found.tolist() for _, found in batches]

    whole = loader(workers)
    epochs = [labels(whole) for _ in range(3)]
    for place in range(0, len(epochs[1]) + 1):
        first = loader(workers)
        list(first)
        batches = iter(first)
        for _ in range(place):
            next(batches)
        state = json.loads(json.dumps(first.state_dict()))
        second = loader(0 if workers else 2)
        second.load_state_dict(state)
        assert labels(second) == epochs[1][place:]
        assert labels(second) == epochs[2]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="sample 1 has 7 tokens, more than a batch may have"):
        TokenBatches([3, 7], 5)
    with pytest.raises(ValueError, match="batch_size is 0"):
        LengthBatches([3], 0)
    with pytest.raises(ValueError, match="max_samples is 0"):
        TokenBatches([3], 5, max_samples=0)
    with pytest.raises(ValueError, match="a bucket of 0"):
        TokenBatches([3], 5, bucket=0)
    with pytest.raises(ValueError, match="the state is of samples 203, and this is of 1"):
        LengthBatches([3], 1).load_state_dict(kinds()[0].state_dict())
    assert list(LengthBatches([], 4)) == []
