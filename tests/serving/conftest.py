"""A trained model in a file, and a client of the service that scores with it."""

import pytest
from starlette.testclient import TestClient

from rankgrove.serving import create_app
from serving.samples import make_query, train


@pytest.fixture(scope="session")
def model():
    return train(5)


@pytest.fixture(scope="session")
def model_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "web.safetensors"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def query():
    return make_query()


@pytest.fixture(scope="session")
def client(model_file):
    with TestClient(create_app({"web": model_file}), raise_server_exceptions=False) as client:
        yield client
