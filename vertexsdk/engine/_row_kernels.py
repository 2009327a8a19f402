"""Kernels over rows with room to grow: the adjacency of a graph that changes.

Row r has its entries at `start[r]:stop[r]` of a pool, ascending by key, and room up to
`start[r] + room[r]`. Each entry has a key (int32, the other end's index) and a value, or a row of
several; in a pool of neighbours the value is a set of bits (`FORWARD`, `BACKWARD`), which way the
edges go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vertexsdk.arrays.jit import njit

INSERT, DELETE, SET = 0, 1, 2
FORWARD, BACKWARD = 1, 2
_ADD, _REMOVE = 0, 1  # kinds of changes


def _move_rows(typing_context, array, first, last, to):  # type: ignore[no-untyped-def]
    """Copy the rows `array[first:last]` to those from `to` on, which may overlap them."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        fields = cgutils.create_struct_proxy(array)(context, builder, arguments[0])
        size = builder.extract_value(fields.strides, 0)
        begin, end, place = (
            context.cast(builder, x, kind, types.intp)
            for x, kind in zip(arguments[1:], signature.args[1:], strict=True)
        )
        data = builder.bitcast(fields.data, cgutils.voidptr_t)
        source, target = (builder.gep(data, [builder.mul(x, size)]) for x in (begin, place))
        cgutils.raw_memmove(builder, target, source, builder.sub(end, begin), size)
        return context.get_dummy_value()

    return types.void(array, first, last, to), generate


_move: Any = intrinsic(_move_rows)


@njit
def _lower(pool: Any, lo: Any, hi: Any, key: Any) -> Any:
    while lo < hi:
        mid = (lo + hi) >> 1
        if pool[mid] < key:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit
def find_edges(first, last, row, key, start, stop, pool, out):  # type: ignore[no-untyped-def]
    """Write the places of the entries (row[k], key[k]) in the pool, -1 for those not in it."""
    for k in range(first, last):
        r = row[k]
        at = _lower(pool, start[r], stop[r], key[k])
        out[k] = at if at < stop[r] and pool[at] == key[k] else -1


@njit
def resolve(  # type: ignore[no-untyped-def]
    row, key, kind, value, place, pool_value, missing, default, what, old, new, head, counts, absent
):
    """Resolve changes, edge by edge; values are bits, int64[., w], w is 0 without any.

    Args:
        row, key, kind, value: those of each change; the changes of an edge together, in order.
        place: the place of each change's entry in the pool, -1 if it has none.
        missing, default: int64[w], what a change leaves out, and what a new edge then has.
        what, old, new, head: by edge that changes: INSERT, DELETE or SET, the value before and
            after, and the number of one of its changes. Filled.
        counts, absent: counts of changes, by `COUNTS`, and whether each met no edge. Filled.

    Returns:
        The number of edges that change.
    """
    count = 0
    c, k, width = 0, row.shape[0], value.shape[1]
    now = np.empty(width, np.int64)
    while c < k:
        first = c
        there = place[c] >= 0
        existed = there
        for w in range(width):
            now[w] = pool_value[place[c], w] if there else default[w]
            old[count, w] = now[w]
        while c < k and row[c] == row[first] and key[c] == key[first]:
            if kind[c] == _ADD and not there:
                counts[0] += 1
                there = True
                for w in range(width):
                    now[w] = default[w] if value[c, w] == missing[w] else value[c, w]
            elif not there:
                counts[4] += 1
                absent[c] = True
            elif kind[c] == _REMOVE:
                counts[1] += 1
                there = False
            else:
                changed = False
                for w in range(width):
                    if value[c, w] != missing[w] and value[c, w] != now[w]:
                        changed = True
                        now[w] = value[c, w]
                counts[2 if changed else 3] += 1
            c += 1
        differs = False
        for w in range(width):
            differs |= now[w] != old[count, w]
        if there != existed or (there and differs):
            what[count] = SET if there == existed else (INSERT if there else DELETE)
            head[count] = first
            for w in range(width):
                new[count, w] = now[w]
            count += 1
    return count


@njit
def net_bits(row, key, what, bits, start, stop, pool, value, out_row, out_key, out_what, out_value):  # type: ignore[no-untyped-def]
    """Bits set and cleared, in order of (row, key), to entries that come, go or change.

    Returns:
        The number of these entries.
    """
    count = 0
    c, k = 0, row.shape[0]
    while c < k:
        r, b = row[c], key[c]
        at = _lower(pool, start[r], stop[r], b)
        was = np.int64(0)
        if at < stop[r] and pool[at] == b:
            was = np.int64(value[at])
        now = was
        while c < k and row[c] == r and key[c] == b:
            if what[c] == DELETE:
                now &= ~np.int64(bits[c])
            else:
                now |= np.int64(bits[c])
            c += 1
        if now != was:
            out_row[count], out_key[count], out_value[count] = r, b, now
            out_what[count] = INSERT if was == 0 else (DELETE if now == 0 else SET)
            count += 1
    return count


@njit
def place_rows(row, what, start, stop, room, tail, group, dest):  # type: ignore[no-untyped-def]
    """Find room for rows that are edited: where they are, or at the end of the pool.

    Args:
        row, what: the row and the kind of each edit, ascending by row.
        tail: where the pool ends.
        group, dest: the first edit of each row that is edited, and where the row will begin.
            Filled; `group` has one more at its end.

    Returns:
        The number of rows, and where the pool will end.
    """
    rows = 0
    c, k = 0, row.shape[0]
    while c < k:
        r = row[c]
        group[rows] = c
        size = stop[r] - start[r]
        while c < k and row[c] == r:
            if what[c] == INSERT:
                size += 1
            elif what[c] == DELETE:
                size -= 1
            c += 1
        dest[rows] = start[r]
        if size > room[r]:
            dest[rows] = tail
            room[r] = size + size // 4 + 2
            tail += room[r]
        rows += 1
    group[rows] = k
    return rows, tail


@njit
def edit_rows(first, last, group, dest, row, key, what, new, start, stop, pool, value, valued):  # type: ignore[no-untyped-def]
    """Edit the rows of `group[first:last]`: those which move are copied to `dest`."""
    for g in range(first, last):
        r = row[group[g]]
        lo, hi, to = start[r], stop[r], dest[g]
        if to != lo:
            c, e, at = group[g], lo, to
            while e < hi or c < group[g + 1]:
                if c < group[g + 1] and (e == hi or key[c] <= pool[e]):
                    if what[c] != INSERT:
                        e += 1
                    if what[c] != DELETE:
                        pool[at] = key[c]
                        if valued:
                            value[at] = new[c]
                        at += 1
                    c += 1
                else:
                    pool[at] = pool[e]
                    if valued:
                        value[at] = value[e]
                    at += 1
                    e += 1
            start[r], stop[r] = to, at
            continue
        added = 0
        hole = -1  # where the next entry that stays goes, once one has gone
        e = lo
        for c in range(group[g], group[g + 1]):
            if what[c] == INSERT:
                added += 1
                continue
            at = _lower(pool, e, hi, key[c])
            if what[c] == SET:
                if valued:
                    value[at] = new[c]
                continue
            if hole >= 0:
                _move(pool, e, at, hole)
                if valued:
                    _move(value, e, at, hole)
                hole += at - e
            else:
                hole = at
            e = at + 1
        if hole >= 0:
            _move(pool, e, hi, hole)
            if valued:
                _move(value, e, hi, hole)
            hi = hole + hi - e
        if added:
            at, e = hi + added - 1, hi - 1
            stop[r] = hi + added
            c = group[g + 1] - 1
            while added > 0:
                if what[c] != INSERT:
                    c -= 1
                    continue
                place = _lower(pool, lo, e + 1, key[c])
                if place <= e:  # these move up, by as many as are still to be inserted
                    _move(pool, place, e + 1, place + added)
                    if valued:
                        _move(value, place, e + 1, place + added)
                at, e = place + added - 1, place - 1
                pool[at] = key[c]
                if valued:
                    value[at] = new[c]
                at -= 1
                c -= 1
                added -= 1
        else:
            stop[r] = hi


@njit
def spread(first, last, old_start, old_stop, old, old_value, start, stop, pool, value, valued):  # type: ignore[no-untyped-def]
    """Copy rows `first:last` of one pool into another, to `start`; `stop` is filled."""
    for r in range(first, last):
        at = start[r]
        for e in range(old_start[r], old_stop[r]):
            pool[at] = old[e]
            if valued:
                value[at] = old_value[e]
            at += 1
        stop[r] = at


@njit
def renumber(  # type: ignore[no-untyped-def]
    first, last, places, new, old_start, old_stop, old, old_value, start, stop, pool, value, valued
):
    """Copy the rows of `places[first:last]` into another pool; keys become `new[key]`."""
    for k in range(first, last):
        begin, at, ascending = old_start[places[k]], start[k], True
        for e in range(begin, old_stop[places[k]]):
            pool[at] = new[old[e]]
            ascending &= at == start[k] or pool[at - 1] < pool[at]
            if valued:
                value[at] = old_value[e]
            at += 1
        stop[k] = at
        if not ascending:
            keys = pool[start[k] : at].copy()
            order = np.argsort(keys)
            for i in range(keys.shape[0]):
                pool[start[k] + i] = keys[order[i]]
                if valued:
                    value[start[k] + i] = old_value[begin + order[i]]


@njit
def arrange(  # type: ignore[no-untyped-def]
    first, last, places, rank, out, into, ways, as_set, start, target, pick, reverse, fill
):
    """Rows of vertices in the order of ids: by the ranks of targets, then forward before backward.

    Args:
        places: places of the vertices, ascending by id.
        rank: rank of each place among all ids.
        out, into: `start`, `stop` and `key` of a pool.
        ways: FORWARD for entries of `out`, BACKWARD for those of `into`, or both.
        as_set: each target once, and no loops; of edges both ways, that from the first vertex.
        start: where each row begins; only filled, with the lengths, unless `fill`.
        target, pick, reverse: for each entry, its target's rank, where it is in the pool of `out`
            (or, as -1 - at, in that of `into`), and whether it is of `into`. Filled.
    """
    most = 0
    for k in range(first, last):
        r = places[k]
        most = max(most, out[1][r] - out[0][r] + into[1][r] - into[0][r])
    code, at = np.empty(most, np.int64), np.empty(most, np.int64)
    for k in range(first, last):
        r, n, middle, ascending = places[k], 0, 0, True
        for way in (FORWARD, BACKWARD):
            if ways & way == 0:
                continue
            pool, middle = (out if way == FORWARD else into), n
            for e in range(pool[0][r], pool[1][r]):
                code[n] = np.int64(rank[pool[2][e]]) * 2 + (1 if way == BACKWARD else 0)
                at[n] = e if way == FORWARD else -1 - e
                ascending &= n == middle or code[n - 1] <= code[n]
                n += 1
        order = np.argsort(code[:n]) if not ascending else np.empty(0, np.int64)
        x, y = 0, middle
        begin, count, previous = start[k], 0, np.int64(-1)
        for i in range(n):
            if not ascending:
                j = order[i]
            elif y == n or (x < middle and code[x] < code[y]):
                j = x
                x += 1
            else:
                j = y
                y += 1
            to = code[j] >> 1
            if as_set and (to == previous or to == rank[r]):
                if fill and to == previous and to < rank[r]:  # that of the first vertex counts
                    pick[begin + count - 1], reverse[begin + count - 1] = at[j], code[j] & 1
                continue
            previous = to
            if fill:
                target[begin + count] = to
                pick[begin + count] = at[j]
                reverse[begin + count] = code[j] & 1
            count += 1
        if not fill:
            start[k] = count


@njit
def look_up(first, last, ids, table, base, out):  # type: ignore[no-untyped-def]
    """The index of each id by a table of those from `base` on; 0 in it is none, k is k - 1."""
    for k in range(first, last):
        at = np.uint64(ids[k]) - np.uint64(base)  # signed, it may overflow
        out[k] = table[at] - 1 if ids[k] >= base and at < np.uint64(table.shape[0]) else -1


@njit
def both_ways(first, last, out_start, target, in_start, source, start, stop, pool, bits, fill):  # type: ignore[no-untyped-def]
    """Merge rows of targets and of sources into rows of neighbours; only count unless `fill`."""
    for r in range(first, last):
        i, j, at = out_start[r], in_start[r], start[r]
        while i < out_start[r + 1] or j < in_start[r + 1]:
            a = target[i] if i < out_start[r + 1] else 2147483647
            b = source[j] if j < in_start[r + 1] else 2147483647
            if fill:
                pool[at] = min(a, b)
                bits[at] = (FORWARD if a <= b else 0) | (BACKWARD if b <= a else 0)
            at += 1
            if a <= b:
                i += 1
            if b <= a:
                j += 1
        stop[r] = at
