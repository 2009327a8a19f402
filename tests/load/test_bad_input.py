"""Each kind of bad input is refused in one line which says where and what to do."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vertexsdk.errors import InputError
from vertexsdk.graph import Graph, Variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOATS = Variant("out", "float64", "combined")
WHOLE = Variant("out", "int64", "combined")

BAD_LINES = {
    "1 2\n3\n": r"edges, line 2: '3': one field",
    "1 2\n3 # 4\n": r"edges, line 2: '3': one field",
    "# c\n\n1 2 x\n": r"edges, line 3: 'x': the value is not a number",
    "1 2 1e\n": r"edges, line 1: '1e': the value is not a number",
    "1 2 1.5.2\n": r"line 1: '1\.5\.2': the value is not a number",
    "1 2 nan\n": r"edges, line 1: 'nan': the value is NaN",
    "1 2 -NaN\r\n": r"edges, line 1: '-NaN': the value is NaN",
    "1 2\n1 9223372036854775808\n": r"line 2: '9223372036854775808': the id is beyond int64",
    "1 2\n-9223372036854775809 1\n": r"line 2: '-9223372036854775809': the id is beyond int64",
    "a 99999999999999999999\n": r"'99999999999999999999': the id is beyond int64",
    "a b\nc\n": r"edges, line 2: 'c': one field",
    "a b x\n": r"edges, line 1: 'x': the value is not a number",
    "# nothing\n\n": r"there is no edge in the input",
}

BAD_COLUMNS: list[tuple[dict[str, object], str]] = [
    ({"a": [1], "b": [2]}, "columns are a, b; name them source,target"),
    ({"source": [1.5], "target": [2]}, "column source: double; ids are integers or strings"),
    ({"source": [1], "target": [None]}, "column target: "),
    ({"source": [1, None], "target": [1, 2]}, "column source: an id is null"),
    ({"source": [1], "target": [2], "value": [[1]]}, "values are numbers"),
    ({"source": [1], "target": [2], "value": ["x"]}, "a value is not a number"),
    ({"source": [1], "target": [2], "value": [float("nan")]}, "a value is NaN"),
    ({"source": pa.array([2**63], pa.uint64()), "target": [2]}, "an id is beyond int64"),
    ({"source": ["9223372036854775808"], "target": ["2"]}, "an id is beyond int64"),
]


@pytest.mark.parametrize(
    ("lines", "partitions"), list(zip(BAD_LINES, itertools.cycle([1, 2]), strict=False))
)
def test_bad_lines(spark: SparkSession, tmp_path: Path, lines: str, partitions: int) -> None:
    path = tmp_path / "edges"
    path.write_text(lines, newline="")
    with pytest.raises(InputError, match=BAD_LINES[lines]) as caught:
        Graph.read(spark, str(path), partitions=partitions).materialise(FLOATS)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


def test_bad_values_are_refused_though_the_program_reads_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "edges").write_text("1 2 three\n")
    with pytest.raises(InputError, match="line 1: 'three'"):
        Graph.read(spark, str(tmp_path / "edges")).materialise()


def test_the_line_number_in_a_large_file(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f"{k} {k + 1}\n" for k in range(700_000)]
    lines[654_320] = "1 2 none\n"
    (tmp_path / "edges").write_text("".join(lines))
    for partitions in (1, 2):
        with pytest.raises(InputError, match="line 654321: 'none'"):
            Graph.read(spark, str(tmp_path / "edges"), partitions=partitions).materialise()


def test_fractions_where_integers_are_wanted(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("1 2 3.0\n2 3 0.5\n")
    with pytest.raises(InputError, match=r"line 2: '0\.5': the value is not an int64 integer"):
        Graph.read(spark, str(tmp_path / "edges")).materialise(WHOLE)


def test_nothing_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "directory").mkdir()
    for name, said in {
        "none.txt": "no such file",
        "none-*.txt": "no such file",
        "empty.txt": "the file is empty",
        "directory": "the directory has no files in it",
    }.items():
        with pytest.raises(InputError, match=said) as caught:
            Graph.read(spark, str(tmp_path / name))
        assert name in str(caught.value)
    with pytest.raises(InputError, match="no edge file"):
        Graph.read(spark, [])
    with pytest.raises(InputError, match="Spark cannot read it"):
        Graph.read(spark, "nosuchscheme://x/edges.txt").materialise()
    with pytest.raises(InputError, match="partitions is 0"):
        Graph.read(spark, __file__, partitions=0)
    with pytest.raises(InputError, match="format 'json' is not known"):
        Graph.read(spark, __file__, format="json")


@pytest.mark.parametrize("case", range(len(BAD_COLUMNS)))
def test_bad_parquet(spark: SparkSession, tmp_path: Path, case: int) -> None:
    columns, said = BAD_COLUMNS[case]
    partitions = 1 + case % 2
    pq.write_table(pa.table(columns), tmp_path / "edges.parquet")
    path = str(tmp_path / "edges.parquet")
    with pytest.raises(InputError, match=said) as caught:
        Graph.read(spark, path, partitions=partitions).materialise(FLOATS)
    assert "\n" not in str(caught.value)
    assert path in str(caught.value)


def test_not_parquet(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "edges.parquet").write_text("1 2\n")
    with pytest.raises(InputError, match="not a Parquet file"):
        Graph.read(spark, str(tmp_path / "edges.parquet"))
    (tmp_path / "edges.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        Graph.read(spark, str(tmp_path / "edges.parquet"))


@pytest.mark.parametrize(
    "lines",
    ["from,to\n1,2\n", "# c\nid1,id2,x\n-1,2,0.5\n", "a b\n1 2\n", "Start,End\nann,bob\n",
     '"source_id","target_id"\nann,bob\n', "from,to\n"],
)  # fmt: skip
def test_a_csv_with_other_names(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(lines)
    with pytest.raises(
        InputError, match=r"edges\.csv: the columns are \w+, \w+.*; name them source"
    ):
        Graph.read(spark, str(path))


@pytest.mark.parametrize(
    "lines", ["1,2\n2,3\n", "ann,bob\nbob,eve\n", "ann,1\n1,2\n", "# from,to\n1,2\n"]
)
def test_a_csv_without_names(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(lines)
    assert Graph.read(spark, str(path)).materialise().num_edges == lines.count("\n") - (
        "#" in lines
    )


def test_bad_frames(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="name them source,target"):
        Graph.from_dataframe(spark.createDataFrame([(1, 2)], ["a", "b"]))
    with pytest.raises(InputError, match="column src: boolean"):
        Graph.from_dataframe(spark.createDataFrame([(True, 2)], ["src", "dst"]))
    edges = spark.createDataFrame([(1, 2)], ["source", "target"])
    ages = spark.createDataFrame([(1, 31, "Reader", "x")], ["id", "age", "kind", "note"])
    with pytest.raises(InputError, match="nothing reads age, note; select id, and kind"):
        Graph.from_dataframe(edges, ages)
    with pytest.raises(InputError, match="columns are age; name one `id`"):
        Graph.from_dataframe(edges, ages.select("age"))
    nulls = spark.createDataFrame([(1, None), (1, 2)], "source int, target int")
    with pytest.raises(InputError, match="column target: an id is null"):
        Graph.from_dataframe(nulls).materialise()


def test_bad_vertex_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("1 2\n")
    (tmp_path / "vertices").write_text("1\n99999999999999999999\n")
    with pytest.raises(InputError, match=r"vertices, line 2: '9+': the id is beyond int64"):
        Graph.read(spark, str(tmp_path / "edges"), vertices=str(tmp_path / "vertices"))
    with pytest.raises(InputError, match="no such file"):
        Graph.read(spark, str(tmp_path / "edges"), vertices=str(tmp_path / "none"))


def test_negative_ids_and_the_ends_of_int64_are_fine(spark: SparkSession, tmp_path: Path) -> None:
    least, most = -(2**63), 2**63 - 1
    (tmp_path / "edges").write_text(f"{least} {most}\n-1 -2\n0000000000000000000000005 -0\n")
    graph = Graph.read(spark, str(tmp_path / "edges"))
    assert graph.materialise().num_vertices == 6
    assert graph.topology(Variant(), 0).ids.tolist() == [least, -2, -1, 0, 5, most]
