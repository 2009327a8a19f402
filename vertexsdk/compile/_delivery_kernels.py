"""The delivery kernels: how a changed message reaches the aggregate of its target.

Every producer's latest message is kept in `MSG` (one per vertex, or one per edge), every slot's
aggregate in `AGG`. A change from `old` to `new` is applied by the algebra's law (`_apply`): a
difference where there is an inverse and it is exact, a comparison for Min and Max. A slot whose
winner was withdrawn is marked and recomputed from its row (`repair`), and so is every changed one
of an algebra without a law. Dense iterations recompute every row instead (`pull`). Threads own
disjoint ranges of targets, and a target takes its changes in ascending order of source, so results
do not depend on the number of threads.

The text is specialised per algebra and dtype; for messages that are not numbers the same text
runs as plain Python.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType
from typing import Any

from vertexsdk.compile._arithmetic import arithmetic_imports
from vertexsdk.compile._rewrite import CannotCompile, Globals
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.syntax import Method

_HEAD = """
import numpy as np
from vertexsdk.compile._intrinsics import as_bool as _as_bool, as_float as _as_float
from vertexsdk.compile._intrinsics import as_int as _as_int
"""

AHEAD = 48  # messages between asking for an aggregate and comparing it
_PULL_AHEAD = 128  # in-edges between asking for a message and reading it, in a pull
_ROWS = 24  # rows between asking for a row and reading it
_PREFETCH = "from vertexsdk.arrays.prefetch import prefetch as _prefetch\n"

# Codes of _apply and bits of CH: 1 the aggregate changed, 2 the row must be recomputed.
_APPLY = {
    ("sum", False): """
    AGG[t] += new - old
    return 1
""",
    ("sum", True): """
    for j in range(AGG.shape[1]):
        AGG[t, j] += new[j] - old[j]
    return 1
""",
    ("min", False): """
    if new < AGG[t]:
        AGG[t] = new
        return 1
    if old == AGG[t] and old < new:
        return 2
    return 0
""",
    ("latest", False): """
    return 1
""",
    ("user", False): """
    return 3
""",
    ("inverse", False): """
    AGG[t] = _combine(_combine(AGG[t], _inverse(old)), new)
    return 1
""",
}
_APPLY["max", False] = _APPLY["min", False].replace("<", ">")
_APPLY["min", True] = """
    c = 0
    for j in range(AGG.shape[1]):
        if new[j] < AGG[t, j]:
            AGG[t, j] = new[j]
            c |= 1
        elif old[j] == AGG[t, j] and old[j] < new[j]:
            c |= 2
    return c
"""
_APPLY["max", True] = _APPLY["min", True].replace("<", ">")
_APPLY["user", True] = _APPLY["user", False]
_APPLY["latest", True] = _APPLY["latest", False]

_USEFUL = {
    "sum": "True",
    "min": "new < AGG[t] or old == AGG[t]",
    "max": "new > AGG[t] or old == AGG[t]",
}

# Number by number: Numba assigns whole rows many times slower.
CHECK_LENGTH = (
    "if {1}.shape[0] != {0}.shape[1]: raise ValueError("
    "'a message has another length than `size` in the declaration of messages')"
)
_SET_ROW = f"""
    {CHECK_LENGTH.format("A", "x")}
    for j in range(A.shape[1]):
        A[k, j] = x[j]
""".strip()

COMBINE = {
    "sum": "a + b", "min": "b if b < a else a", "max": "b if b > a else a", "any": "a or b",
    "latest": "b",
}  # fmt: skip
CAST = {"f": "_as_float", "i": "_as_int", "b": "_as_bool"}

_BODY = '''
@_jit(inline='always')
def _apply(t, old, new, AGG):
    {apply}

@_jit(inline='always')
def _same(a, b):
    {same}

@_jit(inline='always')
def _set(A, k, x):
    {set}

@_jit(inline='always')
def _mark(t, c, r, CH, LIST, LC, first):
    if c != 0:
        if CH[t] == 0:
            LIST[first + LC[r]] = t
            LC[r] += 1
        CH[t] |= c

@_jit(inline='always')
def _deliver(t, old, new, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me):
    """Apply a change now (T = 1), or put it into the bucket of the thread which owns t."""
    if T == 1:
        _mark(t, _apply(t, old, new, AGG), LC.shape[0] - 1, CH, LIST, LC, CH.shape[0])
    elif T > 1:
        if {useful}:
            r = (t * T) // CH.shape[0]
            k = BC[me, r]
            BT[me, r, k] = t
            _set(BO[me, r], k, old)
            _set(BN[me, r], k, new)
            BC[me, r] = k + 1

@_jit(inline='always')
def _emit_edge(e, x, target, MSG, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me):
    new = {cast}
    old = MSG[e]
    if not _same(old, new):
        _deliver(target[e], old, new, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me)
        _set(MSG, e, new)

@_jit
def emit_edges(edges, values, target, MSG, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me):
    """Deliver one message per edge, `values[k]` along edge `edges[k]`."""
    for k in range(edges.shape[0]):
        _emit_edge(edges[k], values[k], target, MSG, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me)

@_jit
def push(todo, lo, hi, old, start, stop, target, MSG, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me):
    """Deliver the changed message of every vertex in todo[lo:hi] along its whole row."""
    for k in range(lo, hi):
        u = todo[k]
        before = old[k]
        now = MSG[u]
        for e in range(start[u], stop[u]):
            _deliver(target[e], before, now, AGG, CH, LIST, LC, T, BT, BO, BN, BC, me)

@_jit
def mark_targets(todo, start, stop, target, CH):
    """Mark all targets of `todo`; threads may do so side by side, as all write the same."""
    for k in range(todo.shape[0]):
        u = todo[k]
        for e in range(start[u], stop[u]):
            CH[_u(target[_u(e)])] = 1

@_jit
def apply_each(targets, old, new, AGG, CH, LIST, LC):
    """Replace the message old[k] to targets[k] by new[k]."""
    for k in range(targets.shape[0]):
        t = targets[k]
        _mark(t, _apply(t, old[k], new[k], AGG), LC.shape[0] - 1, CH, LIST, LC, CH.shape[0])

@_jit
def differing(slots, AGG, SEEN, out):
    """Write those of `slots` whose aggregate is not what SEEN has; return how many."""
    count = 0
    for k in range(slots.shape[0]):
        s = slots[k]
        if not _same(AGG[s], SEEN[s]):
            out[count] = s
            count += 1
    return count

@_jit
def apply_buckets(r, T, AGG, CH, LIST, LC, BT, BO, BN, BC):
    """Take in the changes for target range r, in ascending order of source."""
    first = (r * CH.shape[0] + T - 1) // T
    for s in range(T):
        for k in range(BC[s, r]):
            _prefetch(AGG, _u(BT[s, r, min(k + {ahead}, BT.shape[2] - 1)]))
            t = BT[s, r, k]
            _mark(t, _apply(t, BO[s, r, k], BN[s, r, k], AGG), r, CH, LIST, LC, first)

@_jit
def inbound(index, values, offset, base, slot_of, MSG, AGG, CH, LIST, LC):
    """Take in what other partitions sent: values[k] from inbound ghost offset + index[k]."""
    for k in range(index.shape[0]):
        j = offset + index[k]
        t = slot_of[j]
        c = _apply(t, MSG[base + j], values[k], AGG)
        _mark(t, c, LC.shape[0] - 1, CH, LIST, LC, CH.shape[0])
        _set(MSG, base + j, values[k])
'''

_PULL = '''
@_jit
def _row(s, in_start, in_stop, in_index, MSG, identity):
    acc = identity
    for k in range(in_start[s], in_stop[s]):
        acc = _combine(acc, MSG[_u(in_index[k])])
    return acc

@_jit
def pull(lo, hi, in_start, in_stop, in_index, MSG, AGG, CH, identity):
    """Recompute the aggregate of slots lo..hi from every producer's latest message."""
    last = in_index.shape[0] - {ahead}
    for s in range(lo, hi):
        if in_stop[s] > last:
            acc = _row(s, in_start, in_stop, in_index, MSG, identity)
        else:
            acc = identity
            for k in range(in_start[s], in_stop[s]):
                _prefetch(MSG, _u(in_index[_u(k + {ahead})]))
                acc = _combine(acc, MSG[_u(in_index[_u(k)])])
        if not _same(acc, AGG[s]):
            AGG[s] = acc
            CH[s] = 1

@_jit
def repair(slots, in_start, in_stop, in_index, MSG, AGG, identity):
    """Recompute the aggregate of slots whose winning message was withdrawn."""
    for k in range(slots.shape[0]):
        s = slots[k]
        AGG[s] = _row(s, in_start, in_stop, in_index, MSG, identity)
'''

_BETTER = '''
@_jit
def better(senders, old, MSG, BEST, shift):
    """Note the best changed message of every block of producers; tell whether all got better."""
    for k in range(senders.shape[0]):
        u = senders[k]
        x = MSG[u]
        if not x {is_better} old[k]:
            return False
        if x {is_better} BEST[u >> shift]:
            BEST[u >> shift] = x
    return True

@_jit
def pull_better(lo, hi, in_start, in_stop, in_index, MSG, AGG, CH, BEST, shift):
    """As `pull`, where messages only got better: AGG holds all but the changed ones already.

    BEST[b] is the best changed message of the producers from block b on, and a row ascends, so
    where it is no better than what a slot has, the rest of the row is not.
    """
    first = BEST[0]
    for s in range(lo, hi):
        if s + {rows} < hi and first {is_better} AGG[_u(s + {rows})]:
            _prefetch(in_index, _u(in_start[_u(s + {rows})]))
        acc = AGG[s]
        if first {is_better} acc:
            was = acc
            for k in range(in_start[s], in_stop[s]):
                u = in_index[k]
                if not BEST[_u(u >> shift)] {is_better} acc:
                    break
                x = MSG[_u(u)]
                if x {is_better} acc:
                    acc = x
            if acc {is_better} was:
                AGG[s] = acc
                CH[s] = 1
'''

# For a graph that changes: who stands on which message, along the edges of some rows.
_SUPPORT = '''
@_jit
def support(todo, in_start, in_stop, in_source, LEVEL, GONE, WANT, identity, out, {call}):
    """Combine, for each of `todo`, the messages of producers which are older and not gone."""
    for k in range(todo.shape[0]):
        s = todo[k]
        acc = identity
        for {edge} in range(in_start[s], in_stop[s]):
            _i = in_source[{edge}]
            if LEVEL[_i] < LEVEL[s] and not GONE[_i]:
                {at}
                acc = _combine(acc, {message})
                if acc == WANT[s]:
                    break
        out[k] = acc


@_jit
def dependants(todo, SEEN, MARK, out, {call}):
    """Targets, each once, to which one of `todo` sent nothing worse than what they saw."""
    count = 0
    for k in range(todo.shape[0]):
        _i = todo[k]
        {at}
        for {edge} in range(G_start[_i], G_stop[_i]):
            s = G_target[{edge}]
            x = {message}
            if MARK[s] == 0 and _combine(x, SEEN[s]) == x:
                MARK[s] = 1
                out[count] = s
                count += 1
    return count
'''


def support_text(call: str, edge: str, message: str) -> str:
    """Return the kernels that find which aggregates stand on which messages.

    Args:
        call: their trailing parameters.
        edge: the name of an edge's number in `message`.
        message: an expression, of vertex `_i` along the edge.
    """
    at = "V_at[0] = _i" if call.startswith("V_at") else "pass"
    return _SUPPORT.format(call=call, edge=edge, message=message, at=at)


_PULL_VECTOR = '''
@_jit
def _row(s, in_start, in_stop, in_index, MSG, acc):
    for k in range(in_start[s], in_stop[s]):
        x = MSG[_u(in_index[k])]
        for j in range(acc.shape[0]):
            acc[j] = _combine(acc[j], x[j])

@_jit
def pull(lo, hi, in_start, in_stop, in_index, MSG, AGG, CH, identity):
    """Recompute the aggregate of slots lo..hi from every producer's latest message."""
    acc = np.empty(AGG.shape[1], AGG.dtype)
    for s in range(lo, hi):
        acc[:] = identity
        _row(s, in_start, in_stop, in_index, MSG, acc)
        if not _same(acc, AGG[s]):
            AGG[s, :] = acc
            CH[s] = 1

@_jit
def repair(slots, in_start, in_stop, in_index, MSG, AGG, identity):
    """Recompute the aggregate of slots whose winning message was withdrawn."""
    acc = np.empty(AGG.shape[1], AGG.dtype)
    for k in range(slots.shape[0]):
        acc[:] = identity
        _row(slots[k], in_start, in_stop, in_index, MSG, acc)
        AGG[slots[k], :] = acc
'''


def user_function(function: object, name: str, globals_: Globals) -> None:
    """Add a user's combine or inverse to the generated module under `name`."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise CannotCompile(_built_in(name), None, f"{name} is a built-in function")
    method = Method(name, function, None, code.co_filename, code.co_firstlineno)  # type: ignore[arg-type]
    if code.co_name == "<lambda>":
        source = textwrap.dedent(inspect.getsource(function)).strip()  # type: ignore[arg-type]
        lambda_ = _lambda_in(source, code)
        if lambda_ is None:
            raise CannotCompile(method, None, f"{name}: the lambda's source cannot be read")
        args = ", ".join(a.arg for a in lambda_.args.args)
        globals_.functions[name] = (
            f"@_jit\ndef {name}({args}):\n    return {ast.unparse(lambda_.body)}"
        )
        return
    globals_.bind(method, ast.Pass(), name, function)


def _lambda_in(source: str, code: CodeType) -> ast.Lambda | None:
    """Find the lambda that compiles to `code` in a possibly incomplete piece of source."""
    parts = ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_argcount")
    for begin in range(len(source)):
        if not source.startswith("lambda", begin):
            continue
        for end in range(len(source), begin, -1):
            try:
                node = ast.parse(source[begin:end].strip(), mode="eval").body
            except SyntaxError:
                continue
            if isinstance(node, ast.Lambda):
                compiled = eval(compile(ast.Expression(node), "<lambda>", "eval"))
                if all(getattr(compiled.__code__, p) == getattr(code, p) for p in parts):
                    return node
    return None


def _built_in(name: str) -> Method:
    """A place to blame for a function which has no source."""
    function: Any = _built_in
    return Method(name, function, None, "<algebra>", 1)


def deliver_source(algebra: Algebra, *, python: bool = False) -> str:
    """Return the text of the delivery module for one algebra.

    Args:
        algebra: algebra of the messages.
        python: the text will run as plain Python, with combine and inverse bound from outside.

    Raises:
        CannotCompile: a user's combine or inverse cannot be compiled.
    """
    vector = algebra.size is not None
    globals_ = Globals()
    kind = algebra.kind
    if kind == "user":
        if not python:
            user_function(algebra.combine, "_combine", globals_)
            if algebra.inverse is not None:
                user_function(algebra.inverse, "_inverse", globals_)
        kind = "user" if vector else "inverse"
    else:
        globals_.functions["_combine"] = (
            f"@_jit(inline='always')\ndef _combine(a, b):\n    return {COMBINE[kind]}"
        )
        kind = "user" if kind == "any" else kind
    floating = algebra.dtype.kind == "f"
    if vector:
        same = (
            "if a.shape[0] != b.shape[0]:\n"
            "        return False\n"
            "    for j in range(a.shape[0]):\n"
            "        if a[j] != b[j] and (a[j] == a[j] or b[j] == b[j]):\n"
            "            return False\n"
            "    return True"
        )
        cast = "x"
    elif algebra.dtype == object:
        same, cast = "return _equal(a, b)", "x"
    else:
        same = "return a == b or (a != a and b != b)" if floating or python else "return a == b"
        cast = f"{CAST[algebra.dtype.kind]}(x)"
    useful = "True" if vector else _USEFUL.get(kind, "True")
    body = _BODY.format(
        apply=_APPLY["user" if algebra.recombines else kind, vector].strip(),
        same=same,
        useful=useful,
        set=_SET_ROW if vector and not python else "A[k] = x",
        cast=cast,
        ahead=AHEAD,
    )
    body = body.replace("_u(", "(" if python else "np.uint64(")
    body = ("def _prefetch(array, k):\n    pass\n" if python else _PREFETCH) + body
    if algebra.kind != "latest":
        kept = support_text("G_start, G_stop, G_target, MSG", "e", "MSG[_u(_i)]")
        pull = _PULL_VECTOR if vector else _PULL + kept
        if not vector and kind in ("min", "max"):
            pull += _BETTER.replace("{is_better}", "<" if kind == "min" else ">")
        pull = pull.replace("{ahead}", str(_PULL_AHEAD)).replace("{rows}", str(_ROWS))
        # An unsigned index saves the test for a negative one, a quarter of a pull's time.
        body += pull.replace("_u(", "(" if python else "np.uint64(")
    globals_text = globals_.text()
    return "\n".join([_HEAD + arithmetic_imports(globals_text), globals_text, body])
