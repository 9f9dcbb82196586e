"""What Dask workers make of data that are not as they should be: one clear error, or the model."""

import pytest

pytest.importorskip("dask.distributed")

import dask
import dask.dataframe
import pandas as pd

from dask_clusters import PARAMETERS, assert_nothing_is_left, file_of, fit
from rankgrove.distributed import DaskRanker, WorkersError, tasks
from rankgrove.errors import DataError, RankgroveError


@pytest.fixture(scope="module")
def frame(folder):
    return pd.read_parquet(folder / "all.parquet")


def frame_of(*partitions):
    """A Dask frame of these partitions, whatever they are like."""
    delayed = [dask.delayed(each) for each in partitions]
    return dask.dataframe.from_delayed(delayed, meta=partitions[0].iloc[:0], verify_meta=False)


def test_an_empty_partition_changes_nothing(frame, folder, wanted, whole_client, tmp_path):
    data = frame_of(frame[:100], frame[:0], frame[100:])
    valid = dask.dataframe.read_parquet(folder / "valid.parquet")
    ranker = DaskRanker(**PARAMETERS).fit(data, valid=valid, client=whole_client)
    assert file_of(ranker, tmp_path / "model") == wanted


def test_a_partition_of_other_columns_is_refused_by_name(frame, whole_client):
    data = frame_of(frame[:100], frame[100:].rename(columns={"score_1": "wurst"}))
    with pytest.raises(DataError, match=r"partition 1: .*'wurst'"):
        DaskRanker(n_estimators=2).fit(data, client=whole_client)
    assert_nothing_is_left(whole_client)


def test_a_partition_of_other_types_is_refused_by_name(frame, whole_client):
    data = frame_of(frame[:100], frame[100:].assign(score_1="wurst"))
    with pytest.raises(DataError, match=r"partition 1: .*score_1"):
        DaskRanker(n_estimators=2).fit(data, client=whole_client)
    assert_nothing_is_left(whole_client)


def test_a_file_of_other_columns_or_types_is_refused_by_name(frame, whole_client, tmp_path):
    frame[:100].to_parquet(tmp_path / "0.parquet", index=False)
    frame[100:].rename(columns={"score_1": "wurst"}).to_parquet(tmp_path / "1.parquet", index=False)
    with pytest.raises(DataError, match=r"1\.parquet.*must have the features of.*0\.parquet"):
        DaskRanker(n_estimators=2).fit(tmp_path / "*.parquet", client=whole_client)
    frame[100:].assign(score_1="wurst").to_parquet(tmp_path / "1.parquet", index=False)
    with pytest.raises(DataError, match=r"1\.parquet.*score_1"):
        DaskRanker(n_estimators=2).fit(tmp_path / "*.parquet", client=whole_client)
    assert_nothing_is_left(whole_client)


@pytest.mark.parametrize("by_type", [False, True])
@pytest.mark.parametrize("as_frames", [False, True])
def test_categories_that_are_strings_are_refused_in_one_sentence(
    frame, whole_client, tmp_path, as_frames, by_type
):
    words = frame["score_1"].gt(0).map({True: "high", False: "low"})
    named = frame.assign(score_1=words.astype("category") if by_type else words)
    options = {"n_estimators": 2, "categorical": None if by_type else ["score_1"]}
    named.to_parquet(tmp_path / "0.parquet", index=False)
    data = frame_of(named[:100], named[100:]) if as_frames else tmp_path / "0.parquet"
    with pytest.raises(DataError, match=r"categories must be whole numbers for workers. Got 'sco"):
        DaskRanker(**options).fit(data, client=whole_client)
    assert_nothing_is_left(whole_client)


@pytest.mark.parametrize("as_frames", [False, True])
def test_a_validation_set_with_none_of_the_features_is_refused(
    as_frames, frame, folder, whole_client, tmp_path
):
    bare = frame[["label", "qid"]]
    bare.to_parquet(tmp_path / "bare.parquet", index=False)
    train, valid = folder / "parts/*.parquet", tmp_path / "bare.parquet"
    if as_frames:
        train, valid = frame_of(frame), frame_of(bare)
    with pytest.raises(RankgroveError, match=r"(bare|partition 0).*must be one of.*score_1"):
        DaskRanker(n_estimators=2).fit(train, valid=valid, client=whole_client)
    assert_nothing_is_left(whole_client)


def test_a_validation_text_of_fewer_features_is_refused_by_name(folder, whole_client, tmp_path):
    (tmp_path / "few.txt").write_text("1 qid:1 1:5\n0 qid:1 2:3\n")
    with pytest.raises(DataError, match=r"'few' must have the 16 features.*n_features=16"):
        DaskRanker(n_estimators=2).fit(
            folder / "all.txt", valid={"few": tmp_path / "few.txt"}, client=whole_client
        )
    assert_nothing_is_left(whole_client)


def test_another_numba_on_a_worker_is_refused(folder, whole_client, monkeypatch):
    here = tasks.versions()
    monkeypatch.setattr(tasks, "version", lambda name: "99" if name == "numba" else here[name])
    with pytest.raises(WorkersError, match=r"worker tcp://.* must have numba 99.*install"):
        fit(folder, whole_client)
