"""Every command with curl on docs/serving.md runs, and answers what the page says."""

import json
import re
import shutil
import subprocess

import pytest

from serving.page import commands, train_shop
from serving.samples import running


def comparable(text):
    """An answer without what differs from run to run."""
    text = re.sub(r'"took_ms":[\d.]+', '"took_ms":0', text)
    # The page shows the start of a checksum, which is another one for each version of Rankgrove.
    return json.loads(re.sub(r'"[0-9a-f]{8}(…|[0-9a-f]{56})"', '"checksum"', text))


def test_the_commands_of_the_page_answer_what_it_says(tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    path = tmp_path / "shop.safetensors"
    train_shop().save(path)
    n_compared = 0
    with running({"shop": path}) as address:
        for command, stated in commands():
            done = subprocess.run(
                command.replace("http://127.0.0.1:8080", address), shell=True, check=True,
                capture_output=True, text=True, timeout=60, cwd=tmp_path,
            )  # fmt: skip
            if stated:
                assert comparable(done.stdout) == comparable(stated), command
                n_compared += 1
            else:
                assert "rankgrove_requests_total" in done.stdout
    assert n_compared >= 6
