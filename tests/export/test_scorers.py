"""Generated scorers, compiled and run: the same bits as those of the model."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from export.engine_models import (
    N_DOCUMENTS,
    N_FEATURES,
    make_base,
    make_combined,
    make_documents,
    make_model,
)
from export.scorer_runs import (
    imports_only_the_standard_library,
    run,
    score_with_c,
    score_with_java,
    score_with_node,
    score_with_python,
)
from rankgrove.errors import ParameterError
from rankgrove.export.c import C
from rankgrove.export.check import check_content
from rankgrove.export.format import Exportable, ExportError, Format, Rows
from rankgrove.export.java import JAVA
from rankgrove.export.javascript import JAVASCRIPT
from rankgrove.export.programs import program_version
from rankgrove.export.python import PYTHON
from rankgrove.model.combined import CombinedModel
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble
from trees.naive_trees import random_ensemble, scores_of

N_MODELS = 500
LANGUAGES = {
    "c": (C, score_with_c, ("gcc",)),
    "java": (JAVA, score_with_java, ("javac", "java")),
    "javascript": (JAVASCRIPT, score_with_node, ("node",)),
    "python": (PYTHON, score_with_python, ()),
}


def needs(*programs: str) -> pytest.MarkDecorator:
    absent = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not on the path: {', '.join(absent)}")


each_language = pytest.mark.parametrize(
    "language",
    [pytest.param(name, marks=needs(*programs)) for name, (_, _, programs) in LANGUAGES.items()],
)


def exported(written: Format, model: Model | CombinedModel, **options: str) -> str:
    """The text of a model in a format."""
    return written.write(Exportable.of(model), written.checked_options(options)).decode()


def texts_of(language: str, models: list) -> list[str]:
    written = LANGUAGES[language][0]
    return [
        exported(written, model, **({"name": f"M{number}"} if language == "java" else {}))
        for number, model in enumerate(models)
    ]


def check_models(language: str, models: list, folder) -> None:
    """Score documents of each model by its scorer, and compare the bits."""
    first_parts = [getattr(model, "parts", [model])[0] for model in models]
    features = np.array([make_documents(part, seed) for seed, part in enumerate(first_parts)])
    bases = [make_base(model, seed) for seed, model in enumerate(models)]
    # By the numbers of levels, in place of their names, as a scorer takes them.
    wanted = [
        model._score(rows, base, None, 1)
        for model, rows, base in zip(models, features, bases, strict=True)
    ]
    starts = np.array([np.zeros(N_DOCUMENTS) if base is None else base for base in bases])
    found = LANGUAGES[language][1](texts_of(language, models), features, starts, folder)
    np.testing.assert_array_equal(found.view(np.int64), np.array(wanted).view(np.int64))


@each_language
def test_scores_have_the_same_bits_for_five_hundred_models(language, tmp_path):
    check_models(language, [make_model(seed) for seed in range(N_MODELS)], tmp_path)


@pytest.mark.long
@each_language
@pytest.mark.parametrize("first", range(N_MODELS, 5000, 500))
def test_scores_have_the_same_bits_for_thousands_of_models(language, first, tmp_path):
    check_models(language, [make_model(seed) for seed in range(first, first + 500)], tmp_path)


@each_language
def test_combined_models_have_the_same_bits(language, tmp_path):
    check_models(language, [make_combined(seed) for seed in range(40)], tmp_path)


def test_the_models_that_are_tried_are_of_every_kind():
    models = [make_model(seed) for seed in range(N_MODELS)]
    assert {model.schema.needs_base_scores for model in models} == {True, False}
    assert max(len(model.ensemble.value) for model in models) > 300
    assert any(np.isposinf(model.ensemble.threshold).any() for model in models)
    combined = [make_combined(seed) for seed in range(40)]
    assert {(m.top is None, m.schema.needs_base_scores) for m in combined} == {
        (True, True), (True, False), (False, False),
    }  # fmt: skip


def test_the_models_are_scored_as_by_a_naive_walk():
    for seed in (0, 1, 3, 7, 50):
        model = make_model(seed)
        features, base = make_documents(model, seed), make_base(model, seed)
        naive = scores_of(model.ensemble, np.asarray(model.schema.encode(features)), 0.0)
        if base is None:
            np.testing.assert_array_equal(model.predict(features), naive)
        else:
            np.testing.assert_allclose(model.predict(features, base_scores=base), naive + base)


@each_language
def test_models_without_a_tree_and_with_very_many_leaves_are_scored(language, tmp_path):
    rng = np.random.default_rng(5)
    names = tuple(f"f{number}" for number in range(N_FEATURES))
    # 12,000 leaves take more than one string in Java.
    models = [
        Model(random_ensemble(rng, leaves, N_FEATURES), Schema(names), {}, {})
        for leaves in ([], [12_000, 1])
    ]
    check_models(language, models, tmp_path)


def test_strings_of_java_are_no_longer_than_a_class_file_takes():
    rng = np.random.default_rng(5)
    names = tuple(f"f{number}" for number in range(20_000))
    text = exported(JAVA, Model(random_ensemble(rng, [12_000], 9), Schema(names), {}, {}))
    longest = max(len(found) for found in re.findall(r'"([^"]*)"', text))
    assert longest == 60_000


# Those in C and Java take float32 values only: there the caller rounds.
@pytest.mark.parametrize("language", [pytest.param("javascript", marks=needs("node")), "python"])
def test_values_are_rounded_to_float32_as_rankgrove_does(language, tmp_path):
    model = Model(
        random_ensemble(np.random.default_rng(0), [2], 1, thresholds=np.float32([0.1])),
        Schema(("a",)), {}, {},
    )  # fmt: skip
    text = texts_of(language, [model])[0]
    # Above 0.1 as a float64, and yet the float32 nearest to them is 0.1.
    values = [0.1, 0.100000001, 0.1 + 4e-9]
    assert (np.float64(values) <= float(np.float32(0.1))).tolist() == [True, True, False]
    if language == "python":
        module: dict = {}
        exec(text, module)
        found = [module["score"]([value]) for value in values]
    else:
        found = answers_of_node(text, f"[{values}].flat().map((v) => score([v]))", tmp_path)
    assert found == model.predict(np.float32(values)[:, np.newaxis]).tolist()


def answers_of_node(text: str, expression: str, folder) -> list:
    """What an expression of JavaScript comes to beside a scorer."""
    (folder / "scorer.mjs").write_text(text)
    (folder / "ask.mjs").write_text(
        'import { featureNames, score } from "./scorer.mjs";\n'
        f"console.log(JSON.stringify({expression}));"
    )
    asked = ["node", "ask.mjs"]
    return json.loads(subprocess.run(asked, cwd=folder, capture_output=True, check=True).stdout)


ODD_NAMES = ('say "hi"', "back\\slash\n\\u000a", "日本*/ ??/", "${x}`", "//\r\n", "'''\x00$base")


def odd_model() -> Model:
    """A model whose names and levels try to end a string or a comment."""
    rng = np.random.default_rng(2)
    levels = ("*/ int x;", "\\u000a", "a\nb", "ü")
    schema = Schema(ODD_NAMES, {1: (0.0, 1.0, 2.0, 3.0)}, levels={1: tuple(sorted(levels))})
    return Model(random_ensemble(rng, [9, 9], N_FEATURES, categorical=(1,)), schema, {}, {})


@each_language
def test_names_and_levels_of_any_characters_break_nothing(language, tmp_path):
    check_models(language, [odd_model()], tmp_path)


def test_python_says_the_names_of_features_and_needs_the_standard_library_only():
    module: dict = {}
    text = exported(PYTHON, odd_model())
    exec(text, module)
    assert tuple(module["FEATURE_NAMES"]) == ODD_NAMES
    assert imports_only_the_standard_library(text)


@needs("node")
def test_javascript_says_the_names_of_features(tmp_path):
    text = exported(JAVASCRIPT, odd_model())
    assert tuple(answers_of_node(text, "featureNames", tmp_path)) == ODD_NAMES


@needs("gcc")
def test_c_says_the_names_of_features(tmp_path):
    (tmp_path / "m.c").write_text(exported(C, odd_model()))
    run(["gcc", "-std=c99", "-shared", "-fPIC", "-o", "m.so", "m.c"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    assert ctypes.c_int.in_dll(library, "rankgrove_n_features").value == N_FEATURES
    names = (ctypes.c_char_p * N_FEATURES).in_dll(library, "rankgrove_feature_names")
    # A string of C ends at its first \0.
    assert [name.decode() for name in names] == [name.split("\0")[0] for name in ODD_NAMES]


@needs("javac", "java")
def test_java_says_the_names_of_features(tmp_path):
    (tmp_path / "M.java").write_text(exported(JAVA, odd_model(), name="M"))
    (tmp_path / "Ask.java").write_text(
        "public class Ask { public static void main(String[] a) throws Exception {"
        ' System.out.write(String.join("|", M.featureNames()).getBytes("UTF-8")); } }'
    )
    run(["javac", "M.java", "Ask.java"], tmp_path)
    command = ["java", "-cp", ".", "Ask"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert said.stdout.decode() == "|".join(ODD_NAMES)


@needs("gcc")
def test_c_refuses_to_be_compiled_as_if_there_were_no_missing_values(tmp_path):
    (tmp_path / "m.c").write_text(exported(C, make_model(1)))
    command = ["gcc", "-ffast-math", "-c", "m.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "compile without it" in done.stderr


def test_a_document_of_another_length_is_refused_by_python():
    module: dict = {}
    exec(exported(PYTHON, make_model(1)), module)
    with pytest.raises(ValueError, match=f"a document has {N_FEATURES} features, not 2"):
        module["score"]([1.0, 2.0])


@needs("node")
def test_a_document_of_another_length_is_refused_and_null_is_missing_in_javascript(tmp_path):
    model = make_model(1)
    asked = (
        "[score([null, null, null, null, null, undefined]), "
        "(() => { try { return score([1]); } catch (error) { return error.message; } })()]"
    )
    score, message = answers_of_node(exported(JAVASCRIPT, model), asked, tmp_path)
    assert score == model.predict(np.full((1, N_FEATURES), np.nan))[0]
    assert message == f"a document has {N_FEATURES} features, not 1"


def test_none_is_missing_in_python():
    model, module = make_model(1), {}
    exec(exported(PYTHON, model), module)
    missing = model.predict(np.full((1, N_FEATURES), np.nan))[0]
    assert module["score"]([None] * N_FEATURES) == missing


@pytest.mark.parametrize("written", [C, JAVA, JAVASCRIPT, PYTHON], ids=lambda written: written.name)
def test_the_same_model_gives_the_same_bytes_also_from_its_file(written, tmp_path):
    model = make_model(50)
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    texts = {exported(written, m) for m in (model, model, loaded)}
    assert len(texts) == 1
    assert Exportable.of(model).checksum in texts.pop()


@each_language
def test_a_check_runs_the_real_program_and_finds_a_wrong_leaf(language):
    written = LANGUAGES[language][0]
    model = make_model(7)
    features = make_documents(model, 7)
    source = Exportable.of(model)
    rows = Rows(features, np.random.default_rng(0).normal(size=len(features)), model.feature_names)
    options = written.checked_options({})
    (check,) = check_content(written, source, written.write(source, options), options, rows)
    assert not check.is_emulated
    assert check.n_same == check.n_documents == len(features)
    arrays = model.ensemble.arrays()
    arrays["value"] = np.nextafter(arrays["value"], np.inf)
    other = Exportable.of(Model(Ensemble(**arrays), model.schema, {}, {}))
    with pytest.raises(ExportError, match="the same bits"):
        check_content(written, source, written.write(other, options), options, rows)


def test_a_model_of_categories_with_names_is_checked():
    model = odd_model()
    source = Exportable.of(model)
    rows = Rows(make_documents(model, 0), None, model.feature_names)
    (check,) = check_content(PYTHON, source, PYTHON.write(source, {}), {}, rows)
    assert check.n_same == N_DOCUMENTS


@needs("gcc")
def test_what_a_compiler_does_not_take_is_an_error_that_says_what_it_said():
    model = make_model(1)
    rows = Rows(make_documents(model, 1), None, model.feature_names)
    with pytest.raises(ExportError, match=r"gcc must take what was written\. Got .*error"):
        check_content(C, Exportable.of(model), b"this is no C", {}, rows)


def test_a_program_that_is_not_there_has_no_version():
    assert program_version("a-compiler-that-nobody-has")() is None


@pytest.mark.parametrize("name", ["2nd", "A model", "class", "String", "M;"])
def test_a_class_of_java_must_have_a_name_that_java_takes(name):
    with pytest.raises(ParameterError, match="name must be the name of a class"):
        exported(JAVA, make_model(1), name=name)
