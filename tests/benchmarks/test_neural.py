from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("torch")

import torch
from benchmarks.neural_losses import (
    KINDS,
    PADDED,
    check_same_forces,
    exponent,
    make_queries,
    our_loss,
)

from benchmarks import neural


def test_all_forms_have_the_same_gradient():
    neural.check_same_gradient(neural.split_queries(make_queries(1, 15))[0])
    check_same_forces(make_queries(2, 40))


def test_forms_that_differ_are_refused(monkeypatch):
    steps = neural.make_steps()
    monkeypatch.setattr(
        neural, "make_steps", lambda: {**steps, neural.GRAPH: lambda *_: None}
    )  # fmt: skip
    with pytest.raises(SystemExit, match="must have the same gradient"):
        neural.check_same_gradient(neural.split_queries(make_queries(1, 15))[0])


@pytest.mark.parametrize("form", PADDED)
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_in_a_padded_loss(kind, form):
    labels = torch.tensor([2.0, 0, 1, 0, 1])
    scores = torch.tensor([0.3, 0.9, -0.2, 0.1, 0.7], dtype=torch.float64, requires_grad=True)
    our_loss(kind, 1)(scores, labels, [0, 3, 5]).backward()
    padded = torch.stack([scores.detach()[:3], torch.tensor([0.1, 0.7, 5.0])]).requires_grad_()
    mask = torch.tensor([[True, True, True], [True, True, False]])
    grades = torch.stack([labels[:3], torch.tensor([0.0, 1, 4])])
    PADDED[form](kind, padded, grades, mask).backward()
    # The padded loss has its discounts and gains in float32.
    torch.testing.assert_close(padded.grad[mask], scores.grad, rtol=1e-5, atol=1e-6)
    assert padded.grad[1, 2] == 0


def test_the_exponent_of_a_power_is_its_own():
    assert exponent({n: 3.0 * n**2 for n in (10, 20, 80)}) == pytest.approx(2)


def test_the_picture_is_sound_and_leaves_out_sizes_that_one_form_was_not_run_for():
    names = (neural.PAIRS, neural.GRAPH, neural.FACTORED)
    times = {n: dict.fromkeys(names, n / 1000) for n in (10, 20)}
    times[640] = {neural.GRAPH: 1.0, neural.FACTORED: 1.0}
    memory = {n: {f"{f}, {k}": n / 10 for f in ("ours", "padded") for k in KINDS} for n in (10, 20)}
    picture = ET.fromstring(neural.draw_picture(times, memory))
    texts = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "640" not in texts
    assert {*names, "our loss", "padded loss"} <= set(texts)
