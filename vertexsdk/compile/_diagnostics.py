"""Why methods do not compile: a line of the user's own file, and a short reason.

Numba's errors are about the generated module. Its lines are mapped to those they were generated
from, and its types and functions get their names in Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vertexsdk.compile._method_kernels import KernelText
from vertexsdk.compile.module_cache import load_module
from vertexsdk.program.program import ClassSpec

_PLACE = re.compile(r'(vertexsdk_kernels_\w+)\.py"?(?:, line | \()(\d+)')
_TYPES = {
    "float64": "float", "float32": "float", "int64": "int", "int32": "int", "uint64": "int",
    "bool": "bool", "boolean": "bool", "unicode_type": "str", "none": "None",
}  # fmt: skip
_KINDS = {
    "array": "array", "readonly array": "array", "list": "list", "reflected list": "list",
    "ListType": "list", "DictType": "dict", "set": "set", "reflected set": "set",
    "Tuple": "tuple", "UniTuple": "tuple",
}  # fmt: skip
_OPERATORS = {
    "add": "+", "iadd": "+", "sub": "-", "isub": "-", "mul": "*", "imul": "*", "truediv": "/",
    "itruediv": "/", "floordiv": "//", "ifloordiv": "//", "mod": "%", "pow": "**", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and_": "&", "or_": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>", "getitem": "[]", "static_getitem": "[]", "contains": "in",
}  # fmt: skip


def failure_text(
    error: Exception, texts: Sequence[KernelText], classes: Sequence[ClassSpec]
) -> str:
    """Return `file:line: method: reason` for an error of compiling these classes."""
    message = str(error)
    modules = {load_module(t.source).__name__: k for k, t in enumerate(texts)}
    first = classes[0]
    where = f"{first.file}:{first.line}: {first.name}"
    for module, line in _PLACE.findall(message):
        if module not in modules:
            continue
        k = modules[module]
        where = f"{classes[k].file}:{classes[k].line}: {classes[k].name}"
        name, below = _function(texts[k].source, int(line))
        if name.startswith("_contribute_"):
            return f"{where}: {name[len('_contribute_') :]}.contribute: {_reason(error)}"
        if name in texts[k].places:
            file, method, lines = texts[k].places[name]
            if below < len(lines):
                where = f"{file}:{lines[below]}: {method}"
                break
    return f"{where}: {_reason(error)}"


def _function(source: str, line: int) -> tuple[str, int]:
    """The function that a line of the source is in, and the line's number in its body."""
    lines = source.splitlines()[:line]
    for above, text in enumerate(reversed(lines)):
        match = re.match(r"def (\w+)\(", text)
        if match:
            return match.group(1), above - 1
    return "", 0


def _reason(error: Exception) -> str:
    message = str(error)
    match = re.search(r"TypingError: a (.+) is assigned to an? (\w+); (.*)", message)
    if match:
        return f"a {_python_type(match.group(1))} is assigned to {match.group(2)}; {match.group(3)}"
    match = re.search(r"Cannot unify (\S.*) and (\S.*) for '([^']*)'", message)
    if match:
        name = re.sub(r"^U_|\.\d+$", "", match.group(3))
        name = "a value" if name.startswith(("_", "$")) else name
        types = sorted(_python_type(match.group(k)) for k in (1, 2))
        return f"{name} is {types[0]} here and {types[1]} there: give it one type"
    if re.search(r"Type of variable '[^']*' cannot be determined", message):
        return "the type of a value cannot be determined"
    match = re.search(r"No implementation of function .*\s+>>> (\w+)\((.*)\)\s*\n", message)
    if match:
        name, types = match.group(1), [_python_type(t) for t in _arguments(match.group(2))]
        element = re.search(r"array\((\w+)", match.group(2))
        if name in ("setitem", "static_setitem") and element:
            if "readonly" in match.group(2):
                return "a read-only array is written to"
            return f"a {types[-1]} is assigned to a {_python_type(element.group(1))}"
        if name in _OPERATORS:
            return f"{_OPERATORS[name]} of {' and '.join(types)} does not compile"
        return f"{name} of {' and '.join(types) or 'nothing'} does not compile"
    skip = ("Failed in", "During:", "File ", "def ", "^", "<", "---", "This error", "Overload")
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(skip)]
    line = (useful or lines or [type(error).__name__])[0].lstrip("- ")
    line = re.split(r",? (?:operation|location):|\.? Raised from |, raised from ", line)[0]
    line = re.sub(r"\S*vertexsdk_kernels_\S*", "", re.sub(r"\bU_(?=\w)", "", line))
    return re.sub(r"'[_$][^']*'", "a value", line).strip()  # names of the generated code


def _arguments(text: str) -> list[str]:
    """Split at the commas which are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def _python_type(type_: str) -> str:
    """A type of Numba's as Python calls it."""
    type_ = re.sub(r"^OptionalType\((.*)\)$", r"\1", type_)
    literal = re.match(r"Literal\[(\w+)\]", type_)
    if literal:
        return literal.group(1)
    kind = re.match(r"[\w ]+", type_)
    return _TYPES.get(type_) or (_KINDS.get(kind.group()) if kind else None) or type_
