"""What a notebook shows, by a kernel that runs cells: cards, errors, progress, edited classes."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Kernel

pytestmark = pytest.mark.full  # starts kernels of notebooks

PROGRAM = """
class Hops(Vertex):
    origin: VertexId = param()
    hops: int = state(INT_MAX)
    messages = Min(int)

    def gather(self, iteration, source, delta):
        self.hops = 0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        if self.hops < INT_MAX:
            self.emitAll(self.hops + {step})
"""
RUN = """
with run(Hops, Graph.from_arrays([1, 2], [2, 3]), origin=1, backend="memory://{name}",
         compiled={compiled!r}, progress=False) as result:
    print(result.to_dict())
"""


@pytest.mark.parametrize("compiled", ["require", False])
def test_a_class_that_is_edited_runs_as_it_is_now(kernel: Kernel, compiled: str | bool) -> None:
    again = RUN.format(name=f"edited-{compiled}", compiled=compiled)
    for step in (1, 10, 1):  # the last one is a cell that was there before
        kernel.text(PROGRAM.format(step=step))
        assert kernel.text(again) == f"{{1: 0, 2: {step}, 3: {2 * step}}}\n"


def test_helpers_and_constants_that_are_edited_are_seen(kernel: Kernel) -> None:
    kernel.text(PROGRAM.format(step="further()"))
    again = RUN.format(name="helper", compiled="require")
    kernel.text("STEP = 2\ndef further():\n    return STEP")
    assert kernel.text(again) == "{1: 0, 2: 2, 3: 4}\n"
    kernel.text("STEP = 3")
    assert kernel.text(again) == "{1: 0, 2: 3, 3: 6}\n"
    kernel.text("def further():\n    return 2 * STEP")
    assert kernel.text(again) == "{1: 0, 2: 6, 3: 12}\n"


def test_a_main_loop_takes_the_edited_class(kernel: Kernel) -> None:
    loop = """
with MainLoop(Hops, Graph.from_arrays([1, 2], [2, 3]), origin=1, backend="memory://looped") as main:
    print(main.lookup(3))
"""
    for step in (1, 10):
        kernel.text(PROGRAM.format(step=step))
        assert kernel.text(loop).startswith(f"{{3: {{'hops': {2 * step}, ")


def test_cards_are_shown_and_escaped(kernel: Kernel) -> None:
    kernel.text("""
bad = "<script>alert(1)</script>"
graph = Graph.from_arrays([bad, "b"], ["b", "c"])
ranks = run("pagerank", graph, backend="memory://cards", loop="r&d", progress=False)
main = MainLoop("wcc", graph, backend="memory://cards", loop="w&d")
main.query().close()
""")
    cells = ["graph", "ranks", "main", "explain('wcc')", "graph.estimate('wcc')"]
    cards = {cell: kernel.html(cell) for cell in cells}
    kernel.text("branch = main.fork('<b>')")
    cards["branch"] = kernel.html("branch")
    kernel.text("_ = branch.apply([('+', 'a new one', bad)]); branch.merge()")
    cards["diff"] = kernel.html("main.diff(ranks, 'component') if False else main.diff(branch)")
    kernel.text("branch.close()")
    for cell, card in cards.items():
        assert card.startswith("<div><strong>"), cell
        assert "<script" not in card, cell
        assert "<b>" not in card, cell
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in cards["ranks"]
    assert "r&amp;d" in cards["ranks"]
    assert "<th>changes not reflected</th><td>0</td>" in cards["main"]
    assert "Min(VertexId) along undirected edges" in cards["explain('wcc')"]
    kernel.text("main.ingest([('+', 'c', 'd')])")
    behind = kernel.html("main")
    assert "<td>1 for " in behind
    assert "<td>2 (" in behind  # changes, and how many per second
    kernel.text("main.close(); ranks.close()")
    assert "<th>closed</th><td>yes</td>" in kernel.html("ranks")
    assert "closed" in kernel.html("main")


def test_our_errors_are_one_line(kernel: Kernel) -> None:
    assert kernel.error("run('pagerank', Graph.from_arrays([1], [2]), dampin=1)") == [
        "InputError: pagerank: 'dampin' is neither an option nor a parameter (did you mean "
        "damping?); its parameters are: damping, iterations, epsilon, personalise, weight"
    ]
    kernel.text("def mine():\n    return read('memory://no-store', 'pagerank')")
    (line,) = kernel.error("mine()")
    assert line.startswith("StateInputError: memory://no-store is not in this process")
    (line,) = kernel.error(
        "class Odd(Vertex):\n    max_iteration = 5\n    def scatter(self, i): ..."
    )
    assert line.startswith("ProgramError: Cell In[")
    assert ", line 2: Odd: there is no 'max_iteration'; did you mean 'max_iterations'?" in line


def test_an_error_in_a_method_shows_the_users_frames_alone(kernel: Kernel) -> None:
    kernel.text("""
def looked_up(table, key):
    return table[key]


class Fails(Vertex):
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = looked_up({}, "no such key")

    def scatter(self, iteration):
        self.emitAll(self.x)
""")
    lines = kernel.error(
        "run(Fails, Graph.from_arrays([1], [2]), backend='memory://fails', compiled=False)"
    )
    shown = "\n".join(lines)
    assert "vertexsdk/" not in shown
    assert [line.strip() for line in lines if not line.strip().startswith("Cell")] == [
        'self.x = looked_up({}, "no such key")',
        "return table[key]",
        lines[-1],
    ]
    assert lines[-1].endswith("Fails.gather: KeyError: 'no such key' (vertex 1, iteration 1)")
    assert [line.split(", ")[-1] for line in lines[:-1:2]] == ["in gather", "in looked_up"]


def test_an_error_in_a_rule_of_convergence_shows_it(kernel: Kernel) -> None:
    kernel.text("""
class Ends(Vertex):
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = delta.value

    def scatter(self, iteration):
        self.emitAll(1.0)

    def converged(self, iteration, aggregates):
        return aggregates.nothing
""")
    lines = kernel.error("run(Ends, Graph.from_arrays([1], [2]), backend='memory://ends')")
    assert len(lines) == 3  # and none for where vertexsdk raised
    assert "return aggregates.nothing" in lines[1]
    assert lines[0].strip().endswith("line 12, in converged")
    assert "Ends.converged: AttributeError: no aggregator named 'nothing'" in lines[-1]
    assert "Program(Ends, name='ends')" in kernel.text("print(repr(Program(Ends)))")


def test_progress_is_a_widget_or_a_line(kernel: Kernel) -> None:
    outputs = kernel.run("""
run("pagerank", Graph.from_arrays([1, 2], [2, 3]), backend="memory://progress").close()
""")
    widget = "application/vnd.jupyter.widget-view+json"
    assert [o for o in outputs if widget in o.get("data", {})]
    cell = """
run(Slow, Graph.from_arrays([1, 2], [2, 3]), backend="memory://progress", compiled=False).close()
"""
    kernel.text("""
import time

class Slow(Vertex):
    x: int = state(0)
    messages = Sum(int)
    always = True
    max_iterations = 13

    def gather(self, iteration, source, delta):
        time.sleep(0.06)
        self.x = iteration

    def scatter(self, iteration):
        self.emitAll(1)
""")
    kernel.text("import sys; sys.modules['tqdm.auto'] = None")  # as if it were not installed
    outputs = kernel.run(cell)
    lines = [o["data"]["text/plain"] for o in outputs if o["kind"].endswith("display_data")]
    assert [k for k, o in enumerate(outputs) if o["kind"] == "display_data"] == [0]  # one place
    assert lines[0].startswith("slow-run 0.0 s · loading")
    done = [int(line.split("iteration ")[1].split()[0]) for line in lines if "iteration " in line]
    assert 1 < len(done) < 13  # once a second
    assert done == sorted(done)
    assert lines[-1] == ""  # it is taken away at the end
    kernel.text("del sys.modules['tqdm.auto']")


def test_what_is_compiled_is_said(kernel: Kernel) -> None:
    kernel.text("import sys; sys.modules['tqdm.auto'] = None")
    kernel.text(PROGRAM.format(step="1").replace("INT_MAX)", "INT_MAX)  # new"))
    outputs = kernel.run("""
run(Hops, Graph.from_arrays([1, 2], [2, 3]), origin=1, backend="memory://said").close()
""")
    kernel.text("del sys.modules['tqdm.auto']")
    said = [o["data"]["text/plain"].partition("· ")[2] for o in outputs if "data" in o]
    assert not [o for o in outputs if o["kind"] == "stream"]  # nothing that stays
    methods = {line for line in said if line.startswith("compiling ")}
    assert methods == {f"compiling {name} of Hops" for name in ("init", "gather", "scatter")}


def test_no_progress_where_it_is_not_wanted(kernel: Kernel) -> None:
    assert kernel.run(RUN.format(name="silent", compiled=True))[0]["kind"] == "stream"
