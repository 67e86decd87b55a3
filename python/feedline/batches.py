"""Batches of samples that belong together: for ``batch_sampler=``, also torch's.

Those of similar length, so that little of a batch is padding; or those of few groups, each expensive to load.
An epoch is a pure function of (seed, epoch).

>>> batches = LengthBatches([3, 9, 2, 8, 7, 1], batch_size=2, shuffle=False)
>>> list(batches)
[[5, 2], [0, 4], [3, 1]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from feedline import _engine


class Batches:
    """What all kinds share: epochs, and a place in them."""

    def __init__(self, samples: int, shuffle: bool, seed: int) -> None:
        """Of so many samples."""
        self.samples, self.shuffle, self.seed = samples, shuffle, seed
        #: The epoch that was begun last, or is to be begun first.
        self.epoch = 0
        self._given = 0
        # Whether the next iterator begins the epoch after that: not if it is the first, or goes on from a state.
        self._is_begun = False
        # Whether an iterator was asked for that has not given anything yet: several may be, and one is used.
        self._is_asked = False
        self._arranged: dict[int, list[list[int]]] = {}

    def batches(self, epoch: int) -> list[list[int]]:
        """All batches of an epoch, in order."""
        if epoch in self._arranged:
            return self._arranged[epoch]
        made = self._arrange(epoch)
        # One may be asked about while another is under way.
        self._arranged = {epoch: made, **{old: self._arranged[old] for old in list(self._arranged)[:1]}}
        return made

    def _arrange(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch."""
        raise NotImplementedError

    def _order(self, count: int, epoch: int, what: int = 0) -> list[int]:
        """So many things in an order of the epoch's, another for each `what`; as they are, if nothing is shuffled."""
        if not self.shuffle:
            return list(range(count))
        seed = self.seed if what == 0 else _engine.sample_seed(self.seed, epoch, what - 1)
        return _engine.shuffled(count, seed, epoch)

    def _next(self) -> tuple[int, int]:
        """The epoch that an iterator begins or goes on with, and how many of its batches are given already."""
        if self._is_begun or (self._given and self._given >= len(self.batches(self.epoch))):
            return self.epoch + 1, 0
        return self.epoch, self._given

    def __len__(self) -> int:
        """How many batches the epoch has that is under way; between two, the one that comes next."""
        batches = self.batches(self.epoch)
        if self._is_begun and (self._is_asked or self._given >= len(batches)):
            return len(self.batches(self.epoch + 1))
        return len(batches)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch: of the next one, unless `set_epoch` or a state said which."""
        self._is_asked = True
        return self._give()

    def _give(self) -> Iterator[list[int]]:
        self.epoch, place = self._next()
        self._is_begun, self._is_asked, self._given = True, False, place
        for batch in self.batches(self.epoch)[place:]:
            place += 1
            self._given = place
            yield list(batch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iterator begin this epoch; or go on with it, if a state of it was loaded."""
        if self._is_begun or epoch != self.epoch:
            self.epoch, self._given, self._is_begun = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and how many of its batches were given."""
        epoch, given = self._next() if self._is_asked else (self.epoch, self._given)
        return {"seed": self.seed, "samples": self.samples, "epoch": epoch, "given": given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iterator go on from there."""
        for name, own in (("seed", self.seed), ("samples", self.samples)):
            if state[name] != own:
                raise ValueError(f"the state is of {name} {state[name]}, and this is of {own}")
        self.epoch, self._given, self._is_begun = int(state["epoch"]), int(state["given"]), False


class Sorted(Batches):
    """Samples are shuffled, cut into buckets, sorted by length within each, cut into batches, which are shuffled.

    So batches are different in every epoch, and so is their order.
    """

    def __init__(self, lengths: Iterable[int], bucket: int, shuffle: bool, seed: int) -> None:
        """Take the length of every sample."""
        self.lengths = [int(length) for length in lengths]
        super().__init__(len(self.lengths), shuffle, seed)
        if bucket < 1:
            raise ValueError(f"a bucket of {bucket} samples: it should have at least 1")
        self.bucket = bucket

    def _cut(self, bucket: list[int]) -> list[list[int]]:
        """Batches of samples that are sorted by length."""
        raise NotImplementedError

    def _arrange(self, epoch: int) -> list[list[int]]:
        order = self._order(self.samples, epoch)
        made: list[list[int]] = []
        for start in range(0, self.samples, self.bucket):
            bucket = order[start : start + self.bucket]
            bucket.sort(key=self.lengths.__getitem__)
            made += self._cut(bucket)
        return [made[place] for place in self._order(len(made), epoch, 1)]


class LengthBatches(Sorted):
    """Batches of so many samples, of similar length.

    Args:
        lengths: the length of every sample, for example `feedline.Text.lengths`.
        batch_size: how many samples a batch has.
        bucket: so many batches are sorted by length together: more have less padding, fewer are more random.
        shuffle: whether every epoch is in another order.
        seed: which order.
        drop_last: whether a batch that is too short is left out.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        batch_size: int,
        *,
        bucket: int = 50,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        """Take the length of every sample."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        super().__init__(lengths, bucket * batch_size, shuffle, seed)
        self.batch_size, self.drop_last = batch_size, drop_last

    def _cut(self, bucket: list[int]) -> list[list[int]]:
        size = self.batch_size
        made = [bucket[start : start + size] for start in range(0, len(bucket), size)]
        if self.drop_last and made and len(made[-1]) < size:
            made.pop()
        return made


class TokenBatches(Sorted):
    """Batches of as many samples, of similar length, as have no more than so many tokens.

    How many batches there are may differ from epoch to epoch.

    Args:
        lengths: the length of every sample, for example `feedline.Text.lengths`.
        max_tokens: how many tokens a batch may have.
        padded: whether padding counts: the longest times the number of samples; else the sum of the lengths.
        max_samples: how many samples a batch may have, if that is bounded as well.
        bucket: so many samples are sorted by length together: more have less padding, fewer are more random.
        shuffle: whether every epoch is in another order.
        seed: which order.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        max_tokens: int,
        *,
        padded: bool = True,
        max_samples: int | None = None,
        bucket: int = 5000,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        """Take the length of every sample."""
        super().__init__(lengths, bucket, shuffle, seed)
        if max_samples is not None and max_samples < 1:
            raise ValueError(f"max_samples is {max_samples}; it must be at least 1")
        self.max_tokens, self.padded, self.max_samples = max_tokens, padded, max_samples
        for sample, length in enumerate(self.lengths):
            if length > max_tokens:
                raise ValueError(
                    f"sample {sample} has {length} tokens, more than a batch may have ({max_tokens}); truncate it"
                )

    def _cut(self, bucket: list[int]) -> list[list[int]]:
        made: list[list[int]] = []
        batch: list[int] = []
        total = 0
        for sample in bucket:
            length = self.lengths[sample]
            # Sorted: this one is the longest so far.
            tokens = length * (len(batch) + 1) if self.padded else total + length
            if batch and (tokens > self.max_tokens or len(batch) == self.max_samples):
                made.append(batch)
                batch, total = [], 0
            batch.append(sample)
            total += length
        return [*made, batch] if batch else made


class GroupBatches(Batches):
    """Batches of samples of few groups at a time, so that each group is loaded once and needed for a short while.

    Groups are shuffled, some are taken together, and their samples are shuffled.

    >>> batches = GroupBatches([0, 0, 0, 1, 1, 1], batch_size=2, shuffle=False)
    >>> list(batches)
    [[0, 1], [2, 3], [4, 5]]

    Args:
        groups: the group of every sample, for example `feedline.Volumes.groups`.
        batch_size: how many samples a batch has.
        together: the samples of so many groups are mixed: more are more random, fewer need less memory.
        shuffle: whether every epoch is in another order.
        seed: which order.
        drop_last: whether the last batch is left out if it is too short.
    """

    def __init__(
        self,
        groups: Iterable[int],
        batch_size: int,
        *,
        together: int = 4,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        """Take the group of every sample."""
        members: dict[int, list[int]] = {}
        for sample, group in enumerate(groups):
            members.setdefault(int(group), []).append(sample)
        super().__init__(sum(map(len, members.values())), shuffle, seed)
        for what, number in (("batch_size", batch_size), ("together", together)):
            if number < 1:
                raise ValueError(f"{what} is {number}; it must be at least 1")
        self.batch_size, self.together, self.drop_last = batch_size, together, drop_last
        self._members = list(members.values())

    def _arrange(self, epoch: int) -> list[list[int]]:
        groups, order = self._order(len(self._members), epoch), []
        for start in range(0, len(groups), self.together):
            mixed = [
                sample for group in groups[start : start + self.together] for sample in self._members[group]
            ]
            order += [mixed[place] for place in self._order(len(mixed), epoch, 1 + start)]
        size = self.batch_size
        made = [order[start : start + size] for start in range(0, len(order), size)]
        if self.drop_last and made and len(made[-1]) < size:
            made.pop()
        return made
