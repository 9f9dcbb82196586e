"""Parts of data: which there are, in which order, and how they are read."""

import pickle

import numpy as np
import pandas as pd
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
    assert [(part.place.path[-9:], part.place.row_group, part.size) for part in parts] == [
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
    with pytest.raises(DataError, match="cannot be found"):
        list_parts(["nowhere://bucket/*.parquet"])
    with pytest.raises(DataError, match="Got a directory"):
        list_parts([tmp_path])


def test_a_frame_is_a_part():
    frame = pyarrow.table({"label": [0, 1], "qid": [1, 1], "f": [1.0, 2.0]})
    part = Part(0, "partition 0", 2, frame=frame)
    assert not part.is_letor
    assert part.read({"n_jobs": 1}).n_documents == 2


def rows_of(parts, **options):
    """All rows of parts, one below the other, with their query ids."""
    read, _ = read_parts(parts, options, several=True, from_zero=False)
    qid = [str(id_) for _, data in read for id_ in data.qid]
    return np.concatenate([data.features for _, data in read]), qid


@pytest.mark.parametrize("suffix", ["txt", "csv"])
@pytest.mark.parametrize("least_bytes", [1, 300, 5000])
def test_lines_of_one_text_are_divided_among_workers(tmp_path, suffix, least_bytes):
    write_data(make_web_search(8, 16), tmp_path / f"all.{suffix}")
    path = tmp_path / f"all.{suffix}"
    whole = read_data(path)
    parts = list_parts([path], n_workers=3, least_bytes=least_bytes)
    assert len(parts) > 2
    assert sum(part.size for part in parts) == path.stat().st_size
    features, qid = rows_of(parts)
    assert features.tobytes() == whole.features.tobytes()
    assert qid == [str(id_) for id_ in whole.qid]
    assert len(list_parts([path], n_workers=3)) == 1


def test_line_breaks_within_quotes_do_not_divide_a_row(tmp_path):
    names = ["a", 'b\n0,9,"x"', '"\n"\n"', "c" * 40 + "\n" * 30, "d"]
    frame = pd.DataFrame({"label": range(5), "qid": [1, 1, 2, 2, 3], "name": names, "f": range(5)})
    frame.to_csv(tmp_path / "all.csv", index=False)
    parts = list_parts([tmp_path / "all.csv"], n_workers=9, least_bytes=1)
    features, qid = rows_of(parts, features=["f"])
    assert features[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert qid == list("11223")


def test_what_is_wrong_in_a_later_part_of_a_text_has_its_line(tmp_path):
    lines = [f"1 qid:{n} 1:5\n" for n in range(100)]
    lines[80] = "1 qid:80 1:wurst\n"
    (tmp_path / "all.txt").write_text("".join(lines))
    parts = list_parts([tmp_path / "all.txt"], n_workers=4, least_bytes=10)
    assert len(parts) > 3
    with pytest.raises(DataError, match=r"all\.txt:81:12: "):
        rows_of(parts)


def test_a_part_of_comments_only_has_no_rows(tmp_path):
    (tmp_path / "all.txt").write_text("1 qid:1 1:5\n" + "# nothing\n" * 50)
    parts = list_parts([tmp_path / "all.txt"], n_workers=4, least_bytes=10)
    assert len(parts) > 3
    assert rows_of(parts)[1] == ["1"]


def test_texts_that_cannot_be_divided_stay_whole(tmp_path):
    data = make_web_search(8, 16)
    for name in ("a.txt.gz", "b.csv.gz", "c.txt", "d.txt"):
        write_data(data, tmp_path / name)
    (tmp_path / "c.txt.query").write_text("1\n")
    (tmp_path / "hidden.txt").write_bytes((tmp_path / "a.txt.gz").read_bytes())
    for name in ("a.txt.gz", "b.csv.gz", "c.txt", "hidden.txt"):
        assert len(list_parts([tmp_path / name], n_workers=3, least_bytes=1)) == 1
    for options in ({"split_queries": "group"}, {"weight": ".weights"}):
        assert len(list_parts([tmp_path / "d.txt"], options, n_workers=3, least_bytes=1)) == 1


def test_files_of_a_store_are_parts(tmp_path):
    write_data(make_web_search(8, 16), tmp_path / "all.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet")
    for number in range(2):
        rows = table.slice(number * 60, 60)
        pyarrow.parquet.write_table(rows, tmp_path / f"part{number}.parquet", row_group_size=40)
    parts = list_parts([f"{tmp_path.as_uri()}/part*.parquet"])
    assert [part.size for part in parts] == [40, 20, 40, 20]
    assert parts[1].name == f"{tmp_path.as_uri()}/part0.parquet (row group 1)"
    features, _ = rows_of(pickle.loads(pickle.dumps(parts)))
    assert features.tobytes() == read_data(tmp_path / "all.parquet").features[:120].tobytes()
    write_data(make_web_search(2, 16), tmp_path / "all.txt")
    with pytest.raises(DataError, match=r"all\.txt: text must be a file that every worker"):
        list_parts([f"{tmp_path.as_uri()}/all.txt"])
