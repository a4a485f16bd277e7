"""The report in a real Chromium, from a file: light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lego_verl.export.redact import Redactor
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.report.__main__ import make_report


@pytest.fixture(scope="module")
def file(reported: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(make_report(reported, Redactor({})), encoding="utf-8")
    return path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_opens_asks_for_nothing_and_can_be_read_by_all(browser: Any, file: Path, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert page.title() == "a run: report of a run"
    assert said == []
    assert asked == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).maxWidth") == "1100px", "its style is let in"
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")] == []
    # The keyboard goes to what folds, and opens it.
    page.evaluate("document.querySelector('summary').focus()")
    before = page.evaluate("document.activeElement.parentElement.open")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open") != before
    page.close()


def test_its_policy_stops_what_would_act(browser: Any, file: Path, tmp_path: Path) -> None:
    """Were a text ever not escaped, it would still do nothing."""
    broken = tmp_path / "broken.html"
    act = "document.title='owned'"
    injected = f"<script>{act}</script><img src='https://example.invalid/x' onerror=\"{act}\">"
    broken.write_text(file.read_text(encoding="utf-8").replace('<h2 id="tasks">', f'{injected}<h2 id="tasks">'))
    page = browser.new_page()
    page.goto(broken.as_uri())
    assert page.evaluate("document.querySelectorAll('img[src^=https]').length") >= 1, "it is there"
    assert page.title() == "a run: report of a run"
    page.close()
