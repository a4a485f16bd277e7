"""The Trial view in a real Chromium: its tabs, tokens by keyboard, a hostile trial, a hundred thousand tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_server import Served
from looking import NARROW, READY, WIDE, Looked
from trial_run import HOSTILE, LONG, SPLIT_TRIAL, STEP, trial_run

TABS = ("summary", "turns", "tokens", "patch", "logs")


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    run = trial_run(tmp_path_factory.mktemp("runs") / "talks")
    with Served([Path(run.path)]) as server:
        yield server.url


class Tab(Looked):
    def go(self, trial: str, query: str = "") -> Any:
        self.page.goto("about:blank")
        self.complaints.clear()
        self.page.goto(f"{self.url}/#/run/talks/trial/{STEP}/{trial}{query}")
        self.page.wait_for_selector(f"{READY} .tab")
        self.settle()
        return self.page


@pytest.fixture(scope="module")
def tab(browser: Any, talks: str) -> Iterator[Tab]:
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    yield Tab(context.new_page(), talks)
    context.close()


@pytest.mark.parametrize("name", TABS)
def test_every_tab_wide_and_narrow_light_and_dark(tab: Tab, name: str) -> None:
    page = tab.go(SPLIT_TRIAL, f"?tab={name}")
    assert page.locator("h1").inner_text().startswith("task0")
    assert page.locator('.tabs [aria-current="page"]').count() == 1
    assert tab.overflow() <= 0
    assert tab.axe() == []
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    assert tab.overflow() <= 0
    assert tab.axe("color-contrast") == []
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    assert tab.complaints == []


def test_a_token_says_all_that_is_known_of_it(tab: Tab) -> None:
    page = tab.go(SPLIT_TRIAL, "?tab=tokens")
    page.locator("#largest button.small").first.click()
    page.wait_for_selector('.tok[aria-selected="true"]')
    assert "_token=" in page.url
    told = page.locator(".told").inner_text()
    for word in (
        "Position",
        "Call",
        "Version\n7",
        "Generation",
        "Training",
        "Difference\n-1",
        "Advantage\n0.5",
        "Weight\n1.5",
    ):
        assert word in told
    page.wait_for_function("() => document.querySelector('.told').innerText.includes('by layer')")
    page.locator(".tokens").focus()
    for fate in ("no signal", "no weight", "rejected"):
        page.keyboard.press("ArrowLeft")
        assert fate in page.locator(".told .tag").inner_text()
    page.get_by_label("Colour by").select_option("fate")
    page.wait_for_selector('.legendlist [data-fate="rejected"]')
    page.locator('select[name="segment"]').select_option("1")
    page.wait_for_function("() => document.querySelector('main').innerText.includes('This segment is not trained')")
    assert tab.complaints == []


def test_tokens_go_into_a_file(tab: Tab) -> None:
    page = tab.go(SPLIT_TRIAL, "?tab=tokens")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of all tokens").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0].startswith("position,id,text,call,version,fate,generation (nats),training (nats)")
    assert sum(",rejected," in line for line in lines) == 1


def test_the_split_tree_leads_to_its_calls(tab: Tab) -> None:
    page = tab.go(SPLIT_TRIAL)
    assert page.locator(".tree > li").count() == 3
    page.locator(".tree").get_by_role("link", name="call 2").click()
    page.wait_for_selector(".turn[data-chosen] .split")
    assert "edited turn" in page.locator(".turn[data-chosen]").inner_text()


@pytest.mark.parametrize("name", TABS)
def test_a_hostile_trial_is_text(tab: Tab, name: str) -> None:
    page = tab.go(HOSTILE, f"?tab={name}")
    assert page.evaluate("window.bad") is None
    assert page.locator("main script, main img").count() == 0
    if name == "turns":
        assert "<script>window.bad=1</script>" in page.locator(".turns").inner_text()
        assert "Save the whole output" in page.locator("a[download]").all_text_contents()
    if name == "patch":
        assert page.locator('.line[data-sign="-"]').inner_text().strip() == "-<script>window.bad=1</script>"
    assert tab.overflow() <= 0
    assert tab.complaints == []


def test_of_a_hundred_thousand_tokens_a_window_is_drawn(tab: Tab) -> None:
    page = tab.go(LONG, "?tab=tokens&_context=1")
    assert page.locator("[data-place]").count() == 1500, "not one box for each of a hundred thousand"
    page.get_by_role("link", name="later ›").click()
    page.wait_for_selector('[data-place="1500"]')
    assert page.locator("[data-place]").count() == 1500
    bins = page.locator(".bins")
    box = bins.bounding_box()
    bins.click(position={"x": box["width"] - 3, "y": 10})
    page.wait_for_selector('.tok[aria-selected="true"]')
    assert int(page.locator('[aria-selected="true"]').get_attribute("data-place")) > 100_000
    assert tab.complaints == []
