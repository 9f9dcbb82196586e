"""Ctrl-C on a real process that trains a network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("torch")

from neural.samples import make_parts
from rankgrove import LambdaRank, write_letor
from rankgrove.neural import NetworkModel
from signals import handle_interrupts

OPTIONS = {"hidden": (6,), "batch_queries": 4}


def interrupt_on_terminal(args, directory, word):
    """Call a command, press Ctrl-C once its progress has a word; exit code and all it said."""
    own, theirs = os.openpty()
    command = [sys.executable, "-m", "rankgrove", *args]
    with handle_interrupts():
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=theirs)
    with process:
        os.close(theirs)
        said, pressed, deadline = b"", False, time.monotonic() + 120
        while True:
            try:
                got = os.read(own, 1000)
            except OSError:  # Linux has an error for the end
                break
            if not got:
                break
            said += got
            if not pressed and word.encode() in said:
                pressed = True
                process.send_signal(signal.SIGINT)
            assert time.monotonic() < deadline
    os.close(own)
    return process.returncode, said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals and signals")
def test_interrupt_keeps_the_network_after_the_last_whole_epoch(tmp_path):
    train, vali = make_parts(20)
    write_letor(train, tmp_path / "train.txt")
    write_letor(vali, tmp_path / "vali.txt")
    code, said = interrupt_on_terminal(
        ["train", "train.txt", "--valid", "vali.txt", "--objective", "lambdarank", "--hidden", "6",
         "--batch-queries", "4", "--max-epochs", "1000000", "-o", "m.safetensors"],
        tmp_path, "/1,000,000 epochs",
    )  # fmt: skip
    assert code == 130, said
    assert "Traceback" not in said
    model = NetworkModel.load(tmp_path / "m.safetensors")
    assert model.n_epochs >= 1
    assert f"interrupted after {model.n_epochs:,} epoch" in said
    assert len(model.history["vali"]["ndcg@10"]) == model.n_epochs
    # The same network is made by training for as many epochs and no more.
    whole = LambdaRank(**OPTIONS, max_epochs=model.n_epochs).fit(train, valid={"vali": vali})
    np.testing.assert_array_equal(model.predict(vali), whole.predict(vali))
    assert model.history == whole.history_
