"""The stateful class of linear models whose weights are in blocks, which their owners send to the
partitions that need them, and no others.

Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vertexsdk import Partitioned, Value, gather_all, on_all
from vertexsdk.algorithms.learning._linear_program import (
    DECAY,
    LinearInstances,
    LinearProgram,
    LinearState,
)
from vertexsdk.algorithms.learning._program import NamedInstancesProgram
from vertexsdk.algorithms.learning.blocks import (
    BlockRequest,
    Layout,
    Overshoot,
    Weights,
    blocks_of,
    objective_of,
    on_blocks,
    plan_pass,
)
from vertexsdk.algorithms.learning.linear_kernels import loss_sum, sgd_pass, weights_left
from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows


@dataclass
class _Pass:
    """A partition's part in a pass: what is computed while blocks come and go.

    Attributes:
        rows: the sample, with the columns of its blocks alone.
        blocks: the places of the blocks, ascending; the last has the intercept.
        targets: by class, the labels of the sample.
        options: arguments of `sgd_pass`: rate, alpha, loss and whether there is an intercept.
        weights: by class, float64[columns of the blocks + 1].
        after: by class, the same after the pass.
    """

    rows: Rows
    blocks: Ints
    layout: Layout
    targets: dict[int, Floats]
    options: tuple[float, float, str, bool]
    weights: dict[int, Floats] = field(default_factory=dict)
    after: dict[int, Floats] = field(default_factory=dict)

    def slice_of(self, block: int) -> slice:
        """Return where the weights of a block are."""
        if block == self.layout.blocks - 1:
            return slice(-1, None)
        first = int(np.searchsorted(self.blocks, block)) * self.layout.size
        return slice(first, first + self.layout.length(block))


class LinearBlocksState(LinearState):
    """The instances of one partition, and a pass over them.

    What is kept from one method to the next is that of one call, which begins with `request`: it
    is not part of the state.
    """

    _pass: _Pass | None = None

    def request(
        self, width: int, sparse: bool, share: float, size: int, labels: bytes, loss: str,
        alpha: float, rate: float, intercept: bool,
    ) -> BlockRequest | None:  # fmt: skip
        """Begin a pass, and return which blocks it needs; None where the sample is empty.

        Args:
            width, sparse, share: as in `LinearState`.
            size: the size of a block.
            labels: int64, the code of each class that has weights, or -1.
            loss, alpha, rate, intercept: as for `sgd_pass`.
        """
        layout, self._pass = Layout(width, size), None
        sample, _ = self.sample(width, sparse, share)
        if not len(sample):
            return None

        def compact() -> tuple[Ints, Rows]:
            blocks = blocks_of(sample.rows, size)
            return blocks, on_blocks(sample.rows, blocks, layout)

        blocks, rows = self._once(("blocks", share, size), compact)
        blocks = np.append(blocks, layout.blocks - 1)
        targets = {
            max(code, 0): self._labelled(width, sparse, share, code).targets
            for code in np.frombuffer(labels, np.int64).tolist()
        }
        self._pass = _Pass(rows, blocks, layout, targets, (rate, alpha, loss, intercept))
        return BlockRequest(next(iter(self.rows)), len(sample), blocks)

    def receive(self, anchor: Any, key: int, weights: bytes) -> None:
        """Take the weights of a block, b"" for zeros.

        Args:
            anchor: an id of this partition.
            key: the block's key.
            weights: float64.
        """
        running = self._running_pass
        code, block = divmod(key, running.layout.blocks)
        if code not in running.weights:
            columns = sum(map(running.layout.length, running.blocks.tolist()))
            running.weights[code] = np.zeros(columns)
        running.weights[code][running.slice_of(block)] = np.frombuffer(weights) if weights else 0.0

    def descended(self, anchor: Any, key: int) -> bytes:
        """Return the weights of a block after the pass, which the first block runs.

        Args:
            anchor: an id of this partition.
            key: the block's key.
        """
        running = self._running_pass
        code, block = divmod(key, running.layout.blocks)
        if code not in running.after:
            rate, alpha, loss, intercept = running.options
            running.after[code] = sgd_pass(
                running.rows, running.targets[code], running.weights[code], rate, alpha, loss,
                fit_intercept=intercept, decay=DECAY,
            )  # fmt: skip
        return running.after[code][running.slice_of(block)].tobytes()

    def losses(self) -> list[float]:
        """Return the sum of the losses of each class over the sample, and end the pass."""
        running, self._pass = self._pass, None
        if running is None:
            return []
        loss = running.options[2]
        return [
            loss_sum(running.rows, targets, running.weights[code], loss)
            for code, targets in running.targets.items()
        ]

    @property
    def _running_pass(self) -> _Pass:
        assert self._pass is not None
        return self._pass


class LinearBlocksInstances(LinearInstances):
    """The instances of a linear model, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = LinearBlocksState
    reads = (*LinearInstances.reads, "request", "receive", "descended", "losses")
    without_key = (*LinearInstances.reads, "request", "losses")


class LinearBlocksProgram(LinearProgram):
    """Instances with int ids, and weights in blocks; arguments are as in `LinearBlocksState`."""

    instances = Partitioned(LinearBlocksInstances(int), key="id")
    weights = Partitioned(Weights(int), key="block")
    decay = Partitioned(Value(float))

    def descend_blocks(
        self, width: int, sparse: bool, share: float, size: int, labels: bytes, loss: str,
        alpha: float, rate: float, intercept: bool, bound: float,
    ) -> float:  # fmt: skip
        """Run a pass over the sample, and return the objective after it.

        Args:
            width, sparse, share, size, labels, loss, alpha, rate, intercept: as for
                `LinearBlocksState.request`.
            bound: the largest objective that is accepted.

        Raises:
            Overshoot: the objective is above the bound; no weights are changed then.
        """
        old_decay = self.decay.value
        codes, layout = np.frombuffer(labels, np.int64).tolist(), Layout(width, size)
        requests = gather_all(
            on_all(self.instances).request(
                width, sparse, share, size, labels, loss, alpha, rate, intercept
            )
        )
        plan = plan_pass(
            requests, layout, codes, lambda size: weights_left(size, rate, alpha, DECAY)
        )
        new_decay = old_decay + plan.decay
        for anchor, block in plan.routes:
            old = self.weights.read(block, old_decay)
            self.instances.receive(anchor, block, old)
        for anchor, block, part, rest in plan.shares:
            new = self.instances.descended(anchor, block)
            self.weights.average(block, new, part, rest, old_decay, new_decay)
        for anchor, block in plan.routes:
            mean = self.weights.read(block, new_decay)
            self.instances.receive(anchor, block, mean)
        losses = gather_all(on_all(self.instances).losses())
        squares = gather_all(on_all(self.weights).squares(new_decay, layout.blocks))
        objective = objective_of(losses, squares, plan.size, alpha, codes)
        if not objective <= bound:
            raise Overshoot(f"the objective is {objective}: use a lower rate")
        self.decay.value = new_decay
        return objective

    def measure_blocks(
        self, width: int, sparse: bool, share: float, size: int, labels: bytes, loss: str,
        alpha: float,
    ) -> float:  # fmt: skip
        """Return the objective over the sample."""
        decay = self.decay.value
        codes, layout = np.frombuffer(labels, np.int64).tolist(), Layout(width, size)
        requests = gather_all(
            on_all(self.instances).request(
                width, sparse, share, size, labels, loss, alpha, 0.0, True
            )
        )
        plan = plan_pass(requests, layout, codes, lambda _: 1.0)
        for anchor, block in plan.routes:
            current = self.weights.read(block, decay)
            self.instances.receive(anchor, block, current)
        losses = gather_all(on_all(self.instances).losses())
        squares = gather_all(on_all(self.weights).squares(decay, layout.blocks))
        return objective_of(losses, squares, plan.size, alpha, codes)

    def read_block(self, block: int) -> bytes:
        """Return the weights of a block, b"" for zeros."""
        decay = self.decay.value
        return self.weights.read(block, decay)  # type: ignore[no-any-return]

    def set_block(self, block: int, weights: bytes) -> None:
        """Set the weights of a block."""
        decay = self.decay.value
        self.weights.set(block, weights, decay)

    def stored_blocks(self) -> list[Any]:
        """Return the keys of each partition's blocks."""
        return gather_all(on_all(self.weights).keys())

    def clear_blocks(self) -> None:
        """Have all weights be zero."""
        parts = gather_all(on_all(self.weights).keys())
        for block in itertools.chain(*parts):
            self.weights.discard(block)
        self.decay.value = 0.0

    def negate_blocks(self, source: int, target: int, count: int) -> None:
        """Have the weights of one class be those of another with the other sign.

        Args:
            source, target: the codes of the classes.
            count: the number of blocks of a class.
        """
        decay = self.decay.value
        parts = gather_all(on_all(self.weights).keys())
        keys = [key for key in itertools.chain(*parts) if key // count == source]
        rows = [self.weights.read(block, decay) for block in keys]
        moved = [
            (block + (target - source) * count, -np.frombuffer(row))
            for block, row in zip(keys, rows, strict=True)
        ]
        for block, row in moved:
            self.weights.set(block, row.tobytes(), decay)


class NamedLinearBlocksProgram(NamedInstancesProgram, LinearBlocksProgram):
    """`LinearBlocksProgram` with str ids."""

    instances = Partitioned(LinearBlocksInstances(str), key="id")
