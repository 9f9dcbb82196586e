"""What is shown while training: a line that moves on a terminal, plain lines elsewhere."""

import io

from boosting.samples import QUICK, make_data
from rankgrove.boosting.parameters import Parameters
from rankgrove.training import progress as progress_module
from rankgrove.training.progress import Progress
from rankgrove.training.trees import start_trees


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(stream, monkeypatch, *, seconds=1.0, valid=True):
    """The text of a short run in which every look at the clock is `seconds` later."""
    now = iter(range(10_000))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now) * seconds)
    data = make_data()
    run = start_trees(data, {"vali": data} if valid else {}, Parameters(**QUICK))
    with Progress(stream) as progress:
        run.run([progress])
    return stream.getvalue()


def test_a_terminal_has_one_line_that_moves_and_is_gone_at_the_end(monkeypatch):
    text = show(Terminal(), monkeypatch)
    assert "\n" not in text
    assert text.count("\r") == QUICK["n_estimators"] + 1
    assert text.endswith("\r\x1b[K")
    assert "3/6 trees  ndcg@10 0." in text
    assert "best 0." in text
    # Time is counted from the first tree on: one second a tree, three trees left.
    assert "3.0 s left" in text


def test_elsewhere_lines_are_plain_and_far_between(monkeypatch):
    lines = show(io.StringIO(), monkeypatch, seconds=2.0).splitlines()
    assert [line.split()[0] for line in lines] == ["3/6", "6/6"]
    assert all("\x1b" not in line and "━" not in line for line in lines)
    assert lines[-1].endswith("12 s")


def test_without_validation_there_is_no_metric(monkeypatch):
    assert "ndcg" not in show(Terminal(), monkeypatch, valid=False)
