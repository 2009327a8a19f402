"""Weights in blocks, for linear models that are too large to be sent to every processor.

The weights of a class are divided into blocks of neighbouring columns, and the intercept is the
last block. The key of a block is a number: the code of the class times the number of its blocks,
plus the place of the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vertexsdk import RowsState, StateElement, VertexError
from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows, SparseRows, shape


class Overshoot(VertexError):
    """A pass raised the objective above its bound; the weights stay what they were."""


class Layout(NamedTuple):
    """Division of the weights of a class into blocks.

    Attributes:
        width: the number of columns.
        size: the number of weights in a block; the last one may have fewer.

    >>> Layout(10, 4).blocks, Layout(10, 4).key(2, 1), Layout(10, 4).length(2)
    (4, 9, 2)
    """

    width: int
    size: int

    @property
    def blocks(self) -> int:
        """The number of blocks of a class, the last of which has the intercept."""
        return -(-self.width // self.size) + 1

    def key(self, code: int, block: int) -> int:
        """Return the key of a block of a class, whose code is -1 without classes."""
        return max(code, 0) * self.blocks + block

    def length(self, block: int) -> int:
        """Return how many weights a block has."""
        return 1 if block == self.blocks - 1 else min(self.size, self.width - block * self.size)


def blocks_of(rows: Rows, size: int) -> Ints:
    """Return the blocks that rows have columns in, ascending.

    >>> blocks_of(np.ones((1, 5)), 2).tolist()
    [0, 1, 2]
    """
    if isinstance(rows, SparseRows):
        return np.unique(rows.indices // size).astype(np.int64)
    return np.arange(-(-shape(rows)[1] // size))


def on_blocks(rows: Rows, blocks: Ints, layout: Layout) -> Rows:
    """Return rows that have the columns of these blocks alone, one block after the other.

    Args:
        rows: dense rows, of which these are all blocks, or sparse rows.
        blocks: at least those that `blocks_of` returns.
        layout: the layout of the columns.
    """
    if not isinstance(rows, SparseRows):
        return rows
    places = np.searchsorted(blocks, rows.indices // layout.size)
    columns = (places * layout.size + rows.indices % layout.size).astype(np.int32)
    return rows._replace(indices=columns, dimension=sum(map(layout.length, blocks.tolist())))


class WeightsState(RowsState):
    """Blocks of weights; the row of one is (float64 weights as bytes, decay).

    Regularisation makes all weights smaller in each pass, also those of blocks that no instance of
    the sample touches: a block whose row has the decay c has, at decay d, exp(d - c) times its
    weights. A block without a row is all zeros, and is read as b"".
    """

    def read(self, block: int, decay: float) -> bytes:
        """Return the weights of a block."""
        row = self.row_of(block)
        if row is None or row[1] == decay:
            return b"" if row is None else row[0]
        return (np.frombuffer(row[0]) * math.exp(decay - row[1])).tobytes()

    def average(
        self,
        block: int,
        weights: bytes,
        share: float,
        rest: float,
        old_decay: float,
        new_decay: float,
    ) -> None:
        """Add the weights of one partition to the mean over all of them.

        Args:
            block: the key.
            weights: the weights after the partition's pass.
            share: the partition's share of the sample.
            rest: what is left of the weights before this pass, as other partitions do not touch
                the block; -1 where it is added to the mean already.
            old_decay, new_decay: the decay before and after the pass.
        """
        mean = np.frombuffer(weights) * share
        old = self.read(block, new_decay if rest < 0 else old_decay) if rest else b""
        if old:
            mean = np.frombuffer(old) * (1.0 if rest < 0 else rest) + mean
        self.put(block, (mean.tobytes(), new_decay))

    def set(self, block: int, weights: bytes, decay: float) -> None:
        """Set the weights of a block."""
        self.put(block, (weights, decay))

    def discard(self, block: int) -> None:
        """Have a block be all zeros."""
        self.remove(block)

    def squares(self, decay: float, count: int) -> dict[int, float]:
        """Return the sum of the squares of the weights, without intercepts, by the class's code.

        Args:
            decay: the present decay.
            count: the number of blocks of a class.
        """
        sums: dict[int, float] = {}
        for key in sorted(self.rows):
            if key % count != count - 1:
                weights = np.frombuffer(self.read(key, decay))
                sums[key // count] = sums.get(key // count, 0.0) + float(weights @ weights)
        return sums

    def keys(self) -> list[int]:
        """Return the blocks that are stored, ascending."""
        return sorted(self.rows)


class Weights(StateElement):
    """Weights of linear models, by block.

    Args:
        key: the type of the keys, `int`.
    """

    state = WeightsState
    reads = ("read", "squares", "keys", "__len__")
    writes = ("average", "set", "discard")
    without_key = ("squares", "keys", "__len__")

    def __init__(self, key: type) -> None:
        super().__init__(key, weights=bytes, decay=float)


class BlockRequest(NamedTuple):
    """A partition's request before a pass: facts about its sample.

    Attributes:
        anchor: an id that it has, by which it is found.
        size: the number of instances in the sample.
        blocks: those that the sample touches, ascending, and that of the intercept.
    """

    anchor: Any
    size: int
    blocks: Ints


class PassPlan(NamedTuple):
    """The blocks that go to each partition in a pass.

    Attributes:
        routes: (id, key): the partition that has the id needs the block.
        shares: (id, key, share, rest): the same with arguments of `WeightsState.average`.
        decay: the logarithm of what is left of weights that no partition touches.
        size: the size of the sample.
    """

    routes: list[tuple[Any, int]]
    shares: list[tuple[Any, int, float, float]]
    decay: float
    size: int


def plan_pass(
    requests: Iterable[BlockRequest | None], layout: Layout, codes: Sequence[int],
    left_after: Callable[[int], float],
) -> PassPlan:  # fmt: skip
    """Return the plan of a pass.

    Args:
        requests: the requests of all partitions, None for those with nothing in the sample.
        layout: the layout of the weights.
        codes: the codes of the classes, each of which has weights.
        left_after: returns what regularisation leaves of weights after so many instances.
    """
    asked = [request for request in requests if request is not None]
    size = max(sum(request.size for request in asked), 1)
    left = [left_after(request.size) * (request.size / size) for request in asked]
    untouched: dict[int, float] = {}
    for request in asked:
        untouched |= dict.fromkeys(request.blocks.tolist(), 0.0)
    for request, part in zip(asked, left, strict=True):
        for block in untouched.keys() - set(request.blocks.tolist()):
            untouched[block] += part
    shares = []
    for code in codes:
        rest = dict(untouched)
        for request in asked:
            for block in request.blocks.tolist():
                place = request.anchor, layout.key(code, block)
                shares.append((*place, request.size / size, rest[block]))
                rest[block] = -1.0
    decay = math.log(max(sum(left), math.ulp(0.0)))
    return PassPlan([place[:2] for place in shares], shares, decay, size)


def objective_of(
    losses: Iterable[Sequence[float]], squares: Iterable[dict[int, float]], size: int,
    alpha: float, codes: Sequence[int],
) -> float:  # fmt: skip
    """Return the mean of the objectives of all classes.

    Args:
        losses: for each partition, the sum over its sample for each class; () if that is empty.
        squares: for each partition, what `WeightsState.squares` returns.
        size: the size of the sample.
        alpha: the factor of the regulariser.
        codes: the codes of the classes.
    """
    parts, total = list(squares), 0.0
    loss_sums = [part for part in losses if len(part)]
    for k, code in enumerate(codes):
        loss = sum(part[k] for part in loss_sums) / max(size, 1)
        total += loss + alpha / 2 * sum(part.get(max(code, 0), 0.0) for part in parts)
    return total / max(len(codes), 1)


class BlockReader:
    """Weights that are in the blocks of a loop, fetched when they are asked for and then kept.

    Args:
        flow: the loop; its weights do not change.
        layout: the layout of the weights.
    """

    def __init__(self, flow: Any, layout: Layout) -> None:
        self._flow, self._layout = flow, layout
        self._blocks: dict[int, bytes] = {}

    def fetch(self, keys: Sequence[int]) -> list[bytes]:
        """Return the weights of blocks."""
        missing = [key for key in keys if key not in self._blocks]
        if missing and self._flow is not None:
            fetched = self._flow.read_block.map(missing)
            self._blocks |= dict(zip(missing, fetched, strict=True))
        return [self._blocks.get(key, b"") for key in keys]

    def weights(self, code: int, blocks: Sequence[int]) -> Floats:
        """Return weights of a class.

        Args:
            code: the class's code.
            blocks: its blocks to read, one after the other.
        """
        rows = self.fetch([self._layout.key(code, block) for block in blocks])
        parts = [
            np.frombuffer(row) if row else np.zeros(self._layout.length(block))
            for block, row in zip(blocks, rows, strict=True)
        ]
        return np.concatenate(parts)

    def detach(self) -> None:
        """Fetch all blocks that are stored, so that the loop is not needed any more."""
        if self._flow is not None:
            self.fetch([key for part in self._flow.stored_blocks() for key in part])
            self._flow = None

    def __getstate__(self) -> dict[str, Any]:
        copy = BlockReader(self._flow, self._layout)
        copy._blocks = dict(self._blocks)
        copy.detach()
        return vars(copy)
