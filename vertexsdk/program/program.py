"""Vertex classes checked and put together into programs.

A class is checked when it is defined, so that a mistake is met there and not in a worker. What its
declarations and its source tell is kept in one `ClassSpec` per class.
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vertexsdk.errors import InputError, ProgramError
from vertexsdk.program._class_checks import check_class
from vertexsdk.program.algebra import Algebra, Latest, VertexId, dtype_of, to_int64, wrapped
from vertexsdk.program.facts import Facts, read_facts
from vertexsdk.program.fields import StateField
from vertexsdk.program.syntax import Method, class_lines, file_tree, function_tree, reachable
from vertexsdk.program.vertex import (
    MISSING,
    VARIANTS,
    Bounds,
    Field,
    Vertex,
    declared_fields,
    on_definition,
)

DIRECTIONS = ("out", "in", "both", "undirected")
READ_ONLY = ("id", "loop", "num_vertices", "targets")


@dataclass(frozen=True)
class ClassSpec:
    """One Vertex class: where it is, what it declares, and the facts of its source.

    Attributes:
        cls: the class; `name`, `file` and `line` say where it is defined.
        states: its state fields by name.
        params: the type and default of each parameter; `MISSING` without a default.
        aggregators: the algebra of each aggregator.
        producers: the value type of each map of producers.
        methods: its methods by name, without those of `Vertex` itself.
        algebra: the algebra of its messages; None at the events level.
        result: the state field that is written as `value`.
        facts: what its methods read, change and send.
        code: the code of its interpreted methods, by name, from `compile._arithmetic`.
    """

    cls: type[Vertex]
    name: str
    file: str
    line: int
    states: Mapping[str, StateField]
    params: Mapping[str, tuple[Any, Any]]
    aggregators: Mapping[str, Algebra]
    producers: Mapping[str, Any]
    methods: Mapping[str, Method]
    algebra: Algebra | None
    result: str
    facts: Facts
    code: Mapping[str, Any] = field(default_factory=dict)

    @property
    def latest(self) -> bool:
        """True if messages are kept per producer instead of being combined."""
        return isinstance(self.algebra, Latest)

    @property
    def value_dtype(self) -> str | None:
        """The dtype in which edge values are loaded, None where no method reads them."""
        if not self.facts.reads_value:
            return None
        edge = self.cls.edge
        if isinstance(edge, Mapping):
            return ",".join(f"{name}={_value_dtype(kind)}" for name, kind in edge.items())
        return _value_dtype(edge)


def _value_dtype(kind: type) -> str:
    if issubclass(kind, enum.IntEnum):
        members = ";".join(f"{name}:{int(m)}" for name, m in kind.__members__.items())
        return f"int64{{{members}}}"
    return "int64" if dtype_of(kind).kind == "i" else "float64"


@dataclass(frozen=True)
class Program:
    """One or several Vertex classes that run together.

    Args:
        classes: subclasses of `Vertex` with the same `direction`, `parallel_edges` and `edge`; all
            declare an algebra, or none do.
        name: the program's name; by default made of the class names.

    Raises:
        ProgramError: no class, no subclass of `Vertex`, or classes that do not fit together.

    >>> from vertexsdk.algorithms import ShortestPaths
    >>> Program(ShortestPaths).name
    'shortestpaths'
    """

    classes: tuple[ClassSpec, ...]
    name: str = ""
    aggregators: Mapping[str, Algebra] = field(default_factory=dict)

    def __init__(self, *classes: type[Vertex], name: str | None = None) -> None:
        specs = tuple(spec_of(c) for c in classes)
        if not specs:
            raise ProgramError("Program() needs at least one Vertex subclass")
        first = specs[0]
        for other in specs[1:]:
            for attribute in ("direction", "parallel_edges", "edge"):
                if getattr(other.cls, attribute) != getattr(first.cls, attribute):
                    raise ProgramError(
                        f"{_where(other)}: {attribute} differs from {first.name}'s; classes of one "
                        "program share it"
                    )
            if (other.algebra is None) != (first.algebra is None):
                raise ProgramError(
                    f"{_where(other)}: messages = {other.algebra}, but {first.name}'s are "
                    f"{first.algebra}; the classes of a program all declare an algebra, or none do"
                )
        aggregators: dict[str, Algebra] = {}
        for spec in specs:
            for key, algebra in spec.aggregators.items():
                if repr(aggregators.setdefault(key, algebra)) != repr(algebra):
                    raise ProgramError(f"{_where(spec)}: aggregator {key!r} has two algebras")
        object.__setattr__(self, "classes", specs)
        object.__setattr__(self, "name", name or "-".join(s.name for s in specs).lower())
        object.__setattr__(self, "aggregators", aggregators)

    def __repr__(self) -> str:
        return f"Program({', '.join(spec.name for spec in self.classes)}, name={self.name!r})"

    @property
    def algebra(self) -> Algebra | None:
        """The message algebra, None at the events level.

        Classes with different algebras share `Latest(object)`: every message is kept, and each
        class combines by its own when it gathers.
        """
        return Latest(object) if self.mixed else self.classes[0].algebra

    @property
    def prepares(self) -> bool:
        """True if the first class has a method `prepare`, for which the graph must not change."""
        declared: Any = self.classes[0].cls.prepare
        plain: Any = Vertex.prepare
        return declared.__func__ is not plain.__func__

    @property
    def built_in(self) -> bool:
        """True if the classes are in `vertexsdk.algorithms`."""
        return all(spec.cls.__module__.startswith("vertexsdk.algorithms") for spec in self.classes)

    @property
    def mixed(self) -> bool:
        """True if the classes gather different kinds of message."""
        return len({repr(s.algebra) for s in self.classes}) > 1

    @property
    def direction(self) -> str:
        """The direction in which messages travel along edges."""
        return self.classes[0].cls.direction

    @property
    def reads_loop(self) -> bool:
        """True if what a method does depends on the loop it runs in."""
        return any(s.facts.reads_loop or s.facts.adapts for s in self.classes)

    @property
    def value_dtype(self) -> str | None:
        """The dtype of edge values to load, None where no class reads them."""
        return next((s.value_dtype for s in self.classes if s.value_dtype), None)

    @property
    def result(self) -> str:
        """The state field which is written as `value`."""
        return self.classes[0].result

    def states(self) -> dict[str, StateField]:
        """All state columns by name; a column of a second class is named Class.field."""
        columns = dict(self.classes[0].states)
        for spec in self.classes[1:]:
            columns.update({f"{spec.name}.{k}": v for k, v in spec.states.items()})
        return columns

    def column(self, kind: int, name: str) -> str:
        """The column name of field `name` of class number `kind`."""
        return name if kind == 0 else f"{self.classes[kind].name}.{name}"

    def schema(self) -> dict[str, Any]:
        """The state's schema, as a manifest keeps it; `Fields` reads it.

        With several classes every column says which class's field it is, and the class's number.
        """
        columns: dict[str, dict[str, Any]] = {}
        for kind, spec in enumerate(self.classes):
            for name, f in spec.states.items():
                column = {"type": getattr(f.type, "__name__", str(f.type)), "size": f.size}
                if len(self.classes) > 1:
                    column |= {"class": spec.name, "kind": kind, "field": name}
                    column |= {"result": True} if name == spec.result else {}
                columns[self.column(kind, name)] = column
        return columns

    def bind(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return every parameter's value, converted to its declared type.

        Args:
            params: values by name; those that are missing get their defaults.

        Raises:
            InputError: an unknown or missing parameter, or a value of the wrong type.
        """
        declared: dict[str, tuple[Any, Any]] = {}
        for spec in self.classes:
            declared.update(spec.params)
        for name in params:
            if name not in declared:
                known = ", ".join(sorted(declared)) or "none"
                raise InputError(f"{self.name}: no parameter {name!r}; it has: {known}")
        bound: dict[str, Any] = {}
        for name, (kind, default) in declared.items():
            if name in params:
                value = params[name]
                if value is not None or default is not None:
                    value = _convert(self.name, name, kind, value)
                bounds = self._bounds(name)
                if bounds is not None and value is not None and not bounds.hold(value):
                    raise InputError(f"{self.name}: {name}={value:g} is not in {bounds}")
                bound[name] = value
            elif default is MISSING:
                raise InputError(f"{self.name}: give a value for {name}, e.g. {name}=...")
            else:
                bound[name] = default
        for spec in self.classes:
            self._choose(spec, bound)
        return bound

    def variant(self, params: Mapping[str, Any]) -> Program:
        """Return the program whose classes are the variants that parameters choose.

        Args:
            params: values by name, as from the user.

        Raises:
            InputError: a value chooses none of the variants that there are.

        >>> from vertexsdk.algorithms import PageRank
        >>> Program(PageRank).variant({"weight": "value"})
        Program(WeightedPageRank, name='pagerank')
        """
        return Program(*(self._choose(spec, params) for spec in self.classes), name=self.name)

    def _choose(self, spec: ClassSpec, params: Mapping[str, Any]) -> type[Vertex]:
        """Return the variant of a class that parameters choose, or the class itself.

        Raises:
            InputError: a parameter that chooses variants of this class, or of a base, has a value
                that chooses none.
        """
        chosen, choices = spec.cls, dict[str, list[Any]]()
        values = {n: default for n, (_, default) in spec.params.items()}
        for name, x in params.items():
            if name in values and x is not None:
                values[name] = _convert(self.name, name, spec.params[name][0], x)
        for base in spec.cls.__mro__:
            for when, variant in VARIANTS.get(base, ()):
                applies = base is spec.cls or issubclass(spec.cls, variant)
                for name, value in when.items():
                    choices.setdefault(name, []).extend([value] if applies else [])
                if base is spec.cls and all(_same(values[n], x) for n, x in when.items()):
                    chosen = variant
        for name, allowed in choices.items():
            value, default = values[name], spec.params[name][1]
            if not any(_same(value, x) for x in (default, *allowed)):
                options = " or ".join(map(repr, allowed))
                options = options or f"{default!r}, as {spec.name} has no variant"
                raise InputError(f"{self.name}: {name}={value!r}: give {options}, or leave it out")
        return chosen

    def _bounds(self, name: str) -> Bounds | None:
        """The numbers that a parameter may have."""
        fields = (dict(declared_fields(spec.cls)).get(name) for spec in self.classes)
        return next((f.bounds for f in fields if f is not None), None)

    def named_vertices(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some parameters' values that are ids of vertices, by parameter.

        An id in text, as the command line has it, is an integer if it prints back as it is.

        >>> from vertexsdk.algorithms import PageRank
        >>> Program(PageRank).named_vertices({"damping": 0.9, "personalise": "17"})
        {'personalise': 17}
        """
        kinds = {n: kind for s in self.classes for n, (kind, _) in s.params.items()}
        ids = {n: x for n, x in values.items() if kinds.get(n) is VertexId and x is not None}
        return {n: _convert(self.name, n, VertexId, x) for n, x in ids.items()}


def _convert(program: str, name: str, kind: Any, value: Any) -> Any:
    if kind is VertexId and value is not None:
        # "007" stays text: only the graph knows whether its ids are integers
        text = str(value)
        digits = text.removeprefix("-")
        canonical = digits.isascii() and digits.isdecimal() and len(digits) < 20
        return int(text) if canonical and str(int(text)) == text else text
    try:
        if kind is bool and isinstance(value, str):
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                value.lower()
            ]
        if (typing.get_origin(kind) or kind) is tuple and isinstance(value, list):
            return tuple(value)
        if kind in (int, float, str, bool):
            if kind is int and isinstance(value, float) and value != int(value):
                raise ValueError
            if kind is int and int(value) != to_int64(int(value)):
                raise ValueError
            return kind(value)
    except (ValueError, KeyError, OverflowError, TypeError):
        raise InputError(
            f"{program}: parameter {name} takes {kind.__name__}, not {value!r}"
        ) from None
    return value


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def constant_of(value: Any) -> Any:
    """Return a parameter that is a tuple or array of numbers as methods get it; else None.

    Its ints wrap around, and an array is a copy that cannot be written to.
    """
    if isinstance(value, tuple) and value and all(isinstance(x, (int, float)) for x in value):
        return tuple(map(wrapped, value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "bif":
        array = np.array(value, order="C")
        array.flags.writeable = False
        return array
    return None


def compiled_params(spec: ClassSpec, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that compiled methods take, as they get them."""
    kinds = {name: dtype_of(kind) for name, (kind, _) in spec.params.items()}
    values: dict[str, Any] = {}
    for name, t in kinds.items():
        x = params[name]
        if x is None and spec.params[name][1] is None:  # left out, which methods may ask
            values[name] = None
        elif (x := constant_of(x) if t == object else t.type(x).item()) is not None:
            values[name] = x
    return values


_SPECS: dict[type, ClassSpec] = {}
_ARGUMENTS = {
    "init": "self",
    "adapt": "self",
    "gather": "self, iteration, source, delta",
    "scatter": "self, iteration",
    "next_round": "self, round",
}
_NOT_ATTRIBUTES = (
    *("id", "value", "reverse", "edge", "rows", "targets"),  # of `Target`
    *("kind", "source", "target", "src", "dst"),  # columns of edges and changes
)


def spec_of(cls: type[Vertex]) -> ClassSpec:
    """Return the spec of a Vertex subclass, made when it was defined.

    Raises:
        ProgramError: it is not a subclass of `Vertex`, or cannot run as written.
    """
    if not (isinstance(cls, type) and issubclass(cls, Vertex)) or cls is Vertex:
        raise ProgramError(f"{cls!r} is not a subclass of vertexsdk.Vertex")
    if cls not in _SPECS:
        analyse(cls)
    return _SPECS[cls]


def analyse(cls: type[Vertex]) -> ClassSpec:
    """Check a class when it is defined, and return its spec.

    Raises:
        ProgramError: naming class, file and line.
    """
    methods = dict(_methods(cls))
    file, line = _place(cls, methods)
    where = f"{file}:{line}: {cls.__name__}"
    if cls.messages is not None and not isinstance(cls.messages, Algebra):
        raise ProgramError(
            f"{where}: messages = {cls.messages!r}; give Sum(float), Min(int), Latest(...), or "
            "an Algebra, or leave it out for the events level"
        )
    if cls.direction not in DIRECTIONS:
        raise ProgramError(f"{where}: direction = {cls.direction!r}; one of {DIRECTIONS}")
    check_class(cls, methods, file, line)
    for needed in ("gather", "scatter") if cls.messages is not None else ("scatter",):
        if needed not in methods:
            raise ProgramError(f"{where}: has no method {needed}(); write one")
    for name, arguments in _ARGUMENTS.items():
        if name in methods:
            actual = methods[name].function.__code__.co_argcount
            if actual != len(arguments.split()):
                raise ProgramError(
                    f"{_at(methods[name])}: {cls.__name__}.{name} takes ({arguments}), "
                    f"this one has {actual} arguments"
                )
    states, params, aggregators, maps = _declarations(cls, where)
    facts = read_facts(cls, states, aggregators, methods)
    _check_edge(cls, where, facts)
    _check_rounds(cls, methods, facts)
    result = cls.result or next(iter(states), next(iter(maps), ""))
    if result not in states and (cls.result or result not in maps):
        raise ProgramError(f"{where}: result = {result!r} is not a state field")
    _check_names(cls, methods, states, params, aggregators, maps)
    for root in ("init", "adapt", "gather", "next_round", "converged"):
        for method in reachable(methods, root):
            for node in method.nodes():
                if method.is_self(node, "emit", "emitAll"):
                    raise ProgramError(
                        f"{_at(method, node)}: {cls.__name__}: {node.attr} in {root}; only scatter "
                        "may send"
                    )
    _SPECS[cls] = ClassSpec(
        cls, cls.__name__, file, line, states, params, aggregators, maps, methods, cls.messages,
        result, facts,
    )  # fmt: skip
    return _SPECS[cls]


def _check_rounds(cls: type[Vertex], methods: Mapping[str, Method], facts: Facts) -> None:
    """Raise ProgramError for rounds of events, and for rounds that would never end."""
    if not facts.rounds:
        return
    where = f"{_at(methods['next_round'])}: {cls.__name__}.next_round"
    if cls.messages is None:
        raise ProgramError(f"{where} needs messages = ...: a class of events has no rounds")
    if facts.volatile and facts.source_missing is None:
        raise ProgramError(
            f"{where}: rounds end when no vertex changes, but scatter may send something else "
            "though no field has changed: let it read fields only"
        )


def _check_edge(cls: type[Vertex], where: str, facts: Facts) -> None:
    """Raise ProgramError for edge attributes that no graph can have."""
    if not isinstance(cls.edge, Mapping):
        if issubclass(cls.edge, enum.Enum):
            raise ProgramError(
                f"{where}: edge = {cls.edge.__name__}: name the attribute, as in "
                f"edge = {{'relation': {cls.edge.__name__}}}"
            )
        return
    for name, kind in cls.edge.items():
        named = isinstance(kind, type) and issubclass(kind, enum.IntEnum)
        fits = named or kind in (int, float)
        if not name.isidentifier() or name in _NOT_ATTRIBUTES or not fits:
            raise ProgramError(
                f"{where}: edge = {{{name!r}: {getattr(kind, '__name__', kind)}}}: an attribute is "
                f"int or float, or an IntEnum, and its name is none of {', '.join(_NOT_ATTRIBUTES)}"
            )
        members = [*kind.__members__.items()] if issubclass(kind, enum.IntEnum) else [("one", 1)]
        if not members or not all(n.isidentifier() and abs(x) < 2**63 for n, x in members):
            raise ProgramError(
                f"{where}: edge = {{{name!r}: {kind.__name__}}}: the IntEnum needs members whose "
                "names are identifiers and whose numbers are between -2**63 and 2**63"
            )
    if not cls.edge:
        raise ProgramError(f"{where}: edge = {{}}: name an attribute, or leave it out")
    if facts.source_missing is not None:
        raise ProgramError(
            f"{where}: several edge attributes need methods that can be read, and "
            f"{facts.source_missing}: define the class in a file or a notebook"
        )
    if cls.messages is None or facts.changes_graph:
        raise ProgramError(
            f"{where}: several edge attributes need declared messages, and methods that do not "
            "call addTarget or removeTarget; use one edge value"
        )


def _methods(cls: type[Vertex]) -> Iterator[tuple[str, Method]]:
    for name, value in inspect.getmembers(cls, inspect.isfunction):
        if getattr(Vertex, name, None) is value or name.startswith("__"):
            continue
        code = value.__code__
        tree = function_tree(value)
        yield name, Method(name, value, tree, code.co_filename, code.co_firstlineno)


def _place(cls: type[Vertex], methods: Mapping[str, Method]) -> tuple[str, int]:
    """The file and line of the class statement, as near as the source lets one tell."""
    methods_of_class = [m for m in methods.values() if m.name in vars(cls)]
    first = min(methods_of_class, key=lambda m: m.line, default=None)
    module = sys.modules.get(cls.__module__)
    file = first.file if first else getattr(module, "__file__", None) or "<unknown>"
    places = [
        node.lineno
        for node in ast.walk(file_tree(file))
        if isinstance(node, ast.ClassDef)
        and node.name == cls.__name__
        and (first is None or node.lineno < first.line <= (node.end_lineno or 0))
    ]
    return file, places[-1] if places else max(1, first.line - 1) if first else 1


def declaration_line(spec: ClassSpec, name: str) -> int:
    """The line on which a class declares a field; that of the class if a base does."""
    return class_lines(spec.file, spec.line).get(name, spec.line)


def _declarations(
    cls: type[Vertex], where: str
) -> tuple[dict[str, StateField], dict[str, tuple[Any, Any]], dict[str, Algebra], dict[str, Any]]:
    """The state fields, parameters, aggregators and maps of producers of a class."""
    hints = _hints(cls)
    states: dict[str, StateField] = {}
    params: dict[str, tuple[Any, Any]] = {}
    aggregators: dict[str, Algebra] = {}
    maps: dict[str, Any] = {}
    for name, f in declared_fields(cls):
        if hasattr(Vertex, name):
            raise ProgramError(f"{where}: field {name!r} is a name of Vertex itself; rename it")
        kind = hints.get(name)
        if f.role == "aggregate":
            aggregators[name] = typing.cast(Algebra, f.algebra)
            continue
        if f.role == "producers":
            maps[name] = f.type
            continue
        if kind is None:
            kind = type(f.default) if f.default is not MISSING else None
        if kind is None:
            raise ProgramError(f"{where}: field {name!r} needs a type: {name}: float = {f.role}()")
        if f.role == "param":
            params[name] = (kind, f.default)
        else:
            states[name] = _state(where, name, kind, f)
            if name == "name" and states[name].dtype == object:
                raise ProgramError(
                    f"{where}: a field called 'name' cannot be {kind.__name__}, as string ids are "
                    "kept under that name; call it e.g. label"
                )
    for name, kind in hints.items():
        if name in vars(cls).get("__annotations__", {}) and not hasattr(cls, name):
            raise ProgramError(
                f"{where}: {name}: {getattr(kind, '__name__', kind)} is neither state() nor param()"
            )
    if not states and not maps:
        raise ProgramError(f"{where}: declares no state; write e.g. length: float = state(0.0)")
    return states, params, aggregators, maps


def _hints(cls: type[Vertex]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(inspect.getmro(cls)):
        if base in (Vertex, object):
            continue
        module = inspect.getmodule(base)
        space = {**vars(typing), **(vars(module) if module else {}), "VertexId": VertexId}
        for name, hint in vars(base).get("__annotations__", {}).items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, space)
                except Exception:
                    hint = {"int": int, "float": float, "bool": bool, "str": str}.get(hint, object)
            field = vars(base).get(name)
            vector = isinstance(field, Field) and field.role == "state"
            number = _number_of_array(hint) if vector else None
            if type(None) in typing.get_args(hint):  # X | None
                hint = next(a for a in typing.get_args(hint) if a is not type(None))
            hints[name] = number or typing.get_origin(hint) or hint
    return hints


def _number_of_array(hint: Any) -> type | None:
    """Return int, float or bool for `NDArray[np.int64]` and the like, the types of vectors."""
    if typing.get_origin(hint) is not np.ndarray:
        return None
    number = (typing.get_args(typing.get_args(hint)[1]) or (None,))[0]
    kinds = {np.int64: int, np.float64: float, np.bool_: bool}
    return kinds.get(typing.cast(Any, number))


def _state(where: str, name: str, kind: Any, f: Field) -> StateField:
    dtype, size, default = dtype_of(kind), f.size, f.default
    if size is not None:
        if not isinstance(size, int) or size < 1 or dtype == object:
            raise ProgramError(f"{where}: {name}: a vector needs size >= 1 of int, float or bool")
    fits = True
    if default is MISSING:
        default = None if dtype == object else dtype.type(0).item()
    elif dtype != object:
        ok = {"f": (int, float), "i": (int,), "b": (bool,)}[dtype.kind]
        for v in np.ravel(np.asarray(default, dtype=object)):
            number = v.item() if isinstance(v, np.generic) else v
            fits &= isinstance(number, ok) and (dtype.kind == "b" or not isinstance(number, bool))
    elif isinstance(kind, type) and default is not None:
        fits = isinstance(default, kind)
    if not fits:
        raise ProgramError(f"{where}: {name} is {kind.__name__}, its default {default!r} is not")
    return StateField(name, kind, size, default, f.bounds)


def _at(method: Method, node: ast.AST | None = None) -> str:
    return f"{method.file}:{getattr(node, 'lineno', method.line)}"


def _where(spec: ClassSpec) -> str:
    return f"{spec.file}:{spec.line}: {spec.name}"


def _check_names(
    cls: type[Vertex],
    methods: Mapping[str, Method],
    states: Mapping[str, StateField],
    params: Mapping[str, Any],
    aggregators: Mapping[str, Algebra],
    maps: Mapping[str, Any],
) -> None:
    """Raise ProgramError for the first `self.x` that is not declared, or may not be assigned."""
    members = {n for n in dir(cls) if not n.startswith("__")}
    known = {*states, *params, *aggregators, *maps, *READ_ONLY, *members}
    for method, node in ((m, n) for m in methods.values() for n in m.nodes()):
        if not method.is_self(node):
            continue
        name, at = node.attr, f"{_at(method, node)}: {cls.__name__}"
        load = isinstance(node.ctx, ast.Load)
        if not load and name in params:
            raise ProgramError(f"{at}: parameter {name} is read-only; make it a state field")
        if not load and name in aggregators:
            raise ProgramError(f"{at}: {name} is an aggregator; use self.{name}.contribute(x)")
        if name not in (known if load else {*states, *maps}):
            raise ProgramError(
                f"{at}: self.{name} is not declared; add {name}: float = state() to the class"
            )


def new_driver(spec: ClassSpec, params: Mapping[str, Any], num_vertices: int) -> Vertex:
    """Return the object on which `converged` is called: it has parameters and vertex count only.

    Args:
        spec: the class of the object.
        params: the value of every parameter, as from `Program.bind`.
        num_vertices: the graph's number of vertices.
    """
    driver: Vertex = object.__new__(spec.cls)
    driver.__dict__.update(params)
    driver.num_vertices = num_vertices
    return driver


on_definition(analyse)
