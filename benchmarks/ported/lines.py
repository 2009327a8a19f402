"""Lines of code of a file: those that are not blank, and not only comment or docstring."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER, tokenize.ENCODING,
}  # fmt: skip


def count(path: Path) -> int:
    """Lines of code of a Python or Scala file."""
    text = path.read_text()
    return _python(text) if path.suffix == ".py" else _scala(text)


def _python(text: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _scala(text: str) -> int:
    found, depth = 0, 0
    for line in text.splitlines():
        code, k, quoted = "", 0, False
        while k < len(line):
            pair = line[k : k + 2]
            if depth:  # comments nest
                depth += (pair == "/*") - (pair == "*/")
                k += 2 if pair in ("/*", "*/") else 1
            elif not quoted and pair == "//":
                break
            elif not quoted and pair == "/*":
                depth, k = 1, k + 2
            else:
                quoted ^= line[k] == '"' and line[k - 1 : k] != "\\"
                code += line[k]
                k += 1
        found += bool(code.strip())
    return found
