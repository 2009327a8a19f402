"""Task elements of stateful classes as kernels over the rows of a table.

A task element that is sure to compute the same on numbers of 64 bits becomes a function of the
fields of its row, its arguments, and constants of its module and class. The kernel of a state
element and a level calls these functions for a block of calls, in order. Where a call raises, or
leaves 64 bits, the kernel stops in front of it with nothing changed, Python runs that one, and the
kernel continues after it: so errors, and what they say, are Python's own.
"""

from __future__ import annotations

import ast
import inspect
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile._element_text import Typed
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.compile.module_cache import load_module
from vertexsdk.errors import first_line
from vertexsdk.program.keyed import (
    DEFAULTS,
    NUMBERS,
    ElementText,
    Function,
    TableSpec,
    TaskElement,
)
from vertexsdk.program.syntax import Method
from vertexsdk.program.warn import split_place

_log = logging.getLogger("vertexsdk")
_compiled: dict[str, Any] = {}  # kernels of this process, by their text
_AHEAD = 16  # calls whose rows are being fetched
_HEAD = """\
import math as _math
import numpy as np
from vertexsdk.arrays.jit import njit_without_refcounts as _jit
from vertexsdk.arrays.prefetch import prefetch as _prefetch
from vertexsdk.compile import _exact_arithmetic as _exact
"""


def element_text(
    method: Method, tree: ast.FunctionDef, spec: TableSpec, kinds: Mapping[str, str | None],
    cls: type,
) -> tuple[ElementText | None, str]:  # fmt: skip
    """Return a task element for the compiler, or None and the line that keeps it interpreted.

    Args:
        method: the method of which it is a part.
        tree: its own statements.
        spec: specification of the table that it accesses.
        kinds: the types of its arguments, None where they are not known.
        cls: the stateful class.

    Example:
        >>> def add(self, key: int, x: int): self.counts[key] += x
        >>> tree = ast.parse("def add(self, key, x): self.counts[key] += x").body[0]
        >>> from vertexsdk import Map
        >>> spec = TableSpec("counts", Map(int, int))
        >>> kinds = {"key": "int", "x": "int"}
        >>> text, _ = element_text(Method("add", add, tree, "", 1), tree, spec, kinds, object)
        >>> text.arguments
        ((1, 'int'),)
    """
    try:
        return Typed(method, tree, spec, kinds, cls).text(), ""
    except CannotCompile as error:
        _, line, reason = split_place(str(error))
        return None, f"line {line}, {reason.partition(': ')[2]}"


@dataclass(frozen=True)
class BlockColumns:
    """The columns that a kernel reads and writes.

    Attributes:
        elements: uint16[n], the task element of each call.
        places: int64[n], where the arguments of each call are in the columns of its task element.
        rows: int64[n], of the table, -1 for none.
        flags, fields: columns of the table.
        arguments: by (task element, place): the column.
        kinds, whole, real: uint8[n], int64[n], float64[n], the answers (`AnswerColumn`).
    """

    elements: NDArray[np.uint16]
    places: NDArray[np.int64]
    rows: NDArray[np.int64]
    flags: NDArray[np.uint8]
    fields: Mapping[str, NDArray[Any]]
    arguments: Mapping[tuple[int, int], NDArray[Any]]
    kinds: NDArray[np.uint8]
    whole: NDArray[np.int64]
    real: NDArray[np.float64]


class ElementKernel:
    """The kernel of a state element and a level, which is compiled when it is first asked for.

    Args:
        spec: specification of the table.
        elements: those that compile, by their place in the program.
        cls: the stateful class.

    Attributes:
        elements: their places.
        arguments: (task element, place, type) of each argument that they read.
        calls: how many calls were made of them, which its owner counts.
        failure: why it was not compiled.
    """

    def __init__(self, spec: TableSpec, elements: Mapping[int, TaskElement], cls: type) -> None:
        self.elements = frozenset(elements)
        self._texts = texts = {e: one.text for e, one in elements.items() if one.text is not None}
        self._bodies, self._cls = {e: one.body for e, one in elements.items()}, cls
        self._fields = {n: k for n, k in spec.fields.items() if k in NUMBERS}
        self.arguments = [(e, p, kind) for e, text in texts.items() for p, kind in text.arguments]
        self.calls = 0
        self._constants = [(e, n, kind) for e, text in texts.items() for n, kind in text.constants]
        self._source = self._text()
        self._kernel: Any = _compiled.get(self._source)
        self._thread: threading.Thread | None = None
        self._started, self.failure = False, ""

    def ready(self, *, waits: bool) -> bool:
        """Return whether it is compiled; begin to compile it in a thread where that is not done.

        Args:
            waits: return when it is.
        """
        if not self.compiled and not self._started:
            self._started = True
            self._start()
        if waits and self._thread is not None:
            self._thread.join()
        return self.compiled

    @property
    def compiled(self) -> bool:
        """True once the kernel is compiled."""
        return self._kernel is not None

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._compile, name="vertexsdk-compile")
        self._thread.start()

    def _compile(self) -> None:
        try:
            run = load_module(self._source).run
            none = {kind: _read_only(np.empty(0, dtype)) for kind, dtype in NUMBERS.items()}
            block = BlockColumns(
                np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.int64),
                np.empty(0, np.uint8),
                {name: np.empty(0, NUMBERS[kind]) for name, kind in self._fields.items()},
                {(e, p): none[kind] for e, p, kind in self.arguments},
                np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.float64),
            )  # fmt: skip
            constants = [DEFAULTS[kind] for _, _, kind in self._constants]
            run(0, 0, np.zeros(1, np.int64), *self._given(block), *constants)
            self._kernel = _compiled[self._source] = run
        except Exception as error:  # it stays interpreted, as what is not ready
            self.failure = first_line(error) or type(error).__name__
            _log.warning("%s: a kernel was not compiled: %s", self._cls.__name__, self.failure)

    def constants(self) -> list[Any] | None:
        """Return the constants of modules and the class; None if one has another type by now."""
        values = [_constant(self._bodies[e], self._cls, name) for e, name, _ in self._constants]
        kinds = [kind for _, _, kind in self._constants]
        same = [type(x).__name__ == kind for x, kind in zip(values, kinds, strict=True)]
        fits = all(type(x) is not int or -(1 << 63) <= x < 1 << 63 for x in values)
        return values if all(same) and fits else None

    def run(self, block: BlockColumns, low: int, high: int, constants: Sequence[Any]) -> int:
        """Run the calls low, low + 1, ... of a block; return the first that Python has to run.

        Args:
            block: the calls.
            low, high: the range of calls to run.
            constants: as `constants` returned them.
        """
        at = np.full(1, low, np.int64)
        try:
            self._kernel(low, high, at, *self._given(block), *constants)
        except ArithmeticError:
            return int(at[0])
        return high

    def _given(self, block: BlockColumns) -> list[Any]:
        arguments = [_read_only(block.arguments[e, p]) for e, p, _ in self.arguments]
        return [
            block.elements, block.places, block.rows, block.flags,
            *(block.fields[name] for name in self._fields), *arguments,
            block.kinds, block.whole, block.real,
        ]  # fmt: skip

    def _text(self) -> str:
        """Return the module of the kernel."""
        functions, cases = [], []
        for e, text in self._texts.items():
            arguments = ["p", *(f"v_{n}" for n in text.reads), *(f"x_{n}" for n in text.names)]
            arguments += [f"u_{n.replace('.', '_')}" for n, _ in text.constants]
            functions.append(f"@_jit\ndef _element_{e}({', '.join(arguments)}):\n{text.body}\n")
            cases.append(self._case(e, text))
        columns = [*(f"F_{n}" for n in self._fields), *(f"A_{e}_{p}" for e, p, _ in self.arguments)]
        constants = [f"U_{e}_{n.replace('.', '_')}" for e, n, _ in self._constants]
        head = ", ".join([
            "low", "high", "at", "elements", "places", "rows", "flags", *columns, "kinds", "whole",
            "real", *constants,
        ])  # fmt: skip
        lines = [
            "@_jit", f"def run({head}):", "    for k in range(low, high):", "        at[0] = k",
            f"        ahead = rows[min(k + {_AHEAD}, high - 1)]",
            "        _prefetch(flags, ahead)",
            *(f"        _prefetch(F_{n}, ahead)" for n in self._fields),
            "        row, e, j = rows[k], elements[k], places[k]",
            "        p = row >= 0 and flags[row] & 1 != 0",
        ]  # fmt: skip
        return "\n".join([_HEAD, *functions, *lines, *cases, ""])

    def _case(self, e: int, text: ElementText) -> str:
        """Return what the kernel does for a call of one task element."""
        arguments = ["p"]
        lines = [f"if e == {e}:"]
        for n in text.reads:
            default = f"{self._fields[n]}(0)" if self._fields[n] != "int" else "np.int64(0)"
            lines.append(f"    v_{n} = F_{n}[row] if row >= 0 else {default}")
            arguments.append(f"v_{n}")
        arguments += [f"A_{e}_{p}[j]" for p, _ in text.arguments]
        arguments += [f"U_{e}_{n.replace('.', '_')}" for n, _ in text.constants]
        results = ["p", "w", *(f"w_{n}" for n in text.stores), "kinds[k]", "whole[k]", "real[k]"]
        lines.append(f"    {', '.join(results)} = _element_{e}({', '.join(arguments)})")
        if text.changes:
            lines.append("    if w:")
            lines += [f"        F_{n}[row] = w_{n}" for n in text.stores]
            lines.append("        flags[row] = np.uint8((flags[row] & 4) | (3 if p else 2))")
        return "\n".join("        " + line for line in lines)


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """Return a view of the same type for every column, as a kernel is compiled for one type."""
    column = np.require(column, requirements=["C", "A"]).view()
    column.flags.writeable = False
    return column


def _constant(body: Function, cls: type, name: str) -> Any:
    """Return the value of a name outside of a function: `x`, `module.x`, or `self.x`."""
    first, *rest = name.split(".")
    if first == "self":
        return inspect.getattr_static(cls, rest[0], None)
    code = body.__code__
    if first in code.co_freevars:
        cell = (body.__closure__ or ())[code.co_freevars.index(first)]
        value = cell.cell_contents
    else:
        value = body.__globals__.get(first)
    for part in rest:
        value = getattr(value, part, None) if isinstance(value, ModuleType) else None
    return value
