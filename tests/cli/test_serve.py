"""`rankgrove serve`: what is refused before anything is served."""

import socket

import pytest

pytest.importorskip("starlette")

from cli.samples import fails
from rankgrove import Ranker, make_web_search


@pytest.fixture(scope="module")
def needs_base_scores(tmp_path_factory):
    data = make_web_search(20, 16, mean_documents=8)
    path = tmp_path_factory.mktemp("base") / "base.safetensors"
    ranker = Ranker(n_estimators=1)
    from dataclasses import replace

    import numpy as np

    ranker.fit(replace(data, base_scores=np.zeros(data.n_documents))).save(path)
    return path


def test_a_file_that_is_not_there_is_one_line(cli):
    fails(
        cli("serve", "nothing.safetensors", "--port", 0), 1, "nothing.safetensors", "no such file"
    )


def test_a_model_that_needs_base_scores_is_refused(cli, needs_base_scores):
    fails(cli("serve", needs_base_scores, "--port", 0), 2, "base.safetensors", "base scores")


def test_two_models_of_one_name_are_refused(cli, trained):
    model = trained / "model.safetensors"
    fails(cli("serve", model, f"model={model}"), 2, "Got 'model' twice")


def test_a_port_in_use_is_one_line(cli, trained):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("serve", trained / "model.safetensors", "--port", port)
    fails(result, 1, f"port {port} of 127.0.0.1 must be free", "--port")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--port", 70000], 2, "--port must be a whole number, from 0 to 65535"),
        (["--host", "no such host"], 2, "--host must be an address"),
        (["--workers", 0], 2, "--workers must be a whole number"),
        (["--watch", 0], 2, "--watch must be more than 0"),
        (["--max-body", "much"], 2, "--max-body must be a size"),
        (["--max-documents", 0], 2, "--max-documents must be"),
        (["--max-connections", 0], 2, "--max-connections must be"),
        (["--timeout", 0], 2, "--timeout must be"),
        (["--shadow", "other"], 2, "NAME=VALUE"),
        (["--shadow", "model=other"], 2, "--shadow must name models that are served"),
        (["--token-file", "nothing"], 1, "nothing"),
    ],
)
def test_an_option_is_refused(cli, trained, options, code, message):
    base = [] if "--port" in options else ["--port", 0]
    fails(cli("serve", trained / "model.safetensors", *base, *options), code, message)


def test_a_name_that_no_address_has_is_refused(cli, trained):
    model = trained / "model.safetensors"
    fails(cli("serve", f"my model={model}", "--port", 0), 2, "the name of a model must be")


def test_an_empty_token_is_refused(cli, trained, write, monkeypatch):
    model = trained / "model.safetensors"
    fails(
        cli("serve", model, "--port", 0, "--token-file", write("token", " \n")), 2, "a token must"
    )
    monkeypatch.setenv("RANKGROVE_TOKEN", "")
    fails(cli("serve", model, "--port", 0), 2, "a token must", "RANKGROVE_TOKEN")
