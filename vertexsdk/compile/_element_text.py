"""One task element as the text of a function of numbers: its statements with a type for each name.

A name has one type wherever it is bound, and has a value wherever it is read, or the task element
does not compile: so nothing depends on what Numba would make of two types. A value that may be None
has a second variable, whether it is there; where it is not and a number is needed, Python runs the
call.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from vertexsdk.compile._rewrite import CannotCompile, free_names, lookup
from vertexsdk.program.keyed import DEFAULTS, KINDS, ElementText, TableSpec, with_article
from vertexsdk.program.syntax import Method, is_docstring

NONE, INT, FLOAT, BOOL, EMPTY, UNSET = range(6)  # kinds of answers; EMPTY is ()
_TAGS = {"int": INT, "float": FLOAT, "bool": BOOL}
_INTS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo", ast.Pow: "power", ast.LShift: "left_shift", ast.RShift: "right_shift",
}  # fmt: skip
_FLOATS: dict[type, str] = {
    ast.Div: "divide", ast.FloorDiv: "float_floor_divide", ast.Mod: "float_modulo",
}  # fmt: skip
_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.MatMult: "@",
}  # fmt: skip
_GENERATED = re.compile(r"\b_[a-z]+\d+\b")  # names of the parts of a method
_EFFECTS = ("pop", "setdefault")


class Term(NamedTuple):
    """An expression.

    Attributes:
        text: its text.
        kind: "int", "float", "bool", "str" for what is not a number, "None" or "row".
        there: the text of whether it is not None; "" where it never is.
    """

    text: str
    kind: str
    there: str = ""


class Typed:
    """One task element, whose `text` it makes.

    Args:
        method: the method of which it is a part.
        tree: its own statements.
        spec: specification of the table that it accesses.
        kinds: the types of its arguments, None where they are not known.
        cls: the stateful class.
    """

    def __init__(
        self, method: Method, tree: ast.FunctionDef, spec: TableSpec,
        kinds: Mapping[str, str | None], cls: type,
    ) -> None:  # fmt: skip
        self._method, self._tree, self._spec, self._cls = method, tree, spec, cls
        self._me = tree.args.args[0].arg
        self._places = {a.arg: k for k, a in enumerate(tree.args.args[1:])}
        self._arguments = dict(kinds)
        self._kinds: dict[str, str] = {}  # of local names; "int?" for an int or None
        self._bound: set[str] = set()
        self._free = {name for name, _ in free_names(tree)}
        self._used: dict[str, str] = {}  # arguments that are read
        self._constants: dict[str, str] = {}
        self._reads: set[str] = set()
        self._stores: set[str] = set()
        self._changes = False
        self._loops = 0
        self._lines: list[str] = []
        self._depth = 1

    def text(self) -> ElementText:
        """Return it for the compiler.

        Raises:
            CannotCompile: with the line and the reason.
        """
        self._bound = {n for n, kind in self._arguments.items() if kind in _TAGS}
        self._kinds = {n: self._arguments[n] or "" for n in self._bound}
        ends = self._block(self._tree.body)
        if not ends:
            self._return(Term("", "None"))
        first = [f"    h_{n} = False" for n, kind in self._kinds.items() if kind.endswith("?")]
        stores = tuple(f for f in self._spec.fields if f in self._stores)
        body = "\n".join(["    w = False", *first, *self._lines])
        body = body.replace("STORES", "".join(f"v_{n}, " for n in stores))
        reads = tuple(f for f in self._spec.fields if f in self._reads | self._stores)
        names = tuple(n for n in self._places if n in self._used)
        return ElementText(
            body, reads, stores, self._changes, names,
            tuple((self._places[n], self._used[n]) for n in names),
            tuple(self._constants.items()),
        )  # fmt: skip

    def _fail(self, node: ast.AST, reason: str) -> NoReturn:
        written = getattr(node, "lineno", 0) >= self._method.line  # else it was generated
        raise CannotCompile(
            self._method, node if written else None, _GENERATED.sub("a value", reason)
        )

    def _not(self, node: ast.AST, what: str = "") -> NoReturn:
        shown = what or " ".join(ast.unparse(node).split())
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        self._fail(node, f"{shown} does not compile")

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        """Write statements; return whether what follows them is never reached."""
        return any(self._statement(statement) for statement in statements)

    def _nested(self, statements: Sequence[ast.stmt]) -> bool:
        self._depth += 1
        self._line("pass")
        ends = self._block(statements)
        self._depth -= 1
        return ends

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Pass():
                pass
            case ast.Expr() if is_docstring(node):
                pass
            case ast.Expr():
                self._value(node.value)
            case ast.Return(value=ast.IfExp() as choice):
                one, other = ast.Return(choice.body), ast.Return(choice.orelse)
                made = ast.If(choice.test, [one], [other])
                return self._if(ast.fix_missing_locations(ast.copy_location(made, node)))
            case ast.Return():
                self._return(Term("", "None") if node.value is None else self._result(node.value))
                return True
            case ast.Raise():
                self._leave()
                return True
            case ast.Assert():
                self._line(f"if not {self._truth(node.test)}: _exact.leave()")
            case ast.If(test=ast.Compare(left=left, comparators=[ast.Name(id="_UNSET")])):
                self._fail(node, f"{ast.unparse(left)} may have no value")
            case ast.If():
                return self._if(node)
            case ast.For():
                self._for(node)
            case ast.Break() | ast.Continue() if self._loops:
                self._line("break" if isinstance(node, ast.Break) else "continue")
                return True
            case ast.Assign():
                self._assign(node)
            case ast.AnnAssign(value=ast.expr() as value):
                self._set(node.target, self._value(value), node)
            case ast.AugAssign():
                load = ast.parse(ast.unparse(node.target), mode="eval").body
                new = ast.BinOp(load, node.op, node.value)
                for part in ast.walk(load):
                    ast.copy_location(part, node)
                self._set(node.target, self._expr(ast.copy_location(new, node)), node)
            case ast.Delete():
                for target in node.targets:
                    if not self._is_row(target):
                        self._not(node)
                    self._line("if not p: _exact.leave()")
                    self._remove(node)
            case _:
                self._not(node, type(node).__name__.lower())
        return False

    def _leave(self) -> None:
        self._line("_exact.leave()")
        self._return(Term("", "None"))

    def _result(self, node: ast.expr) -> Term:
        """Return what a call answers, or an item has as its result."""
        if isinstance(node, ast.Tuple) and not node.elts:
            return Term(str(EMPTY), "tag")
        if isinstance(node, ast.Name) and node.id == "_UNSET":
            return Term(str(UNSET), "tag")
        if isinstance(node, ast.Tuple):
            self._fail(node, "it has several results")
        return self._value(node)

    def _return(self, term: Term) -> None:
        tag, integer, real = f"np.uint8({_TAGS.get(term.kind, NONE)})", "np.int64(0)", "0.0"
        if term.kind == "tag":
            tag = f"np.uint8({term.text})"
        elif term.kind == "float":
            real = term.text
        elif term.kind in _TAGS:
            integer = f"np.int64({term.text})"
        elif term.kind != "None":
            self._fail(self._at, f"it returns a {term.kind}")
        if term.there:
            tag = f"np.uint8({_TAGS[term.kind]} if {term.there} else 0)"
        self._line(f"return p, w, STORES{tag}, {integer}, {real}")

    _at: ast.AST = ast.Pass()

    def _if(self, node: ast.If) -> bool:
        self._line(f"if {self._truth(node.test)}:")
        bound_before = set(self._bound)
        first = self._nested(node.body)
        after, self._bound = self._bound, set(bound_before)
        second = False
        if node.orelse:
            self._line("else:")
            second = self._nested(node.orelse)
        if first or second:
            self._bound = after if second and not first else self._bound
        else:
            self._bound &= after
        return first and second

    def _for(self, node: ast.For) -> None:
        over = node.iter
        if not (self._is_builtin(over, "range") and isinstance(node.target, ast.Name)):
            self._not(over, f"a loop over {ast.unparse(over)}")
        if node.orelse:
            self._not(node.orelse[0], "else of a loop")
        ends = [self._as(self._expr(x), "int", x) for x in over.args]  # type: ignore[attr-defined]
        self._line(f"for t in range({', '.join(f'np.int64({x})' for x in ends)}):")
        bound_before = set(self._bound)
        self._loops += 1
        self._depth += 1
        self._set(node.target, Term("np.int64(t)", "int"), node)
        self._depth -= 1
        self._nested(node.body)
        self._loops -= 1
        self._bound = bound_before

    def _assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            if len(node.targets) > 1 or len(values) != len(target.elts):
                self._not(node)
            parts = [self._kept(self._expr(value), f"t_{k}") for k, value in enumerate(values)]
            for to, term in zip(target.elts, parts, strict=True):
                self._set(to, term, node)
            return
        term = self._value(node.value)
        if len(node.targets) > 1:
            term = self._kept(term, "t_0")
        for to in node.targets:
            self._set(to, term, node)

    def _kept(self, term: Term, name: str) -> Term:
        """Have the value of a term in a variable of its type."""
        if term.kind not in _TAGS:
            return term
        name = f"{name}_{term.kind}"
        self._line(f"{name} = {term.text}")
        if term.there:
            self._line(f"{name}_there = {term.there}")
        return Term(name, term.kind, term.there and f"{name}_there")

    def _set(self, target: ast.AST, term: Term, node: ast.AST) -> None:
        """Write an assignment."""
        if isinstance(target, ast.Name):
            self._set_name(target, term, node)
            return
        field = self._field(target)
        if field is None or field == "":
            self._not(node)
        value = self._stored(field, term, node)
        self._write_field(field, value)
        self._line("p = w = True")

    def _write_field(self, field: str, value: str) -> None:
        self._changes = True
        self._stores.add(field)
        self._line(f"v_{field} = {value}")

    def _stored(self, field: str, term: Term, node: ast.AST) -> str:
        """Return the text of a value as one of a field's type."""
        kind = self._spec.fields[field]
        if kind not in _TAGS:
            self._fail(node, f"{field} is {with_article(kind)}")
        term = self._number(term, node)
        if kind == term.kind or (kind == "int" and term.kind == "bool"):
            return f"np.int64({term.text})" if kind == "int" else term.text
        if kind == "float":
            return f"float({term.text})"
        self._fail(node, f"a {term.kind} is assigned to a {kind}")

    def _set_name(self, target: ast.Name, term: Term, node: ast.AST) -> None:
        name, kind = target.id, term.kind
        if name in self._arguments and self._arguments[name] is None:
            self._fail(node, f"the type of {name} is not known")
        if kind not in ("row", *_TAGS):
            self._fail(node, f"{name} is {kind}" if kind == "None" else f"{name} is a {kind}")
        kind += "?" if term.there else ""
        known = self._kinds.setdefault(name, kind)
        if known == "row" or name in self._arguments:
            alone = sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                        for n in ast.walk(self._tree)) == 1  # fmt: skip
            if known == "row" and (not alone or name in self._arguments):
                self._fail(node, f"{name} is a row here and something else there")
        if known != kind:
            self._fail(node, f"{name} is {known} here and {kind} there: give it one type")
        self._bound.add(name)
        if kind == "row":
            return
        if term.there:  # the value first: it may be that of the same name
            self._line(f"x_{name}, h_{name} = {term.text}, {term.there}")
        else:
            self._line(f"x_{name} = {term.text}")

    # The row

    def _is_table(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute) and node.attr == self._spec.name
            and isinstance(node.value, ast.Name) and node.value.id == self._me
        )  # fmt: skip

    def _is_key(self, node: ast.AST) -> bool:
        """Return whether an expression is the row's key, which has already been evaluated."""
        return isinstance(node, ast.Name | ast.Constant)

    def _is_row(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Subscript) and self._is_table(node.value)
            and self._is_key(node.slice)
        )  # fmt: skip

    def _field(self, node: ast.AST) -> str | None:
        """Return the field that a node reads or writes, "" for a row of several, else None."""
        spec = self._spec
        if not spec.element.keyed:
            value = isinstance(node, ast.Attribute) and node.attr == "value"
            return "value" if value and self._is_table(node.value) else None  # type: ignore[attr-defined]
        if self._is_row(node):
            return "value" if spec.single else ""
        if not spec.single and isinstance(node, ast.Attribute) and node.attr in spec.fields:
            base = node.value
            named = isinstance(base, ast.Name) and self._kinds.get(base.id) == "row"
            if self._is_row(base) or (named and base.id in self._bound):  # type: ignore[attr-defined]
                return node.attr
        return None

    def _remove(self, node: ast.AST) -> None:
        """Write what removes the row."""
        for field, kind in self._spec.fields.items():
            if kind not in _TAGS:
                self._fail(node, f"it removes a row with {with_article(kind)}, {field}")
            default = DEFAULTS[kind]
            self._write_field(field, f"np.int64({default})" if kind == "int" else repr(default))
        self._line("p, w = False, True")

    def _row_call(self, node: ast.expr) -> tuple[str, list[ast.expr]] | None:
        """Return the name and the other arguments where a node calls a method of the map."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return None
        if not self._is_table(node.func.value) or not node.args or node.keywords:
            return None
        return (node.func.attr, node.args[1:]) if self._is_key(node.args[0]) else None

    def _value(self, node: ast.expr) -> Term:
        """Return a whole expression, which may also change the row."""
        self._at = node
        call = self._row_call(node)
        if call is None or call[0] not in _EFFECTS or not self._spec.single:
            return self._expr(node)
        name, rest = call
        kind = self._spec.fields["value"]
        if kind not in _TAGS or len(rest) > 1:
            self._not(node)
        self._reads.add("value")
        none = name == "pop" and bool(rest) and _is_none(rest[0])
        if rest and not none:
            default = self._expr(rest[0])
            text = default.text
            if name == "setdefault":
                text = self._stored("value", default, node)
            elif default.kind != kind or default.there:
                self._fail(node, f"its value is {kind} here and {default.kind} there")
            self._line(f"t_{kind} = _exact.chosen(p, v_value, {text})")
        elif none or rest:
            self._line(f"t_{kind} = v_value")
        elif name == "pop":
            self._line("if not p: _exact.leave()")
            self._line(f"t_{kind} = v_value")
        else:
            self._not(node)
        self._line("t_there = p")
        if name == "setdefault":
            self._line("if not p:")
            self._depth += 1
            self._write_field("value", f"t_{kind}")
            self._line("p = w = True")
        else:
            self._line("if p:")
            self._depth += 1
            self._remove(node)
        self._depth -= 1
        return Term(f"t_{kind}", kind, "t_there" if none else "")

    # Expressions, none of which changes anything

    def _expr(self, node: ast.expr) -> Term:
        field = self._field(node)
        if field == "":
            return Term("", "row")
        if field is not None:
            kind = self._spec.fields[field]
            if kind not in _TAGS:
                self._fail(node, f"{field} is {with_article(kind)}")
            self._reads.add(field)
            return Term(f"v_{field}", kind)
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.BinOp():
                return self._operation(node)
            case ast.UnaryOp():
                return self._sign(node)
            case ast.BoolOp():
                parts = [self._as(self._expr(x), "bool", x) for x in node.values]
                word = " and " if isinstance(node.op, ast.And) else " or "
                return Term(f"({word.join(parts)})", "bool")
            case ast.IfExp():
                one, other = self._expr(node.body), self._expr(node.orelse)
                self._same([one, other], node)
                return Term(f"({one.text} if {self._truth(node.test)} else {other.text})", one.kind)
            case ast.Compare():
                return self._compare(node)
            case ast.Call():
                return self._call(node)
        self._not(node)

    def _constant(self, node: ast.Constant) -> Term:
        value: Any = node.value
        kind = type(value).__name__
        if value is None:
            return Term("", "None")
        if kind not in _TAGS or (kind == "int" and not -(1 << 63) <= value < 1 << 63):
            self._not(node)
        if kind == "int":
            return Term(f"np.int64({value})", "int")
        finite = kind == "bool" or math.isfinite(value)
        return Term(repr(value) if finite else "np.inf", kind)

    def _name(self, node: ast.Name | ast.Attribute) -> Term:
        if isinstance(node, ast.Name) and node.id not in self._free:
            name = node.id
            if name in self._kinds and name not in self._bound:
                self._fail(node, f"{name} may have no value")
            kind = self._kinds.get(name) or self._arguments.get(name, "")
            if not kind:
                self._fail(node, f"the type of {name} is not known")
            if name in self._places:
                if kind in DEFAULTS and kind not in _TAGS:
                    self._fail(node, f"{name} is {with_article(kind)}")
                self._used[name] = kind
            if kind.endswith("?"):
                return Term(f"x_{name}", kind[:-1], f"h_{name}")
            return Term("" if kind == "row" else f"x_{name}", kind)
        value = self._outside(node)
        kind = type(value).__name__
        if type(value) is not KINDS.get(kind) or kind not in _TAGS:
            self._not(node)
        name = ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"self.{node.attr}" if node.value.id == self._me else name
        self._constants[name] = kind
        return Term(f"u_{name.replace('.', '_')}", kind)

    def _outside(self, node: ast.expr) -> Any:
        """Return the value of a name of the module, of `module.x` or of `self.x`; None for none."""
        if isinstance(node, ast.Name):
            return lookup(self._method, node, node.id) if node.id in self._free else None
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and node.value.id == self._me:
            return inspect.getattr_static(self._cls, node.attr, None)
        module = self._outside(node.value)
        return getattr(module, node.attr, None) if inspect.ismodule(module) else None

    def _number(self, term: Term, node: ast.AST) -> Term:
        """Return a term as one that is a number, and not None."""
        if term.kind not in _TAGS:
            self._fail(node, f"it is a {term.kind}, and not a number")
        if term.there:
            return Term(f"_exact.value_of({term.text}, {term.there})", term.kind)
        return term

    def _as(self, term: Term, kind: str, node: ast.AST) -> str:
        """Return the text of a term that has to be of a type; a bool is an int."""
        term = self._number(term, node)
        if kind == "int" and term.kind == "bool":
            return f"np.int64({term.text})"
        if term.kind != kind:
            self._fail(node, f"{ast.unparse(node)} is a {term.kind}, and not a {kind}")
        return term.text

    def _same(self, terms: Sequence[Term], node: ast.AST) -> None:
        kinds = [self._number(t, node).kind for t in terms if not t.there] or [""]
        if len(kinds) < len(terms):
            self._fail(node, "a value may be None")
        if len(set(kinds)) > 1:
            kinds = sorted(set(kinds))
            self._fail(node, f"its value is {kinds[0]} here and {kinds[1]} there")

    def _truth(self, node: ast.expr) -> str:
        """Return the text of whether an expression is true."""
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(map(self._truth, node.values))})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(not {self._truth(node.operand)})"
        term = self._expr(node)
        if term.kind not in _TAGS:
            self._not(node)
        text = term.text if term.kind == "bool" else f"({term.text} != 0)"
        return f"({term.there} and {text})" if term.there else text

    def _sign(self, node: ast.UnaryOp) -> Term:
        if isinstance(node.op, ast.Not):
            return Term(self._truth(node), "bool")
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            value = node.operand.value
            if type(value) is int and value == 1 << 63:
                return Term("_exact.INT_MIN", "int")
        term = self._number(self._expr(node.operand), node)
        if term.kind == "float":
            if isinstance(node.op, ast.Invert):
                self._not(node)
            return Term(f"(-{term.text})" if isinstance(node.op, ast.USub) else term.text, "float")
        text = f"np.int64({term.text})"
        if isinstance(node.op, ast.USub):
            return Term(f"_exact.sub(np.int64(0), {text})", "int")
        return Term(f"(~{text})" if isinstance(node.op, ast.Invert) else text, "int")

    def _operation(self, node: ast.BinOp) -> Term:
        left, right = (self._number(self._expr(x), node) for x in (node.left, node.right))
        kind, sign = type(node.op), _SIGNS[type(node.op)]
        integers = "float" not in (left.kind, right.kind)
        if kind in (ast.BitAnd, ast.BitOr, ast.BitXor) and integers:
            if left.kind == right.kind == "bool":
                return Term(f"({left.text} {sign} {right.text})", "bool")
            return Term(f"(np.int64({left.text}) {sign} np.int64({right.text}))", "int")
        if integers and kind in _INTS:
            if kind is ast.Pow and not isinstance(node.right, ast.Constant):
                self._not(node)  # an int or a float
            texts = f"np.int64({left.text}), np.int64({right.text})"
            return Term(f"_exact.{_INTS[kind]}({texts})", "int")
        if kind in _FLOATS:
            convert = "_exact.exact" if integers else "float"
            texts = f"{convert}({left.text}), {convert}({right.text})"
            return Term(f"_exact.{_FLOATS[kind]}({texts})", "float")
        if kind in (ast.Add, ast.Sub, ast.Mult):
            return Term(f"(float({left.text}) {sign} float({right.text}))", "float")
        self._fail(node, f"{sign} of {left.kind} and {right.kind} does not compile")

    def _compare(self, node: ast.Compare) -> Term:
        sides = [node.left, *node.comparators]
        if len(sides) == 2 and isinstance(node.ops[0], ast.In | ast.NotIn):
            if not (self._is_key(sides[0]) and self._is_table(sides[1])):
                self._not(node)
            return Term("p" if isinstance(node.ops[0], ast.In) else "(not p)", "bool")
        if len(sides) == 2 and isinstance(node.ops[0], ast.Is | ast.IsNot) and _is_none(sides[1]):
            term = self._expr(sides[0])
            there = term.there or ("False" if term.kind == "None" else "True")
            return Term(there if isinstance(node.ops[0], ast.IsNot) else f"(not {there})", "bool")
        parts = []
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            if type(op) not in _SIGNS:
                self._not(node)
            a, b = (self._number(self._expr(x), x) for x in (left, right))
            texts = [a.text, b.text]
            if "float" in (a.kind, b.kind):
                texts = [t.text if t.kind == "float" else f"_exact.exact(np.int64({t.text}))"
                         for t in (a, b)]  # fmt: skip
            elif a.kind != b.kind:
                texts = [f"np.int64({t})" for t in texts]
            parts.append(f"({texts[0]} {_SIGNS[type(op)]} {texts[1]})")
        return Term(f"({' and '.join(parts)})", "bool")

    def _is_builtin(self, node: ast.AST, *names: str) -> bool:
        """Return whether a node calls a built-in function by position."""
        return (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in names and node.func.id not in self._method.function.__globals__
            and node.func.id not in self._kinds and node.func.id not in self._arguments
            and node.func.id not in self._method.function.__code__.co_freevars
            and not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        )  # fmt: skip

    def _call(self, node: ast.Call) -> Term:
        call = self._row_call(node)
        if call is not None:
            return self._get(node, *call)
        if self._is_builtin(node, "min", "max") and len(node.args) > 1:
            terms = [self._number(self._expr(x), x) for x in node.args]
            self._same(terms, node)
            name = "least" if node.func.id == "min" else "most"  # type: ignore[attr-defined]
            text = terms[0].text
            for term in terms[1:]:
                text = f"_exact.{name}({text}, {term.text})"
            return Term(text, terms[0].kind)
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            self._not(node)
        if self._is_builtin(node, "abs", "int", "float", "bool", "round"):
            return self._converted(node, node.func.id)  # type: ignore[attr-defined]
        function = self._outside(node.func)
        term = self._number(self._expr(node.args[0]), node)
        text = f"float({term.text})"
        if function is math.sqrt:
            return Term(f"_exact.square_root({text})", "float")
        if function is math.fabs:
            return Term(f"abs({text})", "float")
        if function in (math.isnan, math.isinf, math.isfinite):
            return Term(f"_math.{function.__name__}({text})", "bool")
        if function in (math.floor, math.ceil, math.trunc):
            if term.kind != "float":
                return Term(f"np.int64({term.text})", "int")
            rounded = text if function is math.trunc else f"np.{function.__name__}({text})"
            return Term(f"_exact.to_whole({rounded})", "int")
        self._not(node)

    def _converted(self, node: ast.Call, name: str) -> Term:
        if name == "bool":
            return Term(self._truth(node.args[0]), "bool")
        term = self._number(self._expr(node.args[0]), node)
        if name == "float":
            return Term(f"float({term.text})", "float")
        if term.kind == "float":
            if name == "abs":
                return Term(f"abs({term.text})", "float")
            text = f"np.rint({term.text})" if name == "round" else term.text
            return Term(f"_exact.to_whole({text})", "int")
        text = f"np.int64({term.text})"
        if name == "abs":
            return Term(f"_exact.most({text}, _exact.sub(np.int64(0), {text}))", "int")
        return Term(text, "int")

    def _get(self, node: ast.Call, name: str, rest: Sequence[ast.expr]) -> Term:
        spec = self._spec
        kind = spec.fields.get("value", "")
        if name != "get" or not spec.single or len(rest) > 1 or kind not in _TAGS:
            self._not(node)
        self._reads.add("value")
        if not rest or _is_none(rest[0]):
            return Term("v_value", kind, "p")
        default = self._number(self._expr(rest[0]), node)
        if default.kind != kind:
            self._fail(node, f"its value is {kind} here and {default.kind} there: make the default "
                       f"a {kind}")  # fmt: skip
        return Term(f"_exact.chosen(p, v_value, {default.text})", kind)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
