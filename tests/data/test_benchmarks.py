"""The public data sets: layouts found by file names, parts read, sizes checked."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rankgrove import Dataset, make_web_search, read_letor, write_letor
from rankgrove.data.benchmarks import (
    BENCHMARKS,
    Split,
    check_sizes,
    choose_folds,
    find_benchmark,
    find_folds,
    read_fold,
    recognise,
)
from rankgrove.errors import DataError, ParameterError

REAL = Path(os.environ.get("RANKGROVE_DATA", "nowhere"))


@pytest.fixture(scope="module")
def pieces():
    data = make_web_search(25, 16, mean_documents=4, seed=1)
    return [data.take_queries(np.arange(5 * part, 5 * part + 5)) for part in range(5)]


def query_ids(data):
    return data.query_ids.tolist()


def test_folds_of_directories_are_read_by_number(tmp_path, pieces):
    for number in (2, 1):
        folder = tmp_path / f"Fold{number}"
        folder.mkdir()
        for part, data in zip(("train", "vali", "test"), pieces[number:], strict=False):
            write_letor(data, folder / f"{part}.txt.gz")
    folds = find_folds(tmp_path)
    assert [fold.number for fold in folds] == [1, 2]
    split = read_fold(folds[1])
    assert [query_ids(part) for part in split] == [query_ids(data) for data in pieces[2:5]]


def test_fold_k_of_pieces_trains_on_three_watches_one_and_tests_on_the_last(tmp_path, pieces):
    for number, data in enumerate(pieces, start=1):
        write_letor(data, tmp_path / f"S{number}.txt")
    folds = find_folds(tmp_path)
    assert [fold.number for fold in folds] == [1, 2, 3, 4, 5]
    for k, fold in enumerate(folds):
        turned = [pieces[(k + step) % 5] for step in range(5)]
        split = read_fold(fold)
        train = np.concatenate([data.features for data in turned[:3]])
        np.testing.assert_array_equal(split.train.features, train)
        assert query_ids(split.vali) == query_ids(turned[3])
        assert query_ids(split.test) == query_ids(turned[4])


@pytest.mark.parametrize(
    "names",
    [
        ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
        ("train.txt", "vali.txt", "test.txt"),
        ("train.letor.zst", "validation.letor.zst", "test.letor.zst"),
        ("rank.train", "rank.val", "rank.test"),
    ],
)
def test_parts_are_known_by_words_of_their_names(tmp_path, pieces, names):
    for name, data in zip(names, pieces, strict=False):
        write_letor(data, tmp_path / name)
    (tmp_path / "README.md").write_text("train and test")
    (fold,) = find_folds(tmp_path)
    assert [query_ids(part) for part in read_fold(fold)] == [query_ids(d) for d in pieces[:3]]


def test_one_of_both_sets_of_yahoo_is_chosen_by_name(tmp_path, pieces):
    for number, data in ((1, pieces[0]), (2, pieces[1])):
        for part in ("train", "valid", "test"):
            write_letor(data, tmp_path / f"set{number}.{part}.txt")
    with pytest.raises(DataError, match=r"one file a part. Got set1.test.txt and set2.test.txt"):
        find_folds(tmp_path)
    (fold,) = find_folds(tmp_path, BENCHMARKS["yahoo-s2"])
    assert [paths[0].name for paths in fold.files.values()] == [
        "set2.train.txt", "set2.valid.txt", "set2.test.txt"
    ]  # fmt: skip
    assert read_fold(fold, BENCHMARKS["yahoo-s2"]).train.n_features == 699


def test_without_vali_some_training_queries_are_cut_off_by_the_seed(tmp_path):
    data = make_web_search(100, 16, mean_documents=2, seed=1)
    write_letor(data, tmp_path / "train.txt")
    write_letor(data.take_queries([0]), tmp_path / "test.txt")
    (fold,) = find_folds(tmp_path)
    first, again, other = (read_fold(fold, seed=seed) for seed in (0, 0, 1))
    assert (first.train.n_queries, first.vali.n_queries) == (80, 20)
    assert sorted(query_ids(first.train) + query_ids(first.vali)) == sorted(query_ids(data))
    assert query_ids(first.vali) == query_ids(again.vali) != query_ids(other.vali)
    assert read_fold(fold, BENCHMARKS["istella"]).vali.n_queries == round(100 * 2912 / 23219)


def test_parts_get_the_features_of_the_widest(tmp_path):
    for part, line in (("train", "1 qid:1 1:5"), ("vali", "0 qid:2 3:7"), ("test", "0 qid:3 2:1")):
        (tmp_path / f"{part}.txt").write_text(line + "\n")
    split = read_fold(find_folds(tmp_path)[0])
    assert [part.features.tolist() for part in split] == [[[5, 0, 0]], [[0, 0, 7]], [[0, 1, 0]]]
    assert split.train.feature_names == ("f1", "f2", "f3")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "Got an empty directory."),
        (["notes.txt", "train.txt"], "Got notes.txt, train.txt."),
        ([f"{i}.txt" for i in range(10)], "and 2 more."),
        (["S1.txt", "S2.txt"], "must have all of S1 to S5, or none. Got S1.txt, S2.txt."),
        (["train.txt", "train.gz", "test.txt"], "one file a part. Got train.gz and train.txt"),
    ],
)
def test_what_is_no_data_set_is_refused_with_what_is_there(tmp_path, files, problem):
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(DataError) as error:
        find_folds(tmp_path)
    assert problem in str(error.value)


def test_a_place_that_is_no_directory_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"must be a directory with a data set. Got nothing"):
        find_folds(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"must be a directory with a data set. Got a file"):
        find_folds(tmp_path / "file")


def test_folds_are_chosen_by_number(tmp_path):
    for number in range(1, 6):
        (tmp_path / f"S{number}.txt").touch()
    folds = find_folds(tmp_path)
    assert choose_folds(folds, None) == folds
    assert [fold.number for fold in choose_folds(folds, [3, 1, 3])] == [3, 1]
    with pytest.raises(ParameterError, match=r"folds must be out of 1, 2, 3, 4, 5. Got 6"):
        choose_folds(folds, [6])
    with pytest.raises(ParameterError, match="at least one fold"):
        choose_folds(folds, [])


def test_unknown_set_is_refused_with_the_nearest():
    assert find_benchmark("Web10K").name == "web10k"
    with pytest.raises(ParameterError, match="did you mean 'istella-s'"):
        find_benchmark("istela-s")


def test_names_of_directories_tell_the_set():
    found = {
        place: recognise(place)
        for place in ("MSLR-WEB30K", "x/MQ2008", "yahoo_set1", "web10k/Fold1", "mslr-sample")
    }
    names = {place: one and one.name for place, one in found.items()}
    assert list(names.values()) == ["web30k", "mq2008", "yahoo-s1", "web10k", None]


def make_split(n_queries, n_features=46, grade=2.0):
    parts = []
    for n in n_queries:
        features = np.zeros((n, n_features), dtype=np.float32)
        parts.append(Dataset.from_arrays(features, [grade] * n, qid=range(n)))
    return Split(*parts)


def test_other_sizes_than_published_are_said():
    known = BENCHMARKS["mq2008"]
    assert check_sizes(known, 1, make_split((400, 300, 84)))[:1] == [
        "784 documents in all in place of 15,211"
    ]
    said = check_sizes(known, 2, make_split((3, 2, 1), n_features=45, grade=4.0))
    assert said == [
        "45 features in place of 46", "labels up to 4 in place of 2",
        "6 queries in all in place of 784", "6 documents in all in place of 15,211",
    ]  # fmt: skip
    by_part = check_sizes(BENCHMARKS["yahoo-s2"], 1, make_split((1266, 1266, 3797), 699, 4.0))
    assert by_part[0] == "3,797 queries of test in place of 3,798"
    assert by_part[1] == "1,266 documents of train in place of 34,815"


def test_parts_of_the_known_sets_sum_to_what_their_owners_publish():
    totals = {name: (sum(one.queries), sum(one.documents)) for name, one in BENCHMARKS.items()}
    assert totals == {
        "web10k": (10_000, 1_200_192), "web30k": (31_531, 3_771_125),
        "yahoo-s1": (29_921, 709_877), "yahoo-s2": (6_330, 172_870),
        "istella": (33_018, 10_454_629), "istella-s": (33_018, 3_408_630),
        "mq2007": (1_692, 69_623), "mq2008": (784, 15_211),
    }  # fmt: skip


@pytest.mark.skipif(not (REAL / "mq2008").is_dir(), reason="the data set is not here")
def test_real_mq2008_is_recognised_and_has_its_sizes():
    known = recognise(REAL / "mq2008")
    fold = find_folds(REAL / "mq2008")[4]
    split = read_fold(fold, known)
    assert check_sizes(known, fold.number, split) == []
    fourth = read_letor(REAL / "mq2008" / "S4.txt.gz")
    assert query_ids(split.test) == query_ids(fourth)
