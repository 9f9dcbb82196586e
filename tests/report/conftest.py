"""The report that most tests look at, and the browser that pages are opened in."""

from __future__ import annotations

import os
import shutil

import pytest

from rankgrove import make_report
from rankgrove.report.page import write_page
from report.samples import METRICS, make_parts, train_models


@pytest.fixture(scope="session")
def parts():
    return make_parts()


@pytest.fixture(scope="session")
def models(parts):
    return train_models(parts)


@pytest.fixture(scope="session")
def contents(parts, models):
    """Leave it as it is."""
    report = make_report(
        parts["test"], models, METRICS, baseline="old", slices=["length", "relevant"], top=5,
        train=parts["train"], valid=parts["vali"], forces=2,
    )  # fmt: skip
    return report.to_dict()


def _why_not():
    """Why there is no browser to test in, or None."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "Playwright is not installed: pip install 'rankgrove[test]'"
    if shutil.which("chromium") is None:
        return "Chromium is not installed: apt-get install chromium fonts-dejavu-core"
    return None


@pytest.fixture(scope="module")
def browser():
    """One Chromium for a module; its event loop ends before tests of other modules begin."""
    reason = _why_not()
    if reason is not None and os.environ.get("RANKGROVE_BROWSER") == "required":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            # Inside of a container Chromium has no sandbox and little shared memory.
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        yield chromium
        chromium.close()


class Opened:
    """A page in the browser, with all that went wrong and all that was asked for."""

    def __init__(self, context, path, address=""):
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "console",
            lambda message: (
                self.problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"file://{path}{address}")

    def wait(self):
        self.page.wait_for_selector("html[data-ready]", timeout=60_000, state="attached")
        return self

    def text(self, selector):
        return self.page.locator(selector).first.text_content()

    @property
    def address(self):
        return self.page.evaluate("decodeURIComponent(location.hash.replaceAll('+', ' '))")


@pytest.fixture
def open_page(browser, tmp_path):
    """Writes the page of a contract and opens it; options are those of a browser context."""
    contexts = []

    def open_page(contract, address="", *, wait=True, **options):
        path = tmp_path / f"report-{len(contexts)}.html"
        write_page(contract, path)
        options = {"viewport": {"width": 1240, "height": 900}} | options
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(15_000)
        opened = Opened(contexts[-1], path, address)
        return opened.wait() if wait else opened

    yield open_page
    for context in contexts:
        context.close()
