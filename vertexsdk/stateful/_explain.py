"""What a stateful class becomes: its task elements by level, how rows go to them, and the order in
which calls have their effects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from vertexsdk.program.keyed import KeyedMethod, KeyedProgram, TaskElement

_ONE_AT_A_TIME = "as if calls ran one after another"


@dataclass(frozen=True)
class KeyedExplanation:
    """How the methods of a stateful class run on partitions; `print` it, or draw `to_mermaid()`.

    Attributes:
        program: the class, as it runs.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
        >>> class Views(Stateful):
        ...     pages = Partitioned(Map(str, int), key="page")
        ...     users = Partitioned(Map(int, int), key="user")
        ...     def view(self, page: str, user: int) -> None:
        ...         self.pages[page] += 1
        ...         self.users[user] += 1
        >>> with StatefulLoop(Views, backend="memory://explained") as flow:
        ...     print(flow.explain())
        Views
          level 0  pages  Partitioned(Map(str, int))  view by key
          level 1  users  Partitioned(Map(int, int))  view by key
          order    as if calls ran one after another
          compiled     view on users
          interpreted  view on pages: line 5, the call goes on from there
    """

    program: KeyedProgram

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        lines = [
            "  " + "  ".join([*(x.ljust(w) for x, w in zip(row, widths, strict=False)), row[3]])
            for row in rows
        ]
        label = "order".ljust(max(widths[0], len("order")))
        lines.append(f"  {label}  {_ONE_AT_A_TIME}")
        for method in self.program.methods.values():
            if method.serial:
                lines.append(f"  {' ' * len(label)}  {self._serial(method)}")
        return "\n".join([self.program.name, *lines, *self._compiled()])

    def _compiled(self) -> Iterator[str]:
        """What accesses one row: compiled, or the line that keeps it interpreted."""
        compiled, interpreted = list[str](), list[str]()
        for method in self.program.methods.values():
            for element in filter(self.program.accesses_row, method.elements):
                shown = f"{method.name} on {element.table}"
                if element.text is not None and self.program.compiled:
                    compiled.append(shown)
                else:
                    why = element.interpreted if self.program.compiled else "compiled=False"
                    interpreted.append(f"{shown}: {why}")
        if not compiled and not interpreted:
            yield "  interpreted: all methods"
        if compiled:
            yield f"  compiled     {', '.join(dict.fromkeys(compiled))}"
        for k, why in enumerate(dict.fromkeys(interpreted)):
            yield f"  {'' if k else 'interpreted':11}  {why}"

    def _serial(self, method: KeyedMethod) -> str:
        way = [e.table or "no state" for e in method.elements]
        return f"{method.name} runs alone, one call at a time ({', '.join(way)}): {method.serial}"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """The level, state element and its type, and the methods, of task elements."""
        placed: dict[tuple[int, str], list[str]] = {}
        for method in self.program.methods.values():
            for k, element in enumerate(method.elements if not method.serial else ()):
                if element.table is None and not k and not element.last:
                    continue  # computes the first key
                shown = f"{method.name} {self._sent(method, k)}"
                placed.setdefault((element.level, element.table or ""), []).append(shown)
        rows = []
        for (level, table), methods in sorted(placed.items()):
            declared = repr(inspect.getattr_static(self.program.cls, table)) if table else ""
            rows.append((f"level {level}", table, declared, ", ".join(methods)))
        return rows

    def _sent(self, method: KeyedMethod, k: int) -> str:
        """How rows go to a task element."""
        element = method.elements[k]
        if element.table is None:
            return "all-to-one" if k else "accesses no state"
        each = ", a row for each item" if element.item and not element.whole else ""
        return {"key": "by key", "here": "one-to-any", "all": "one-to-all"}[element.send] + each

    def to_mermaid(self) -> str:
        """Return the task elements and their state elements as a Mermaid flowchart."""
        lines = ["flowchart LR"]
        for table in self.program.tables:
            declared = repr(inspect.getattr_static(self.program.cls, table))
            lines.append(f'  {table}[("{table}: {declared}")]')
        for method in self.program.methods.values():
            names = [f"{method.name}_{k}" for k in range(len(method.elements))]
            for k, (name, element) in enumerate(zip(names, method.elements, strict=True)):
                lines.append(f'  {name}["{method.name}, line {element.line}"]')
                if k:
                    lines.append(f"  {names[k - 1]} -->|{self._sent_short(element)}| {name}")
                if element.table is not None:
                    lines.append(f"  {name} {'---' if element.writes else '-.-'} {element.table}")
        return "\n".join(lines)

    def _sent_short(self, element: TaskElement) -> str:
        if element.table is None:
            return "all-to-one"
        return {"key": "by key", "here": "one-to-any", "all": "one-to-all"}[element.send]
