"""Dask workers, in processes, train the model of one process to the bit, also if one is killed."""

import _thread
import json
import logging
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dask.distributed")

import cloudpickle
import dask.dataframe
import pyarrow.parquet
from dask.distributed import Client, Security

from dask_clusters import (
    PARAMETERS,
    READING,
    TREE,
    assert_nothing_is_left,
    file_of,
    fit,
    plant_bomb,
    start_cluster,
)
from data.sparse_samples import make_data, make_dense
from rankgrove import Ranker, evaluate, read_data, write_letor
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.distributed import (
    DaskRanker,
    WorkerLostError,
    WorkersError,
    dask_client,
    tasks,
)
from rankgrove.errors import DataError, ParameterError
from signals import handle_interrupts

# Workers cannot import the tests: what they are to run is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_the_model_file_is_that_of_one_process(n_workers, folder, wanted, tmp_path):
    with start_cluster(n_workers) as cluster, Client(cluster) as client:
        ranker = fit(folder, client)
        assert file_of(ranker, tmp_path / "model") == wanted
        assert_nothing_is_left(client)


@pytest.mark.parametrize("pattern", ["parts/*.csv", "parts/*.txt", "all.txt", "all.csv"])
def test_text_files_give_the_model_of_one_process(
    pattern, folder, whole_client, tmp_path, monkeypatch
):
    # So small texts are not divided otherwise.
    monkeypatch.setattr(dask_client, "_LEAST_BYTES", 1000)
    ranker = DaskRanker(n_estimators=3).fit(str(folder / pattern), client=whole_client)
    suffix = pattern.rpartition(".")[2]
    alone = Ranker(n_estimators=3).fit(read_data(folder / f"all.{suffix}"))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


@pytest.mark.parametrize("split_queries", ["error", "group"])
def test_sparse_text_gives_the_model_of_one_process(
    split_queries, whole_client, tmp_path, monkeypatch
):
    monkeypatch.setattr(dask_client, "_LEAST_BYTES", 1000)
    write_letor(make_data(make_dense(), sparse=True), tmp_path / "sparse.txt")
    ranker = DaskRanker(n_estimators=3).fit(
        str(tmp_path / "sparse.txt"), client=whole_client, split_queries=split_queries
    )
    data = read_data(tmp_path / "sparse.txt")
    assert isinstance(data.features, SparseFeatures)
    dense = replace(data, features=np.asarray(data.features))
    files = {
        file_of(each, tmp_path / "model")
        for each in (ranker, *(Ranker(n_estimators=3).fit(form) for form in (data, dense)))
    }
    assert len(files) == 1


def test_frames_give_the_model_of_one_process_and_are_scored(
    folder, wanted, whole_client, tmp_path
):
    frame = dask.dataframe.read_parquet(folder / "all.parquet").repartition(npartitions=5)
    valid = dask.dataframe.read_parquet(folder / "valid.parquet")
    ranker = DaskRanker(**PARAMETERS).fit(frame, valid=valid, client=whole_client)
    assert file_of(ranker, tmp_path / "model") == wanted
    data = read_data(folder / "all.parquet")
    local = ranker.to_local()
    assert type(local) is Ranker
    np.testing.assert_array_equal(ranker.predict(frame).compute(), local.predict(data))
    values = ranker.evaluate(frame, ["ndcg@5", "mrr"], client=whole_client)
    assert values == dict(evaluate(data, local.predict(data), ["ndcg@5", "mrr"]))


@pytest.mark.parametrize(
    "several", [{"members": 3}, {"effort": "high"}, {"mix": "yetirank, queryrmse"}]
)
def test_members_are_refused_on_workers_before_any_work(several):
    with pytest.raises(ParameterError, match=r"members must be left out on workers"):
        DaskRanker(**several).fit("no such file.txt", client=None)


def test_rows_of_queries_anywhere_are_brought_together_on_request(folder, whole_client, tmp_path):
    table = pyarrow.parquet.read_table(folder / "all.parquet")
    mixed = table.take(np.random.default_rng(0).permutation(len(table)))
    pyarrow.parquet.write_table(mixed, tmp_path / "mixed.parquet", row_group_size=60)
    with pytest.raises(DataError, match=r"split_queries='group'"):
        DaskRanker(n_estimators=3).fit(tmp_path / "mixed.parquet", client=whole_client)
    ranker = DaskRanker(n_estimators=3).fit(
        tmp_path / "mixed.parquet", client=whole_client, split_queries="group"
    )
    alone = Ranker(n_estimators=3).fit(read_data(tmp_path / "mixed.parquet", split_queries="group"))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


@pytest.mark.parametrize(
    ("rank", "place", "number"),
    [(0, TREE, 1), (1, TREE, 1), (0, TREE, 3), (2, TREE, 3), (0, TREE, 6), (1, TREE, 6),
     (0, READING, 1), (1, READING, 2)],
)  # fmt: skip
def test_others_go_on_to_the_same_file_when_a_worker_is_killed(
    rank, place, number, folder, wanted, whole_client, tmp_path, caplog
):
    victim = sorted(whole_client.nthreads())[rank]
    whole_client.run(plant_bomb, place, number, workers=[victim])
    with caplog.at_level(logging.WARNING, "rankgrove.distributed"):
        ranker = fit(folder, whole_client)
    assert file_of(ranker, tmp_path / "model") == wanted
    (line,) = [each for each in caplog.messages if "restart 1 of 3" in each]
    assert victim in line
    assert_nothing_is_left(whole_client)


@pytest.mark.parametrize(("place", "number"), [(TREE, 3), (READING, 1)])
def test_one_error_names_the_lost_worker_where_no_restart_is_allowed(
    place, number, folder, whole_client
):
    victim = sorted(whole_client.nthreads())[1]
    whole_client.run(plant_bomb, place, number, workers=[victim])
    with pytest.raises(WorkerLostError, match=victim) as caught:
        fit(folder, whole_client, max_restarts=0)
    assert "max_restarts" in str(caught.value)


def test_bad_data_of_one_worker_are_one_error_with_file_and_place(folder, whole_client, tmp_path):
    for number in range(3):
        text = (folder / f"parts/{number}.txt").read_text()
        (tmp_path / f"{number}.txt").write_text(text + ("wurst" if number == 2 else ""))
    n_lines = len((tmp_path / "2.txt").read_text().splitlines())
    with pytest.raises(DataError, match=rf"2\.txt:{n_lines}:1: "):
        DaskRanker(n_estimators=2).fit(tmp_path / "*.txt", client=whole_client)
    assert_nothing_is_left(whole_client)


def test_files_of_a_store_give_the_model_of_one_process(folder, wanted, whole_client, tmp_path):
    ranker = DaskRanker(**PARAMETERS).fit(
        f"{folder.as_uri()}/parts/*.parquet",
        valid=f"{folder.as_uri()}/valid.parquet",
        client=whole_client,
    )
    assert file_of(ranker, tmp_path / "model") == wanted


def test_data_that_do_not_fit_into_a_worker_are_refused_by_its_name(folder, whole_client):
    def be_small():
        from rankgrove.distributed import dask_worker

        dask_worker._memory_of = lambda worker: 1

    def be_large():
        from rankgrove.distributed import dask_worker

        dask_worker._memory_of = lambda worker: None

    victim = sorted(whole_client.nthreads())[1]
    whole_client.run(be_small, workers=[victim])
    try:
        with pytest.raises(WorkersError, match=rf"worker {victim}: the work must fit.*add workers"):
            fit(folder, whole_client)
    finally:
        whole_client.run(be_large, workers=[victim])
    assert_nothing_is_left(whole_client)


def test_workers_without_ports_give_the_model_of_one_process(
    folder, wanted, whole_client, tmp_path
):
    ranker = fit(folder, whole_client, ports="dask")
    assert file_of(ranker, tmp_path / "model") == wanted
    assert_nothing_is_left(whole_client)


def test_others_go_on_when_a_worker_without_port_is_killed(
    folder, wanted, whole_client, tmp_path, caplog
):
    victim = sorted(whole_client.nthreads())[1]
    whole_client.run(plant_bomb, TREE, 3, workers=[victim])
    with caplog.at_level(logging.WARNING, "rankgrove.distributed"):
        ranker = fit(folder, whole_client, ports="dask")
    assert file_of(ranker, tmp_path / "model") == wanted
    assert any(victim in line and "restart 1 of 3" in line for line in caplog.messages)
    assert_nothing_is_left(whole_client)


def test_an_error_of_a_worker_without_port_is_raised_once(folder, whole_client, tmp_path):
    for number in range(3):
        text = (folder / f"parts/{number}.txt").read_text()
        (tmp_path / f"{number}.txt").write_text(text + ("wurst" if number == 2 else ""))
    with pytest.raises(DataError, match=r"2\.txt:\d+:1: "):
        DaskRanker(n_estimators=2).fit(tmp_path / "*.txt", client=whole_client, ports="dask")
    assert_nothing_is_left(whole_client)


def test_the_connections_of_a_cluster_with_tls_have_it_too(folder, wanted, certificate, tmp_path):
    security = Security(
        require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate,
        tls_client_key=certificate, tls_worker_cert=certificate, tls_worker_key=certificate,
        tls_scheduler_cert=certificate, tls_scheduler_key=certificate,
    )  # fmt: skip

    def note_contexts():
        from rankgrove.distributed import dask_worker

        connect = dask_worker.connect

        def noted(*arguments, tls, **options):
            dask_worker.noted_tls = tls
            return connect(*arguments, tls=tls, **options)

        dask_worker.connect = noted

    def with_contexts():
        from rankgrove.distributed import dask_worker

        return [type(context).__name__ for context in dask_worker.noted_tls]

    with (
        start_cluster(2, security=security, protocol="tls://") as cluster,
        Client(cluster, security=security) as client,
    ):
        client.run(note_contexts)
        assert file_of(fit(folder, client), tmp_path / "model") == wanted
        assert set(map(tuple, client.run(with_contexts).values())) == {("SSLContext",) * 2}
        assert file_of(fit(folder, client, ports="dask"), tmp_path / "model") == wanted


def test_two_fits_at_once_wait_for_each_other(folder, wanted, whole_client, tmp_path):
    files, errors = {}, []

    def train(number):
        try:
            files[number] = file_of(fit(folder, whole_client), tmp_path / str(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert errors == []
    assert files == {0: wanted, 1: wanted}


def test_interrupting_a_fit_that_waits_leaves_no_lock(folder, wanted, whole_client, tmp_path):
    with dask_client.Cluster(whole_client).alone():
        timer = threading.Timer(3.0, _thread.interrupt_main)
        timer.start()
        with handle_interrupts(), pytest.raises(KeyboardInterrupt):
            fit(folder, whole_client)
    assert file_of(fit(folder, whole_client), tmp_path / "model") == wanted


def test_interrupting_keeps_the_trees_so_far(folder, whole_client, tmp_path):
    def interrupt(run):
        if run.n_steps == 2:
            raise KeyboardInterrupt

    ranker = DaskRanker(n_estimators=400)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(folder / "parts/*.parquet", client=whole_client, callbacks=[interrupt])
    alone = Ranker(n_estimators=400)
    with pytest.raises(KeyboardInterrupt):
        alone.fit(read_data(folder / "all.parquet"), callbacks=[interrupt])
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_training_goes_on_from_a_checkpoint_to_the_same_file(
    folder, wanted, whole_client, tmp_path
):
    checkpoint = tmp_path / "checkpoint"
    ranker = fit(
        folder, whole_client, checkpoint=checkpoint, checkpoint_every=2,
        callbacks=[lambda run: run.n_steps == 3],
    )  # fmt: skip
    assert ranker.model_.n_trees <= 3
    resumed = fit(folder, whole_client, resume=checkpoint)
    assert file_of(resumed, tmp_path / "model") == wanted


def squared_error(scores, labels, offsets, weights, forces, curvatures):
    forces[:] = weights * (labels - scores)
    curvatures[:] = weights


def test_a_function_is_sent_to_the_workers(folder, whole_client, tmp_path):
    options = {"objective": squared_error, "n_estimators": 3}
    ranker = DaskRanker(**options).fit(folder / "parts/*.parquet", client=whole_client)
    alone = Ranker(**options).fit(read_data(folder / "all.parquet"))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_a_base_model_gets_more_trees(folder, whole_client, tmp_path):
    data = read_data(folder / "all.parquet")
    base = Ranker(n_estimators=2).fit(data)
    ranker = DaskRanker(n_estimators=2).fit(
        folder / "parts/*.parquet", client=whole_client, base_model=base
    )
    alone = Ranker(n_estimators=2).fit(data, base_model=base)
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_another_version_on_a_worker_is_refused(folder, whole_client, monkeypatch):
    monkeypatch.setattr(tasks, "__version__", "99")  # here, not on the workers
    with pytest.raises(WorkersError, match=r"worker tcp://.* must have rankgrove 99"):
        fit(folder, whole_client)


def test_a_scheduler_that_is_not_there_is_refused(folder, monkeypatch):
    monkeypatch.setattr(dask_client, "_CONNECTING", 0.5)
    with pytest.raises(ParameterError, match=r"scheduler must be there.*'tcp://127.0.0.1:1'"):
        fit(folder, "tcp://127.0.0.1:1")


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH"])
def test_something_else_than_a_scheduler_is_refused(folder, monkeypatch, words):
    monkeypatch.setattr(dask_client, "_CONNECTING", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def answer():
            connection, _ = server.accept()
            with connection, suppress(ConnectionError):
                connection.sendall(words)
                connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ParameterError, match="scheduler must be there, and answer as one"):
            fit(folder, address)
        thread.join()


def test_what_workers_cannot_do_is_refused_before_anything_is_read():
    def cannot_be_sent(*_):
        lock.acquire()

    lock = threading.Lock()
    refusals = [
        ({}, {"preferences": [(0, 1)]}, "preferences must be left out over workers"),
        ({}, {"sample_weight": [1.0]}, "sample_weight must be left out.*weight="),
        ({}, {"valid": None, "max_restarts": -1}, "max_restarts must be"),
        ({"objective": cannot_be_sent}, {}, "objective must be something that can be sent"),
        ({"early_stopping_rounds": 3}, {}, "early_stopping_rounds must have a validation set"),
        ({}, {"client": 7}, "client must be a dask.distributed.Client"),
    ]
    for parameters, options, problem in refusals:
        with pytest.raises(ParameterError, match=problem):
            DaskRanker(**parameters).fit("nowhere/*.parquet", **{"client": "tcp://x:1", **options})


def test_data_of_one_machine_and_absent_files_are_refused(whole_client):
    with pytest.raises(ParameterError, match=r"X must be paths of data files.*Ranker"):
        DaskRanker().fit(np.zeros((3, 2)), client=whole_client)
    with pytest.raises(DataError, match=r"nowhere/\*.txt: must be a data file.*no such file"):
        DaskRanker().fit("nowhere/*.txt", client=whole_client)


@pytest.mark.parametrize("where", ["scheduler", "local:2"])
def test_the_command_line_writes_the_file_of_one_process(where, folder, whole_client, tmp_path):
    address = whole_client.scheduler.address if where == "scheduler" else where
    command = [sys.executable, "-m", "rankgrove", "train"]
    options = ["--valid", folder / "valid.parquet", "--n-estimators", "3", "--json"]
    several = [*command, folder / "parts/*.parquet", *options, "--dask", address]
    told = subprocess.run(
        [*several, "-o", tmp_path / "model"], check=True, capture_output=True, text=True
    )
    alone = [*command, folder / "all.parquet", *options, "-o", tmp_path / "alone"]
    told_alone = subprocess.run(alone, check=True, capture_output=True, text=True)
    assert (tmp_path / "model").read_bytes() == (tmp_path / "alone").read_bytes()
    summary, wanted_summary = json.loads(told.stdout), json.loads(told_alone.stdout)
    for name in ("trees", "leaves", "valid", "parameters", "plan"):
        assert summary[name] == wanted_summary[name]
    assert summary["train"]["documents"] == wanted_summary["train"]["documents"]


def test_the_command_line_refuses_what_workers_cannot_do(folder, tmp_path):
    def refuse(*options):
        command = [sys.executable, "-m", "rankgrove", "train", folder / "all.parquet"]
        command += ["--dask", "tcp://127.0.0.1:1", "-o", tmp_path / "model", *options]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode != 0
        return result.stderr

    assert "--objective must be one of trees with --dask" in refuse("--objective", "ranknet")
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("1 0 1\n")
    assert "--preferences must be used without --dask" in refuse("--preferences", pairs)
