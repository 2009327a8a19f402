"""Every mistake gets one line on standard error, status 2, and leaves what was committed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EDGES = {
    "none.txt": (None, r"none\.txt: no such file; name an edge file"),
    "empty.txt": ("", r"empty\.txt: the file is empty"),
    "comments.txt": ("# nothing\n", r"there is no edge in the input"),
    "one.txt": ("1 2\n3\n", r"one\.txt, line 2: '3': one field"),
    "word.txt": ("1 2 far\n", r"word\.txt, line 1: 'far': the value is not a number"),
    "nan.txt": ("1 2 0.5\n2 3 nan\n", r"nan\.txt, line 2: 'nan': the value is NaN"),
    "beyond.txt": ("1 9223372036854775808\n", r"line 1: '9223372036854775808': .* beyond int64"),
    "data.parquet": ("PAR", r"data\.parquet: .*not a .*Parquet file"),
}

ARGUMENTS = {
    "": r"required: COMMAND; see vertexsdk --help",
    "stream wcc": r"the following arguments are required: --edges, --changes",
    "run": r"required: PROGRAM, --edges; see vertexsdk run --help",
    "run wcc": r"required: --edges",
    "run wcc --edges E --sink x": r"unrecognized arguments: --sink x",
    "run nope --edges E": r"no built-in program 'nope'; `vertexsdk algo.*path\.py:Class",
    "run pagerang --edges E": r"no built-in program 'pagerang'; did you mean 'pagerank'\?",
    "run no.py:Nope --edges E": r"no such file: no\.py",
    "run no_module:Nope --edges E": r"cannot import 'no_module': No module named",
    "run vertexsdk.algorithms:Nope --edges E": r"has no Vertex subclass 'Nope'; it has: .*PageRank",
    "run vertexsdk:Vertex --edges E": r"no Vertex subclass 'Vertex'",
    "run wcc --edges E --param x=1": r"wcc: no parameter 'x'; it has: none",
    "run pagerank --edges E --param dumping=1": r"no parameter 'dumping'; it has: .*damping",
    "run pagerank --edges E --param damping=high": r"damping takes float, not 'high'",
    "run pagerank --edges E --param damping": r"--param damping: write it as name=value",
    "run sssp --edges E": r"give a value for origin, e\.g\. --param origin=",
    "run sssp --edges E --param origin=77": r"sssp: origin=77 is not a vertex of the graph",
    "run bfs --edges E --param origin=a": r"bfs: origin='a' is not a vertex of the graph",
    "run wcc --edges E --partitions 0": r"--partitions: 0 is not allowed; at least 1",
    "run wcc --edges E --partitions two": r"--partitions: 'two' is not a whole number",
    "run wcc --edges E --partitioner louvain": r"--partitioner: invalid choice: 'louvain'",
    "run wcc --edges E --max-iterations -1": r"--max-iterations: -1 is not allowed",
    "run wcc --edges E --commit-every 0": r"--commit-every: 0 is not allowed",
    "run wcc --edges E --snapshot-every 0": r"snapshot_every is 0: give 1 or more, or a time",
    "run wcc --edges E --snapshot-every soon": r"--snapshot-every: 'soon' is not a length of time",
    "run wcc --edges E --snapshot-every 9 --delay-bound 4": r"a delay bound of 4 has no iterations",
    "run wcc --edges E --tolerance nan": r"--tolerance: nan is not allowed; at least 0",
    "run wcc --edges E --tolerance much": r"--tolerance: 'much' is not a number",
    "run wcc --edges E --delay-bound 0": r"--delay-bound: 0 is not allowed; at least 1",
    "run wcc --edges E --delay-bound x": r"--delay-bound: 'x' is not a whole number",
    "run cdlp --edges E --delay-bound 4": r"a delay bound of 4 is not possible: .* the iteration",
    "run scc --edges E --delay-bound 4": r"a delay bound of 4 is not possible: .*next_round begins",
    "stream scc --edges E --changes E --delay-bound 4": r"a delay bound of 4 is not possible",
    "run wcc --edges E --delay-bound 99999999": r"the delay bound is 99999999; it must be .* 1 to",
    "run wcc --edges E --format json": r"--format: invalid choice: 'json'",
    "run wcc --edges E --vertices none": r"none: no such file",
    "run wcc --edges E --output out.txt": r"out\.txt: .* name it \.csv or \.parquet",
    "run wcc --edges E --output no/out.csv": r"no: no such directory",
    "run wcc --edges E --stats no/s.json": r"--stats no/s\.json: there is no directory",
    "run wcc --edges E --stats .": r"--stats \.: cannot write a file there",
    "run wcc --edges E --field rank": r"no field 'rank'; wcc has: component",
    "run wcc --edges E --master spark://127.0.0.1:1": r"Spark runs on local\[6\] already",
    "run wcc --edges E --backend state": r"'state' is not a backend URL: write lmdb:///",
    "run wcc --edges E --backend redos://u:secret@h": r"no backend for redos://",
    "run wcc --edges E --backend @absent": r"@absent cannot be read: No such file .* one URL",
    "run wcc --edges E --backend redis://u@h/0?password=secret": r"no option 'password', only",
    "run wcc --edges E --backnd redis://u:secret@h": r"arguments: --backnd redis://u:\*\*\*@h;",
    "query redis://u:secret@h": r"there is no loop 'redis://u:\*\*\*@h'",
    "run wcc --edges E --backend lmdb:///dev/null": r"/dev/null is a file",
    "run pagerank --edges E --loop wcc-run": r"loop 'wcc-run' .* belongs to program wcc, not to ",
    "query nope": r"there is no loop 'nope' in .*: it has 'wcc-run'",
    "query wcc --vertex 9": r"no vertex 9 in loop 'wcc-run'",
    "query wcc --vertex a": r"'a' is not a vertex of loop 'wcc-run': its ids are integers",
    "query wcc --vertex 99999999999999999999": r"its ids are integers of 64 bits",
    "query wcc --field rank": r"no field 'rank'; wcc-run has: component",
    "query wcc --output o.txt": r"name it \.csv or \.parquet",
    "query wcc --at 0": r"no version at or before iteration 0",
    "query wcc --backend lmdb:///dev/null/x": r"/dev/null/x",
    "query wcc --backend memory://other": r"is not in this process",
}


def refused(done, said: str) -> None:
    assert done.status == 2, done.err
    last = done.lines[-1]
    assert last.startswith("vertexsdk: ")
    assert re.search(said, last), last
    assert "Traceback" not in done.err
    assert "secret" not in done.err


@pytest.fixture
def kept(vertexsdk, edges: str) -> str:
    """A finished run; what `query wcc` prints of it."""
    assert vertexsdk("run", "wcc", "--edges", edges).status == 0
    return vertexsdk("query", "wcc").out


@pytest.mark.parametrize("name", EDGES)
def test_edge_files(vertexsdk, state: str, name: str) -> None:
    text, said = EDGES[name]
    if text is not None:
        Path(name).write_text(text)
    done = vertexsdk("run", "wcc", "--edges", name, "--backend", state, "--output", "o.csv")
    refused(done, said)
    assert len(done.lines) == 1
    assert not Path("o.csv").exists()
    assert vertexsdk("query", "wcc").status == 2  # nothing was committed


def test_arguments(vertexsdk, edges: str, kept: str) -> None:
    wrong = {}
    for text, said in ARGUMENTS.items():
        done = vertexsdk(*(edges if word == "E" else word for word in text.split()))
        try:
            refused(done, said)
            assert len(done.lines) == 1
        except AssertionError as error:
            wrong[text] = (done, str(error).splitlines()[0])
    assert not wrong
    assert vertexsdk("query", "wcc").out == kept
    assert not Path("out.csv").exists()


def test_a_store_that_a_file_names(
    vertexsdk, edges: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password in the URL is then neither in the list of processes nor in the shell's history."""
    Path("store").write_text(f"lmdb://{Path('elsewhere').resolve()}\n")
    done = vertexsdk("run", "wcc", "--edges", edges, "--backend", "@store")
    assert done.status == 0, done.err
    assert done.lines[-1].endswith("vertexsdk query wcc-run --backend @store")
    assert vertexsdk("query", "wcc").status == 2
    read = vertexsdk("query", "wcc", "--backend", "@store").out
    assert read
    copy = ("state", "copy", "wcc-run", "--backend", "@store", "--to", "@store", "--name", "w")
    assert vertexsdk(*copy).status == 0
    monkeypatch.setenv("VERTEXSDK_BACKEND", "@store")
    assert vertexsdk("query", "w").out == read


def test_a_store_of_another_format(vertexsdk, edges: str, kept: str) -> None:
    mark = Path("state/FORMAT")
    now = mark.read_text()
    for text, said in {
        "vertexsdk state, format 0\n": "has format 0",
        "x": "was not written by a store",
    }.items():
        mark.write_text(text)
        refused(vertexsdk("run", "wcc", "--edges", edges), said)
        refused(vertexsdk("query", "wcc"), said)
    mark.write_text(now)
    assert vertexsdk("query", "wcc").out == kept


def test_a_directory_of_something_else(vertexsdk, edges: str) -> None:
    Path("photos").mkdir()
    Path("photos/cat.jpg").touch()
    url = f"lmdb://{Path('photos').resolve()}"
    refused(vertexsdk("run", "wcc", "--edges", edges, "--backend", url), "holds other files")
    assert [p.name for p in Path("photos").iterdir()] == ["cat.jpg"]


def test_mixed_ids_are_strings_and_it_is_said(vertexsdk) -> None:
    Path("mixed.txt").write_text("1 b\nb 10\nc 1\n")
    done = vertexsdk("run", "wcc", "--edges", "mixed.txt")
    assert done.status == 0
    assert done.lines[0] == (
        "vertexsdk: 2 of 4 ids are integers and the others are not: all are taken as strings"
    )
    assert vertexsdk("query", "wcc", "--vertex", "10").out == "10 component=1\n"
    refused(vertexsdk("query", "wcc", "--vertex", "x"), "no vertex x in loop 'wcc-run'")


PROGRAM_FILES = {
    "class A(:\n": r"p\.py: SyntaxError: .*line 1",
    "import no_such_module\n": r"p\.py: ModuleNotFoundError: No module named 'no_such_module'",
    "1 / 0\n": r"p\.py: ZeroDivisionError: division by zero",
    "raise SystemExit(3)\n": r"p\.py: SystemExit: 3",
    "x = 1\n": r"p\.py has no Vertex subclass 'A'; it has: none",
    "from vertexsdk import *\nclass A(Vertex):\n    x: float = state(0.0)\n": r"no method",
}


@pytest.mark.parametrize("text", PROGRAM_FILES)
def test_program_files(vertexsdk, edges: str, text: str) -> None:
    Path("p.py").write_text(text)
    refused(vertexsdk("run", "p.py:A", "--edges", edges), PROGRAM_FILES[text])


def test_the_class_left_out(vertexsdk, edges: str) -> None:
    Path("p.py").write_text("from vertexsdk.algorithms import PageRank as Mine\n")
    refused(vertexsdk("run", "p.py", "--edges", edges), r"p\.py: write p\.py:Class; it has: Mine")


def test_a_caller_s_settings_come_back(vertexsdk, spark) -> None:
    import logging
    import warnings

    log = logging.getLogger("vertexsdk")
    before = warnings.showwarning, list(log.handlers), log.level, log.propagate
    vertexsdk("query", "wcc", "--verbose")
    assert before == (warnings.showwarning, log.handlers, log.level, log.propagate)
    assert spark.range(3).count() == 3
