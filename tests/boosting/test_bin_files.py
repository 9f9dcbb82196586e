"""Files that are read in blocks train the model that data in memory do, to the bit."""

import gzip
import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from rankgrove import BinnedData, Dataset, Ranker, bin_files, read_data, write_data
from rankgrove.boosting.binned import Binned
from rankgrove.boosting.memory import training_memory
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import DataError, ParameterError
from rankgrove.trees import bins_file
from rankgrove.trees import summary as summaries

CATEGORY = 3
FEW = {"n_estimators": 4, "grower": "leafwise", "max_leaves": 6, "min_samples_leaf": 5}


def make_data(seed=0, n_queries=60, **more):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, 20, n_queries)
    n = int(group.sum())
    features = rng.normal(size=(n, 20)).astype(np.float32)
    features[:, CATEGORY] = rng.integers(0, 6, n)
    features[rng.random(features.shape) < 0.05] = np.nan
    signal = np.nan_to_num(features[:, 0] + features[:, CATEGORY] % 3) + rng.normal(size=n)
    lengths = {"weights": n_queries, "base_scores": n, "document_weights": n}
    fields = {name: rng.uniform(0.5, 2, lengths[name]) for name in more if more[name]}
    return Dataset.from_arrays(
        features, np.digitize(signal, [0.5, 1.5, 2.5]), qid=np.repeat(np.arange(n_queries), group),
        **fields,
    )  # fmt: skip


def model_bytes(data, tmp_path, **parameters):
    fit = {name: parameters.pop(name) for name in ("valid", "resume", "base_model")
           if name in parameters}  # fmt: skip
    path = tmp_path / "model.safetensors"
    Ranker(**FEW | parameters).fit(data, **fit).save(path)
    return path.read_bytes()


def same(binned, data, n_jobs=None):
    """Whether binned data are what training makes of the data."""
    made = Binned.make(data, {}, Parameters(), n_jobs)
    assert made.bins.same_as(binned.bins)
    assert np.array_equal(made.matrix.codes, binned.matrix.codes)
    assert binned.features_checksum() == data.features_checksum()
    for name in ("labels", "offsets", "query_ids", "weights", "base_scores", "document_weights"):
        assert np.array_equal(getattr(binned, name), getattr(data, name)), name
    assert binned.feature_names == data.feature_names
    return True


@pytest.mark.parametrize("block_rows", [1, 7, 100, None])
@pytest.mark.parametrize(
    "name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.parquet", "a.csv", "a.tsv.gz"]
)
def test_codes_are_those_of_data_in_memory_for_any_format_and_block(name, block_rows, tmp_path):
    path = tmp_path / name
    write_data(make_data(), path)
    assert same(bin_files(path, block_rows=block_rows), read_data(path))


@pytest.mark.parametrize("name", ["txt", "parquet", "csv"])
def test_many_files_are_one_whose_queries_may_cross_borders(name, tmp_path):
    data = make_data()
    write_data(data, tmp_path / f"whole.{name}")
    whole = read_data(tmp_path / f"whole.{name}")
    cuts = [0, 100, 101, 333, data.n_documents]
    assert not set(cuts[1:-1]) <= set(data.offsets)
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = Dataset.from_arrays(
            data.features[first:last], data.labels[first:last], qid=data.qid[first:last]
        )
        write_data(part, tmp_path / f"part-{number}.{name}")
    assert same(bin_files(tmp_path / f"part-*.{name}"), whole)
    assert same(bin_files([tmp_path / f"part-{k}.{name}" for k in range(4)]), whole)


def test_uris_are_found_by_pyarrow(tmp_path):
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    assert same(bin_files(f"file://{tmp_path}/*.parquet"), read_data(path))
    assert same(bin_files(f"file://{path}"), read_data(path))
    with pytest.raises(DataError, match="no file has such a name"):
        bin_files(f"file://{tmp_path}/*.nothing")


def test_quantiles_are_of_the_rows_that_are_drawn_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(summaries, "SAMPLE_ROWS", 50)
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    assert same(bin_files(path, block_rows=30), read_data(path))


def test_columns_that_come_late_in_a_text_are_found(tmp_path):
    lines = [f"{k % 3} qid:{k // 5} 1:{k}" for k in range(40)]
    lines[33] += " 9:2.5"
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines))
    assert same(bin_files(path, block_rows=1), read_data(path))
    lines[38] += " 0:1"
    path.write_text("\n".join(lines))
    for options in ({}, {"absent": "missing"}, {"n_features": 12}):
        assert same(bin_files(path, block_rows=1, **options), read_data(path, **options))


def test_late_columns_of_a_large_text_are_found_in_a_second_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrove.data.letor_reader.CHUNK_BYTES", 200)
    monkeypatch.setattr("rankgrove.data.letor_reader._PROBE_BYTES", 50)
    lines = [f"{k % 3} qid:{k // 5} 1:{k}" for k in range(200)]
    lines[150] += " 7:2.5"
    lines[190] += " 0:3"
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines))
    assert same(bin_files(path, block_rows=1), read_data(path))


def test_weights_and_base_scores_of_any_format_are_kept(tmp_path):
    data = make_data(weights=True, base_scores=True, document_weights=True)
    roles = {"weight": "weight", "base_score": "base_score", "document_weight": "document_weight"}
    for name in ("a.parquet", "a.csv"):
        write_data(data, tmp_path / name)
        binned = bin_files(tmp_path / name, block_rows=40, **roles)
        assert same(binned, read_data(tmp_path / name, **roles))
    write_data(data, tmp_path / "a.txt")
    np.savetxt(tmp_path / "a.txt.weights", data.weights)
    np.savetxt(tmp_path / "a.txt.init", data.base_scores)
    beside = {"weight": ".weights", "base_score": ".init"}
    binned = bin_files(tmp_path / "a.txt", block_rows=40, **beside)
    assert same(binned, read_data(tmp_path / "a.txt", **beside))


def test_sizes_of_queries_beside_texts_are_taken(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text("".join(f"{k % 2} 1:{k}\n" for k in range(6)))
        (tmp_path / f"{number}.txt.query").write_text("2\n4\n")
    binned = bin_files(tmp_path / "?.txt", block_rows=1)
    assert binned.offsets.tolist() == [0, 2, 6, 8, 12]
    for group in (tmp_path / "0.txt.query", [1, 5]):
        wanted = read_data(tmp_path / "0.txt", group=group)
        assert same(bin_files(tmp_path / "0.txt", group=group, block_rows=1), wanted)
    with pytest.raises(DataError, match="group must be about one file"):
        bin_files(tmp_path / "?.txt", group=[6, 6])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"objective": "lambdamart", "layout": "rows"},
        {"grower": "oblivious", "max_leaves": "auto", "layout": "rows"},
        {"categorical": [CATEGORY], "monotone": {"f1": 1}, "max_bins": 30},
        {"subsample": 0.5, "metric": "map(relevant>=1)"},
    ],
    ids=lambda parameters: ",".join(parameters) or "default",
)
def test_the_model_file_is_that_of_data_in_memory(parameters, tmp_path):
    cut = {name: parameters[name] for name in ("categorical", "max_bins") if name in parameters}
    roles = {"weight": "weight", "base_score": "base_score"}
    write_data(make_data(0, weights=True, base_scores=True), tmp_path / "train.parquet")
    write_data(make_data(1, base_scores=True), tmp_path / "vali.parquet")
    train = read_data(tmp_path / "train.parquet", **roles)
    vali = read_data(tmp_path / "vali.parquet", base_score="base_score")
    more = {**parameters, "early_stopping_rounds": 2, "n_estimators": 8}
    wanted = model_bytes(train, tmp_path, valid=vali, **more)
    binned = bin_files(tmp_path / "train.parquet", block_rows=50, **cut, **roles)
    held_out = bin_files(tmp_path / "vali.parquet", like=binned, base_score="base_score")
    assert model_bytes(binned, tmp_path, valid=held_out, **more) == wanted
    assert model_bytes(binned, tmp_path, valid=vali, **more) == wanted
    bin_files(tmp_path / "train.parquet", out=tmp_path / "train.bins", **cut, **roles)
    held_out.save(tmp_path / "vali.bins")
    of_files = [BinnedData.load(tmp_path / f"{name}.bins") for name in ("train", "vali")]
    assert model_bytes(of_files[0], tmp_path, valid=of_files[1], **more) == wanted


def test_training_goes_on_and_starts_from_a_base_model_by_codes(tmp_path):
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    data, binned = read_data(path), bin_files(path, categorical=[CATEGORY])
    options = {"categorical": [CATEGORY], "layout": "rows"}
    short = Ranker(**FEW | options).fit(data).model_
    longer = {**options, "n_estimators": 7}
    wanted = model_bytes(data, tmp_path, **longer)
    assert model_bytes(binned, tmp_path, resume=short, **longer) == wanted
    based = model_bytes(data, tmp_path, base_model=short, **options)
    assert model_bytes(binned, tmp_path, base_model=short, **options) == based
    assert np.array_equal(short.predict(binned), short.predict(data))


def test_a_base_model_of_other_bins_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    other = Ranker(**FEW).fit(make_data(9)).model_
    with pytest.raises(DataError, match="must split binned data between their bins"):
        Ranker(**FEW).fit(bin_files(path), base_model=other)
    with pytest.raises(DataError, match="must be given data with features"):
        Ranker(**FEW).fit(bin_files(path), base_model=lambda features: features[:, 0])


def test_queries_can_be_taken(tmp_path):
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    data, binned = read_data(path), bin_files(path)
    for chosen in ([5, 3, 40], [7, 8, 9]):
        few, codes = data.take_queries(chosen), binned.take_queries(chosen)
        assert np.array_equal(few.labels, codes.labels)
        rows = np.concatenate([np.arange(*data.offsets[q : q + 2]) for q in chosen])
        assert np.array_equal(codes.matrix.codes, binned.matrix.codes[rows])
        assert codes.features_checksum() != binned.features_checksum()
    parts = binned.split(0.5, 0.5)
    assert sum(part.n_documents for part in parts) == data.n_documents
    model = Ranker(**FEW).fit(parts[0], valid=parts[1]).model_
    assert model.predict(parts[1]).shape == (parts[1].n_documents,)


@pytest.mark.parametrize("name", ["txt", "parquet", "csv"])
def test_a_query_that_comes_back_is_refused_with_its_files(name, tmp_path):
    for number, ids in enumerate(([1, 1, 2], [2, 3, 1])):
        part = Dataset.from_arrays(
            np.arange(6.0).reshape(3, 2), [0, 1, 2], qid=ids, split_queries="error"
        )
        write_data(part, tmp_path / f"{number}.{name}")
    with pytest.raises(DataError, match=rf"query 1 from row 0 .*0\.{name}.* row 5 .*1\.{name}"):
        bin_files(tmp_path / f"*.{name}")


def test_parameters_that_cut_in_another_way_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    write_data(make_data(), path)
    binned = bin_files(path, max_bins=30, categorical=["f4"])
    with pytest.raises(ParameterError, match="max_bins must be 30, as the data were binned with"):
        Ranker(**FEW, categorical=["f4"]).fit(binned)
    with pytest.raises(ParameterError, match=r"categorical must be \['f4'\]"):
        Ranker(**FEW, max_bins=30).fit(binned)
    with pytest.raises(DataError, match="must be binned as the training data"):
        Ranker(**FEW).fit(bin_files(path), valid=binned)


def test_files_of_other_columns_or_formats_are_refused(tmp_path):
    write_data(make_data(), tmp_path / "1.parquet")
    short = Dataset.from_arrays(np.ones((2, 2)), [0, 1], group=[2])
    write_data(short, tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: must have the features of .*1\.parquet"):
        bin_files(tmp_path / "*.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: the feature column must be one of"):
        bin_files(tmp_path / "2.parquet", like=bin_files(tmp_path / "1.parquet"))
    write_data(short, tmp_path / "3.csv")
    with pytest.raises(DataError, match=r"files must be of one format\. Got csv, parquet"):
        bin_files([tmp_path / "1.parquet", tmp_path / "3.csv"])
    with pytest.raises(DataError, match="no file has such a name"):
        bin_files(tmp_path / "*.nothing")
    with pytest.raises(ParameterError, match="split_queries must be 'error'"):
        bin_files(tmp_path / "1.parquet", split_queries="group")


def saved(tmp_path):
    write_data(make_data(), tmp_path / "a.txt")
    binned = bin_files(tmp_path / "a.txt")
    binned.save(tmp_path / "a.bins")
    return binned, tmp_path / "a.bins"


def test_a_file_brings_back_what_was_saved(tmp_path):
    binned, path = saved(tmp_path)
    back = BinnedData.load(path)
    assert np.array_equal(back.matrix.codes, binned.matrix.codes)
    assert back.bins.same_as(binned.bins)
    assert back.cutting == binned.cutting
    assert back.checksum == binned.checksum
    assert back.feature_names == binned.feature_names
    assert np.array_equal(back.query_ids, binned.query_ids)
    assert not back.matrix.codes.flags.writeable
    texts = Dataset.from_arrays(np.eye(3), [0, 1, 2], qid=["a", "bé", "c"])
    write_data(texts, tmp_path / "t.parquet")
    bin_files(tmp_path / "t.parquet", out=tmp_path / "t.bins")
    assert BinnedData.load(tmp_path / "t.bins").query_ids.tolist() == ["a", "bé", "c"]


def test_a_damaged_file_is_refused_wherever_the_damage_is(tmp_path):
    _, path = saved(tmp_path)
    sound = path.read_bytes()
    header = int.from_bytes(sound[16:24], "little")
    arrays = json.loads(sound[header:])["arrays"]
    assert "codes" in arrays
    assert "labels" in arrays
    places = [0, 17, 25, header + 3, len(sound) - 2]
    for at in [*places, *(array["start"] + 1 for array in arrays.values())]:
        broken = bytearray(sound)
        broken[at] ^= 0x55
        path.write_bytes(bytes(broken))
        with pytest.raises(DataError, match=r"a\.bins: must be a whole file of binned data"):
            BinnedData.load(path)
    for size in (1, 20, 40, header, len(sound) - 1):
        path.write_bytes(sound[:size])
        with pytest.raises(DataError, match=r"a\.bins: must be a whole file of binned data"):
            BinnedData.load(path)
    with pytest.raises(DataError, match="there is no such file"):
        BinnedData.load(tmp_path / "none.bins")


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    _, path = saved(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(
        bins_file.zlib, "crc32", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(DataError, match="cannot be written"):
        bin_files(tmp_path / "a.txt", out=path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.bins", "a.txt"]


def test_a_gzip_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "a.txt.gz"
    write_data(make_data(), path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="truncated"):
        bin_files(path)
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="Got none"):
        bin_files(path)


def test_what_does_not_fit_is_refused_before_the_work(tmp_path, monkeypatch):
    write_data(make_data(), tmp_path / "a.parquet")
    monkeypatch.setattr("rankgrove.boosting.bin_files.available_memory", lambda: 1000)
    with pytest.raises(DataError, match=r"It needs 0\.\d+ MB, here are 0\.001 MB: write the bins"):
        bin_files(tmp_path / "a.parquet")


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is Linux's")
def test_kill_while_writing_leaves_no_file(tmp_path):
    write_data(make_data(n_queries=30), tmp_path / "a.parquet")
    code = (
        "import os, signal, sys\n"
        "from rankgrove import bin_files\n"
        "from rankgrove.trees import bins_file\n"
        "put = bins_file._put\n"
        "def killed(*a):\n    put(*a)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "bins_file._put = killed\n"
        f"bin_files({str(tmp_path / 'a.parquet')!r}, out={str(tmp_path / 'a.bins')!r})\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == -9
    )
    assert not (tmp_path / "a.bins").exists()


@pytest.mark.parametrize(("free", "kept"), [(10**9, True), (1000, False)])
def test_codes_are_kept_twice_where_both_copies_fit_into_half_of_the_memory(
    free, kept, monkeypatch
):
    monkeypatch.setattr("rankgrove.boosting.binned.available_memory", lambda: free)
    data = make_data()
    assert bool(len(Binned.make(data, {}, Parameters()).matrix.by_feature)) == kept
    assert len(Binned.make(data, {}, Parameters(layout="both")).matrix.by_feature)
    assert not len(Binned.make(data, {}, Parameters(layout="rows")).matrix.by_feature)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"grower": "depthwise"}, {"grower": "oblivious", "max_leaves": "auto"},
     {"categorical": [CATEGORY]}, {"subsample": 0.5, "sampling": "document"}],
    ids=str,
)  # fmt: skip
def test_the_layout_changes_no_bit_of_the_trees(parameters):
    models = [
        Ranker(**FEW | parameters, layout=layout).fit(make_data()).model_
        for layout in ("both", "rows")
    ]
    arrays = [model.ensemble.arrays() for model in models]
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    assert models[0].ensemble.n_trees == FEW["n_estimators"]


def test_codes_in_a_file_need_not_fit_which_is_said(tmp_path, monkeypatch):
    write_data(make_data(), tmp_path / "a.parquet")
    binned = bin_files(tmp_path / "a.parquet", out=tmp_path / "a.bins")
    wanted = Ranker(**FEW, layout="rows").fit(binned).model_.ensemble.arrays()
    parameters = Parameters(**FEW, layout="rows")
    least = training_memory(binned, {}, parameters)
    for place in ("rankgrove.training.trees", "rankgrove.boosting.memory"):
        monkeypatch.setattr(f"{place}.available_memory", lambda: least + binned.codes_bytes - 1)
    with pytest.warns(UserWarning, match="codes in files, .* do not fit into memory"):
        model = Ranker(**FEW, layout="rows").fit(binned).model_
    assert all(
        np.array_equal(wanted[name], array) for name, array in model.ensemble.arrays().items()
    )
    monkeypatch.setattr("rankgrove.training.trees.available_memory", lambda: least - 1)
    with pytest.raises(DataError, match="must fit into memory"):
        Ranker(**FEW, layout="rows").fit(binned)


def test_training_that_does_not_fit_is_refused_before_it_starts(tmp_path, monkeypatch):
    write_data(make_data(), tmp_path / "a.parquet")
    binned = bin_files(tmp_path / "a.parquet")
    monkeypatch.setattr("rankgrove.training.trees.available_memory", lambda: 1000)
    with pytest.raises(DataError, match="must fit into memory"):
        Ranker(**FEW).fit(binned)
