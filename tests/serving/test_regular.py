"""Requests whose numbers a kernel reads get the very answers that they get without it."""

import json
import random

import numpy as np
import pytest

from rankgrove import Ranker
from rankgrove.errors import RankgroveError
from rankgrove.serving import ranking, tensors
from rankgrove.serving.models import read_served
from serving.samples import N_FEATURES, columns_of, documents_of, make_data, plain, tensor_of
from serving.test_fuzz import change_bytes, change_value

N_CHANGED = 1500


@pytest.fixture(scope="module")
def served(model_file):
    return read_served("web", str(model_file))


def infer(body, served):
    found = tensors.read_inference(body, None, served.model.n_features, 50)
    matrix = served.scorer.matrix(found.features)
    return matrix, found.id, found.datatype, found.binary


def rank(body, served):
    found = ranking.read_rank_call(body, served, 50)
    return found.matrix, list(found.ids), found.id, found.top, found.n_explained


def outcome(read, body, served):
    """What a reader makes of a body: bits and all else that it says, or its error."""
    try:
        matrix, *rest = read(body, served)
    except RankgroveError as error:
        return type(error), str(error), getattr(error, "status", None)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    return matrix.shape, matrix.tobytes(), rest


class Both:
    """Reads each body with the kernel and without, and counts where the kernel was enough."""

    def __init__(self, served, monkeypatch):
        self.served = served
        self.n_read = 0
        self._patch = monkeypatch

    def hold(self, read, body):
        module = tensors if read is infer else ranking
        regular = module._read_regular

        def counted(*args):
            found = regular(*args)
            self.n_read += found is not None
            return found

        with self._patch.context() as patch:
            patch.setattr(module, "_read_regular", counted)
            with_kernel = outcome(read, body, self.served)
            patch.setattr(module, "_read_regular", lambda *_: None)
            assert with_kernel == outcome(read, body, self.served), body
        return with_kernel


@pytest.fixture
def both(served, monkeypatch):
    return Both(served, monkeypatch)


def nested_tensor(query):
    body = tensor_of(query)
    body["inputs"][0]["data"] = [[plain(value) for value in row] for row in query]
    return body


def bodies(query, names):
    return {
        "flat": (infer, tensor_of(query, id="q")),
        "nested": (infer, nested_tensor(query)),
        "documents": (rank, {"documents": documents_of(query, names), "top": 2}),
        "columns": (rank, {"id": 7, "documents": columns_of(query, names)}),
    }


FORMS = ("flat", "nested", "documents", "columns")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spacing", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_a_regular_request_is_read_by_the_kernel_alone(both, model, query, form, spacing):
    read, body = bodies(query, model.feature_names)[form]
    found = both.hold(read, json.dumps(body, **spacing).encode() + b"\n")
    assert both.n_read == 1
    assert np.frombuffer(found[1], np.float32).tobytes() == query.tobytes()


@pytest.mark.parametrize("form", ["documents", "columns"])
def test_names_may_come_in_any_order(both, model, query, form):
    order = np.random.default_rng(0).permutation(N_FEATURES)
    names = [model.feature_names[at] for at in order]
    read, body = bodies(query[:, order], names)[form]
    found = both.hold(read, json.dumps(body).encode())
    assert both.n_read == 1
    assert np.frombuffer(found[1], np.float32).tobytes() == query.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_changed_values_get_the_same_answers_and_errors(both, model, query, form):
    read, body = bodies(query[:3], model.feature_names)[form]
    chance = random.Random(form)
    for _ in range(N_CHANGED):
        text = json.dumps(change_value(body, chance))
        both.hold(read, text.encode("utf-8", "replace"))
    assert both.n_read > 10


@pytest.mark.parametrize("form", FORMS)
def test_changed_bytes_get_the_same_answers_and_errors(both, model, query, form):
    read, body = bodies(query[:3], model.feature_names)[form]
    text = json.dumps(body).encode()
    chance = random.Random(form)
    for _ in range(N_CHANGED):
        both.hold(read, change_bytes(text, chance))
    assert both.n_read > 10


@pytest.mark.parametrize(
    "number",
    ["0", "-0", "-0.0", "0e5", "0e400", "-0e-400", "1E5", "1e+5", "-1E-05", "1e-46", "1e-400",
     "-1e-400", "18446744073709551615", "18446744073709551616", "-9223372036854775809",
     "123456789012345678901234567890", "0.1000000000000000055511151231257827021181583404541015625",
     "16777217", "16777217.0000000001", "3.4028235e38", "3.4028235677973366e38", "1e39",
     f"0.{'0' * 60}1", f"1{'0' * 38}", f"1{'0' * 38}.{'0' * 40}1", "1.0000000596046448"],
)  # fmt: skip
def test_a_number_has_the_same_bits_however_it_is_written(both, model, number):
    numbers = f"[{', '.join([number] * N_FEATURES)}]"
    shape = f'"shape": [1, {N_FEATURES}], "datatype": "FP64"'
    both.hold(infer, f'{{"inputs": [{{"name": "features", {shape}, "data": {numbers}}}]}}'.encode())
    features = ", ".join(f'"{name}": {number}' for name in model.feature_names)
    both.hold(rank, f'{{"documents": [{{"features": {{{features}}}}}]}}'.encode())


def one_input(*entries):
    return '{"inputs": [{' + ", ".join(entries) + "}]}"


def one_document(*entries):
    return '{"documents": [{' + ", ".join(entries) + "}]}"


def all_columns(*entries):
    return '{"documents": {' + ", ".join(entries) + "}}"


def odd_tensors():
    zeros = ", ".join(["0"] * N_FEATURES)
    data = f'"data": [{zeros}]'
    tensor = f'"name": "features", "shape": [1, {N_FEATURES}], "datatype": "FP32"'
    among = f'"parameters": {{{data}}}'
    good = one_input(tensor, data)
    return {
        "data twice, the first longer": one_input(tensor, f'"data": [1, {zeros}]', data),
        "data twice, the last no list": one_input(tensor, data, '"data": 3'),
        "data of something else": good.replace("{", '{"data": [1], ', 1),
        "data among the parameters": one_input(tensor, among, data),
        "data only among the parameters": one_input(tensor, among),
        "data in a string": good.replace("{", '{"id": "\\"data\\": [1]", ', 1),
        "a name that ends with data": one_input(tensor, '"a\\"data": [1]', data),
        "data with an escape": one_input(tensor, f'"d\\u0061ta": [{zeros}]'),
        "two inputs": good.replace("}]", f"}}, {{{tensor}, {data}}}]"),
        "the second input": one_input(tensor).replace("}]", f"}}, {{{tensor}, {data}}}]"),
        "no inputs": f'{{"inputs": [], {data}}}',
        "rows and numbers": one_input(tensor, f'"data": [[{zeros}], 1]'),
        "deeper rows": one_input(tensor, f'"data": [[[{zeros}]]]'),
        "an object": one_input(tensor, '"data": {"a": 1}'),
        "objects": one_input(tensor, '"data": [{"a": 1}]'),
        "more behind it": f"{good} 1",
        "bytes that are no text": one_input(tensor, data, '"x": "\udcff"'),
    }


@pytest.mark.parametrize("case", odd_tensors())
def test_a_tensor_is_read_as_without_the_kernel_that_has(both, case):
    both.hold(infer, odd_tensors()[case].encode("utf-8", "surrogateescape"))


def odd_ranks(names):
    values = [f'"{name}": 1' for name in names]
    features = f'"features": {{{", ".join(values)}}}'
    lists = [f'"{name}": [1, 2]' for name in names]
    columns = f'"columns": {{{", ".join(lists)}}}'
    good = one_document(features)
    return {
        "a name twice": good.replace(values[0], f"{values[0]}, {values[0]}"),
        "a name twice, another absent": good.replace(values[1], values[0]),
        "features twice": one_document(features, features),
        "an id twice": one_document('"id": 1, "id": 2', features),
        "top twice": good.replace("{", '{"top": 1, "top": 2, ', 1),
        "documents twice": good.replace("{", '{"documents": [], ', 1),
        "a colon in an id": one_document('"id": "a:b"', features),
        "an escape in a name": good.replace('s": {"', 's": {"\\u0061'),
        "an id that is a list": one_document('"id": [1]', features),
        "an id that is an object": one_document('"id": {"a": 1}', features),
        "a document that is a list": good.replace("[{", "[[{").replace("}]", "}]]"),
        "no names": '{"absent": "missing", "documents": [{"features": {}}]}',
        "a part of the names": f'{{"absent": "missing", "documents": [{{"features": {{{values[3]}}}'
        "}]}",
        "a strange name": good.replace(values[0], f'"strange": 1, {values[0]}'),
        "too many documents": good.replace(f"{{{features}}}", f"{{{features}}}, " * 50 + "{}"),
        "too many sound documents": good.replace("]", f", {{{features}}}" * 50 + "]"),
        "too few ids": all_columns('"ids": [1]', columns),
        "ids that are lists": all_columns('"ids": [[1], [2]]', columns),
        "columns without ids": all_columns(columns),
        "a column twice": all_columns(columns.replace(lists[0], f"{lists[0]}, {lists[0]}")),
        "columns of other lengths": all_columns(columns.replace("[1, 2]", "[1]", 1)),
        "columns that are objects": all_columns(columns.replace("[1, 2]", '{"a": 1}')),
        "a body that is a list": f"[[[{{{', '.join(values)}}}]]]",
    }


@pytest.mark.parametrize("case", odd_ranks(["f1"] * 9))
def test_documents_are_read_as_without_the_kernel_that_have(both, model, case):
    both.hold(rank, odd_ranks(model.feature_names)[case].encode())


def test_a_model_with_named_categories_does_without_the_kernel(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    data = make_data()
    frame = pandas.DataFrame(data.features[:, :3], columns=["a", "b", "c"])
    frame["b"] = np.where(frame["b"] > frame["b"].median(), "high", "low")
    ranker = Ranker(n_estimators=2, categorical=["b"]).fit(
        frame, data.labels, group=np.diff(data.offsets)
    )
    ranker.model_.save(tmp_path / "m.safetensors")
    both = Both(read_served("web", str(tmp_path / "m.safetensors")), monkeypatch)
    both.hold(rank, b'{"documents": [{"features": {"a": 1, "b": "low", "c": 2}}]}')
    both.hold(rank, b'{"documents": [{"features": {"a": 1, "b": 2, "c": 2}}]}')
    assert both.n_read == 0
    both.hold(infer, json.dumps(tensor_of(np.zeros((2, 3)))).encode())
    assert both.n_read == 1
