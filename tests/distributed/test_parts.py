"""Parts of data: which there are, in which order, and how they are read."""

import pyarrow
import pyarrow.parquet
import pytest

from rankgrove import make_web_search, read_data, write_data
from rankgrove.distributed.parts import Part, list_parts, read_parts
from rankgrove.errors import DataError, ParameterError


def write_texts(folder, *texts):
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    return list_parts([folder / "*.txt"])


def test_files_come_in_the_order_of_their_names_and_row_groups_in_theirs(tmp_path):
    for name in ("b", "a"):
        table = pyarrow.table({"label": [0, 1, 2], "qid": [1, 1, 2], "f": [1.0, 2.0, 3.0]})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    parts = list_parts([tmp_path / "b.parquet", tmp_path / "a*.parquet"])
    assert [(part.path[-9:], part.row_group, part.size) for part in parts] == [
        ("a.parquet", 0, 2), ("a.parquet", 1, 1), ("b.parquet", 0, 2), ("b.parquet", 1, 1),
    ]  # fmt: skip
    assert [part.number for part in parts] == [0, 1, 2, 3]
    assert parts[1].read({}).features.tolist() == [[3.0]]


def test_a_row_group_is_read_as_the_rows_of_its_file(tmp_path):
    data = make_web_search(4, 16)
    write_data(data, tmp_path / "all.parquet")
    (part,) = list_parts([tmp_path / "all.parquet"])
    own, whole = part.read({}), read_data(tmp_path / "all.parquet")
    assert own.features.tobytes() == whole.features.tobytes()
    assert own.query_ids.tolist() == whole.query_ids.tolist()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_index_0_in_any_text_shifts_the_features_of_all(tmp_path, place):
    texts = ["1 qid:1 1:5\n", "0 qid:2 1:6\n", "0 qid:3 1:7\n"]
    parts = write_texts(tmp_path, *texts)
    rows, from_zero = read_parts(parts, {}, several=True, from_zero=False)
    assert not from_zero
    assert [data.features.tolist() for _, data in rows] == [[[5.0]], [[6.0]], [[7.0]]]
    texts[place] = texts[place].replace(" 1:", " 0:8 1:")
    parts = write_texts(tmp_path, *texts)
    rows, from_zero = read_parts(parts, {}, several=True, from_zero=False)
    assert from_zero
    assert [data.features[0, 1] for _, data in rows] == [5.0, 6.0, 7.0]
    assert [data.features[0, 0] for _, data in rows] == [8.0 * (n == place) for n in range(3)]


def test_queries_of_a_file_of_sizes_have_no_ids(tmp_path):
    (part,) = write_texts(tmp_path, "1 1:5\n0 1:6\n")
    assert part.has_query_ids
    (tmp_path / "0.txt.query").write_text("2\n")
    assert not part.has_query_ids
    assert part.read({}).group.tolist() == [2]


def test_what_is_wrong_names_the_part(tmp_path):
    table = pyarrow.table({"label": [0.0, float("nan")], "qid": [1, 1], "f": [1.0, 2.0]})
    pyarrow.parquet.write_table(table, tmp_path / "bad.parquet")
    (part,) = list_parts([tmp_path / "bad.parquet"])
    with pytest.raises(DataError, match=r"bad\.parquet \(row group 0\): .*label"):
        part.read({})
    (tmp_path / "no.parquet").write_text("wurst")
    with pytest.raises(DataError, match=r"no\.parquet: must be a sound parquet file"):
        list_parts([tmp_path / "no.parquet"])


def test_paths_that_cannot_be_parts_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:5\n")
    pyarrow.parquet.write_table(pyarrow.table({"label": [0]}), tmp_path / "b.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"label": [0]}).slice(1), tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="paths must differ from each other"):
        list_parts([tmp_path / "a.txt", tmp_path / "*.txt"])
    with pytest.raises(ParameterError, match="paths must be of one format"):
        list_parts([tmp_path / "a.txt", tmp_path / "b.parquet"])
    with pytest.raises(DataError, match=r"empty\.parquet: must have at least one row"):
        list_parts([tmp_path / "empty.parquet"])
    with pytest.raises(ParameterError, match="be files that every worker can open"):
        list_parts(["s3://bucket/*.parquet"])
    with pytest.raises(DataError, match="Got a directory"):
        list_parts([tmp_path])


def test_a_frame_is_a_part():
    frame = pyarrow.table({"label": [0, 1], "qid": [1, 1], "f": [1.0, 2.0]})
    part = Part(0, "partition 0", 2, frame=frame)
    assert not part.is_letor
    assert part.read({"n_jobs": 1}).n_documents == 2
