"""Each kind of bad input is refused in one line which says where and what to do."""

from __future__ import annotations

import gzip
import itertools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vertexsdk.errors import InputError
from vertexsdk.graph.graph import Graph, Variant
from vertexsdk.graph.load import files
from vertexsdk.graph.load.lines import NotIntegers
from vertexsdk.graph.load.text import LINE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOATS = Variant("out", "float64", "combined")
WHOLE = Variant("out", "int64", "combined")

BAD_LINES = {
    "1 2\n3\n": r"edges, line 2: '3': one field",
    "1 2\n3 4 # 5\n": r"'#': the value is not a number; a comment is a line of its own",
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
        "directory": "the directory has no files",
    }.items():
        with pytest.raises(InputError, match=said) as caught:
            Graph.read(spark, str(tmp_path / name))
        assert name in str(caught.value)
    with pytest.raises(InputError, match="the list of edge files is empty"):
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
    ["from,to\n1,2\n", "# c\nid1,id2,x\n-1,2,0.5\n", "a,b\n1,2\n", "Start,End\nann,bob\n",
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
    Graph.from_dataframe(edges, ages)  # columns that no field has are ignored
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
    (tmp_path / "edges").write_text(f"{least} {most}\n-1 -2\n5 0\n")
    graph = Graph.read(spark, str(tmp_path / "edges"))
    assert graph.materialise().num_vertices == 6
    assert graph.topology(Variant(), 0).ids.tolist() == [least, -2, -1, 0, 5, most]


@pytest.mark.parametrize("before", ["", "1 2\n" * 1_500_000])
@pytest.mark.parametrize("size", [LINE_BYTES + 1, 7 << 20])
def test_a_line_that_is_too_long(tmp_path: Path, before: str, size: int) -> None:
    path = tmp_path / "edges"
    path.write_text(before + "1 2  ".ljust(size, "x") + "\n3 4\n")
    line = before.count("\n") + 1
    with pytest.raises(
        InputError, match=rf"edges, line {line}: .*longer than 1,048,576 bytes"
    ) as e:
        [list(files.read_chunks(s, None, 2)) for s in files.plan([str(path)], 2)]
    assert len(str(e.value)) < 300 + len(str(path))


def test_a_line_of_the_greatest_length(tmp_path: Path) -> None:
    path = tmp_path / "edges"
    path.write_text("1 2 3 #".ljust(LINE_BYTES, "x") + "\n" + "3 4 5 #".ljust(LINE_BYTES, "x"))
    [split] = files.plan([str(path)], 1)
    assert [c.source.tolist() for c in files.read_chunks(split, None, 1)] == [[1, 3]]


def test_lines_that_are_too_long_by_spark_and_of_vertices(
    spark: SparkSession, tmp_path: Path
) -> None:
    with gzip.open(tmp_path / "edges.gz", "wb") as file:
        file.write(b"1 2\n" + b"x" * (3 << 20) + b" 2\n")
    with pytest.raises(InputError, match=r"'xxx.*longer than 1,048,576 bytes") as caught:
        Graph.read(spark, str(tmp_path / "edges.gz")).materialise()
    assert len(str(caught.value)) < 300
    (tmp_path / "edges").write_text("1 2\n")
    (tmp_path / "vertices").write_text("1\n" + "2" * (2 << 20))
    with pytest.raises(InputError, match=r"vertices, line 2: .*longer than 1,048,576 bytes"):
        Graph.read(spark, str(tmp_path / "edges"), vertices=str(tmp_path / "vertices"))


def test_a_bad_line_of_a_packed_file_is_counted_in_the_text(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "edges.txt.gz", "wb") as file:
        file.write(b"1 2\n" * 500 + b"3\n")
    with pytest.raises(InputError, match=r"edges\.txt\.gz, line 501: '3': one field"):
        Graph.read(str(tmp_path / "edges.txt.gz")).materialise()


def test_long_ids_in_messages_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"source": ["9" * 100_000], "target": ["x" * 100_000]}), path)
    [split] = files.plan([str(path)], 1)
    with pytest.raises(NotIntegers, match=r"'999.*\.\.\.999.*: not an integer id") as beyond:
        list(files.read_chunks(split, None, 1))
    pq.write_table(pa.table({"source": ["x" * 100_000], "target": ["1"]}), path)
    with pytest.raises(NotIntegers, match=r"'xxx.*\.\.\.xxx.*: not an integer id") as none:
        list(files.read_chunks(split, None, 1))
    assert max(len(str(e.value)) for e in (beyond, none)) < 300 + len(str(path))
    pq.write_table(pa.table({"source": ["1"], "target": ["x" * (LINE_BYTES + 1)]}), path)
    with pytest.raises(InputError, match="column target: an id is longer than 1,048,576 bytes"):
        list(files.read_chunks(split, None, 1, lambda names: np.zeros(len(names), np.int64)))


_LOAD = """
import sys
import numpy as np
import pyarrow as pa
from vertexsdk.graph.load import files
[split] = files.plan([sys.argv[1]], 1)
rows = 0
for chunk in files.read_chunks(split, None, 1, lambda names: np.zeros(len(names), np.int64)):
    rows += len(chunk.source)
print(rows, pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.parametrize("size", [900_000, 5_000])
@pytest.mark.full
def test_a_few_bytes_of_parquet_for_long_strings(tmp_path: Path, size: int) -> None:
    rows = 1_000_000_000 // size
    strings = pa.chunked_array([pa.array(["x" * size] * 100)] * (rows // 100))
    path = tmp_path / "edges.parquet"
    table = pa.table({"source": strings, "target": strings})
    pq.write_table(table, path, compression="zstd", store_schema=False, row_group_size=rows)
    assert path.stat().st_size < 3000
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    read, megabytes = map(int, done.stdout.split())
    assert read == len(strings)
    assert megabytes < 100


def test_a_few_bytes_of_parquet_for_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    zeros = pa.chunked_array([pa.array(np.zeros(1 << 20, np.int64))] * 32)
    table = pa.table({"source": zeros, "target": zeros})
    pq.write_table(
        table, path, compression="zstd", row_group_size=1 << 25, data_page_size=1 << 30,
        max_rows_per_page=1 << 25,
    )  # fmt: skip
    with pytest.raises(
        InputError, match=r"edges\.parquet: [0-9,]+ bytes unpack to 33,554,432 rows"
    ):
        files.plan([str(path)], 1)


def test_parquet_with_other_bytes_in_a_page(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"source": range(1000), "target": range(1000)}), path)
    data = bytearray(path.read_bytes())
    data[4:2000] = bytes(1996)
    path.write_bytes(data)
    [split] = files.plan([str(path)], 1)
    with pytest.raises(
        InputError, match=r"edges\.parquet: not a readable Parquet file \("
    ) as caught:
        list(files.read_chunks(split, None, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_parquet_strings_however_they_are_encoded(
    tmp_path: Path, encoding: str | None, kind: pa.DataType
) -> None:
    long = "x" * 3000
    ids = [f"{long}{k % 7}" if k % 2 else str(k) for k in range(10_000)]
    table = pa.table(
        {
            "source": pa.array(ids, kind),
            "target": pa.array(ids[1:] + ids[:1], kind),
            "value": pa.array([None if k % 3 else f" {k}.5" for k in range(10_000)], kind),
        }
    )
    path = tmp_path / "edges.parquet"
    if encoding is None:
        pq.write_table(table, path, row_group_size=4000)
    else:
        pq.write_table(table, path, use_dictionary=False, column_encoding=encoding)
    seen: list[str] = []

    def codes(names: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        seen.extend(names.to_pylist())
        return np.array([hash(n) for n in names.to_pylist()])

    [split] = files.plan([str(path)], 1)
    chunks = list(files.read_chunks(split, "float64", 1, codes))
    assert np.concatenate([c.source for c in chunks]).tolist() == [hash(i) for i in ids]
    assert np.concatenate([c.value for c in chunks if c.value is not None]).tolist() == [
        1 if k % 3 else k + 0.5 for k in range(10_000)
    ]
    assert set(seen) == set(ids)
    assert sum(c.valued for c in chunks) == 3334


def test_categories_that_no_row_has_are_not_ids(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["5", "none", "7"]))
    pq.write_table(pa.table({"source": ids, "target": ids}), path)
    graph = Graph.read(str(path))
    assert graph.to_arrow()["source"].to_pylist() == ["5", "7"]
    assert {*graph.degrees()} == {"5", "7"}


def test_the_same_lines_are_comments_in_edge_vertex_and_change_files(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("# Ada Java\nLisp C#\n  # none\nC# #objects 2\n")
    (tmp_path / "vertices").write_text("#Ada\nF# Language\nJ #\n")
    graph = Graph.read(str(tmp_path / "edges"), vertices=str(tmp_path / "vertices"))
    assert graph.to_arrow().to_pydict() == {
        "source": ["C#", "Lisp"], "target": ["#objects", "C#"], "value": [2.0, 1.0],
    }  # fmt: skip
    assert {*graph.degrees()} == {"#objects", "C#", "F#", "J", "Lisp"}
    assert graph.materialise().kinds == ("#", "Language")
