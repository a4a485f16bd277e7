"""Somebody who watches a run in a browser for as long as it trains, from view to view, and never reloads the page."""

from __future__ import annotations

import itertools
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from dashboard_server import Served
from playwright.sync_api import sync_playwright

VIEWS = ("overview", "learning", "outcomes", "tasks", "behaviour", "alignment", "time", "trials", "compare", "recipe")
_LOOK_SECONDS = 5.0


@dataclass
class Watched:
    run: Path
    standing: list[str] = field(default_factory=list)
    """What the top of the page said, each time it said something new: "running step 3 of 16, 8 trials running"."""
    complaints: list[str] = field(default_factory=list)
    """Of the browser's console, and errors that a view showed."""
    views: set[str] = field(default_factory=set)
    """That were looked at."""


def watch(run: Path, training: subprocess.Popen[bytes], chromium: str | None) -> Watched:
    """Look at one view after the other until the training process is gone, and once more.

    Args:
        chromium: the browser; None: nobody looks.
    """
    seen = Watched(run)
    while (chromium is None or not (run / "store.sqlite").exists()) and training.poll() is None:
        time.sleep(0.2)
    if chromium is None or training.poll() is not None:
        return seen
    with Served([run]) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.goto(f"{server.url}/#/run/{run.name}/overview")
        for view in itertools.cycle(VIEWS):
            ended = training.poll() is not None
            page.evaluate("hash => { location.hash = hash }", f"#/run/{run.name}/{view}")
            page.wait_for_timeout(1000 * _LOOK_SECONDS)
            seen.complaints.extend(page.get_by_role("alert").all_inner_texts())
            seen.views.add(page.locator("main").get_attribute("data-view") or "none")
            said = " ".join(page.locator(".standing").inner_text().split())
            if seen.standing[-1:] != [said]:
                seen.standing.append(said)
            if ended:
                break
        browser.close()
    return seen
