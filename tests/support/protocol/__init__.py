"""The iteration rules of bounded asynchronous iteration, as pure state machines.

Tornado (SIGMOD 2016), section 4 and appendix A. `Component` is one vertex in the three-phase update
protocol (4.2), with bounded delays (4.4); `Frontier` is the master's side: which iterations have
terminated, and whether the loop has (4.3). Events go in, messages come out; no I/O, no clocks, no
randomness. What they keep, if every message is delivered at least once, in any order:

- an update is gathered only in later iterations (causality, rule 1);
- a commit is in no earlier iteration than the last commit of any consumer (rule 3), so a commit in
  iteration k has seen all of its producers' commits below k, whenever they were made;
- all commits are in [τ, τ+B-1], and a vertex with something to do commits within B iterations;
- no deadlock, no starvation; with B = 1 exactly the synchronous iterations, without PREPARE.

What the paper leaves open is decided as follows.

- *Prepare list.* It holds the producers that this vertex has acknowledged and whose update it has
  not received (the text; Figure 3 also puts those in it that are pending, which would deadlock).
  Every commit needs it to be empty, also a commit in τ+B-1.
- *Update time.* It is taken when the vertex first has something to do ("the time when it's
  updated"), even if it cannot prepare yet. So each wait is for an earlier time: no deadlock. And
  each producer, whose clock the ACKNOWLEDGE sets, overtakes at most once: no starvation.
- *Updates gathered while acknowledged or preparing* count: they raise the iteration, and the value
  committed has them. Only inputs are held back while preparing.
- *Committing in τ+B-1* needs no ACKNOWLEDGE, as no consumer can be further. A vertex that gets
  there while it waits commits at once; ACKNOWLEDGEs that come later are discarded by their time.
- *Holding.* The receiver holds updates in τ+B-1, but they release it from the preparation at once:
  τ could not terminate if it stayed blocked. Inputs of a vertex that has committed in τ+B-1 are
  held too, without an update time, as producers would wait for it while it waits for τ.
- *Knowing τ late.* Another vertex may know a later τ. So the master gives two numbers: τ, and
  `last`, which reaches τ+B-1 when all have heard of τ. No PREPARE is needed in τ+B-1 by the τ
  known here, and nobody commits after `last`, hence no consumer is further than the iteration
  without PREPARE.
- *One commit per iteration.* A vertex commits in a later iteration than before, also after inputs.
- *Unchanged values.* Consumers that were sent PREPARE get an empty UPDATE, which releases them.
- *Self-loops.* A vertex sends itself no PREPARE. Its own update is gathered when it commits, or
  held.
- *Duplicates.* Discarded by the producer's time. A PREPARE again is answered again, if unfinished.
  A PREPARE that overtook the UPDATE before it waits for that, so updates cannot overtake each
  other unnoticed; one committed in τ+B-1 that did is held until the earlier has come.
"""

from tests.support.protocol.component import Component
from tests.support.protocol.events import (
    Acknowledge,
    Announcement,
    Event,
    Input,
    Message,
    Method,
    Prepare,
    Time,
    Update,
)
from vertexsdk.engine.pace import Frontier

__all__ = [
    "Acknowledge",
    "Announcement",
    "Component",
    "Event",
    "Frontier",
    "Input",
    "Message",
    "Method",
    "Prepare",
    "Time",
    "Update",
]
