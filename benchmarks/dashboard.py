"""How quick the dashboard is when a run is long: every endpoint of its API, and every view in a real Chromium, on a
store of many trials (``benchmarks/store.py``), beside a plain scan of a table by SQLite itself in the same run.

    python benchmarks/dashboard.py --store /tmp/store.sqlite

Prints of each endpoint the median and the 95th percentile over ``--times`` requests, and the processor time that the
server took: on a machine that others use, too, the difference is their doing. Of the page: the time until it can be
used (``lego-interactive``: the view's data are shown and every control answers) with nothing in the browser's cache,
and of each view the time from the click to its data, and to its first chart. Exits with 1 if an endpoint's 95th
percentile is over ``--limit``, or the page's median over ``--interactive``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from store import SCANS, generate, timed

from lego_verl.monitor import queries

_READY = ":not([data-busy])"
_VIEWS = ("overview", "learning", "outcomes", "tasks", "behaviour", "alignment", "time", "trials", "compare", "recipe")
_CLICK = """(view) => new Promise((done) => {
  const main = document.getElementById("main");
  const began = performance.now();
  const found = {};
  const look = () => {
    const there = main.dataset.view === view && !main.hasAttribute("data-busy");
    if (!found.data && there) found.data = performance.now() - began;
    const area = main.querySelector("plot-area");
    if (found.data && (!area || area.hasAttribute("data-drawn"))) found.chart = performance.now() - began;
    if (found.chart || performance.now() - began > 20000) done(found);
    else setTimeout(look, 5);
  };
  location.hash = `#/run/big/${view}`;
  setTimeout(look, 0);
})"""


def endpoints(step: int, trial: str) -> dict[str, str]:
    """What each view asks, on opening and on the clicks that follow."""
    of = "/api/runs/big"
    return {
        "runs": "/api/runs",
        "a run": of,
        "overview": f"{of}/overview",
        "overview: changes": f"{of}/changes",
        "overview: events": f"{of}/events?limit=14",
        "learning": f"{of}/learning?window=5",
        "learning by harness": f"{of}/learning?window=5&by_harness=1",
        "learning: metrics": f"{of}/metrics?name=reward&name=entropy&name=pearson",
        "learning: metric names": f"{of}/metrics/names",
        "outcomes": f"{of}/outcomes",
        "trials": f"{of}/trials",
        "trials of an outcome": f"{of}/trials?outcome=sandbox_failed",
        "trials, slowest": f"{of}/trials?slowest=1",
        "trials, far down": f"{of}/trials?offset=50000",
        "tasks": f"{of}/tasks",
        "time": f"{of}/time",
        "behaviour": f"{of}/behaviour",
        "alignment": f"{of}/alignment",
        "trial": f"{of}/trial/{step}/{trial}",
        "recipe": f"{of}/recipe",
    }


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A dashboard of a folder of runs, in a process of its own."""
    command = [sys.executable, "-m", "lego_verl.dashboard", str(folder), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = re.match(r"dashboard: (http://[^/]+)/", process.stdout.readline())
        assert said, "the dashboard did not start"
        yield said[1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)


def ask(url: str, server: psutil.Process, times: int) -> tuple[float, float, float, int]:
    """Milliseconds: median, 95th percentile, median of the server's processor time; and the answer's bytes."""
    spent, worked, size = [], [], 0
    for _ in range(times + 1):
        before, began = sum(server.cpu_times()[:2]), time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            size = len(answer.read())
        spent.append(1000 * (time.perf_counter() - began))
        worked.append(1000 * (sum(server.cpu_times()[:2]) - before))
    spent, worked = spent[1:], worked[1:]  # the first fills caches
    high = sorted(spent)[min(round(0.95 * times), times - 1)]
    return statistics.median(spent), high, statistics.mean(worked), size


def look(url: str, chromium: str, times: int) -> tuple[float, dict[str, dict[str, float]]]:
    """Milliseconds (medians): until the page can be used, and of each view until its data and its first chart."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        interactive = []
        for _ in range(times):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(f"{url}/#/run/big/overview")
            page.wait_for_selector(f"main[data-view=overview]{_READY}")
            page.wait_for_timeout(200)
            interactive.append(page.evaluate("performance.getEntriesByName('lego-interactive')[0].startTime"))
            context.close()
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(f"{url}/#/run/big/trials")
        page.wait_for_selector(f"main[data-view=trials]{_READY}")
        page.wait_for_timeout(3000)
        found: dict[str, list[dict[str, float]]] = {view: [] for view in _VIEWS}
        for _ in range(times):
            for view in _VIEWS:
                found[view].append(page.evaluate(_CLICK, view))
                page.wait_for_timeout(300)
        browser.close()
    views = {
        view: {part: statistics.median(each.get(part, 20000.0) for each in many) for part in ("data", "chart")}
        for view, many in found.items()
    }
    return statistics.median(interactive), views


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="made where it is not")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--limit", type=float, default=300.0, help="milliseconds of an endpoint's 95th percentile")
    parser.add_argument("--interactive", type=float, default=1000.0, help="milliseconds until the page can be used")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "")
    given = parser.parse_args(arguments)
    if not given.store.exists():
        generate(given.store, given.trials, 40)
    slow: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "big"
        (run / "trials").mkdir(parents=True)
        (run / "store.sqlite").symlink_to(given.store.resolve())
        (run / "recipe.yaml").write_text("trainer: {total_training_steps: 400}\nlego: {sandbox: {slots: 64}}\n")
        with queries.read_store(given.store) as db:
            count, last = db.execute("SELECT count(*), max(step) FROM trials").fetchone()
            trial = db.execute("SELECT trial FROM trials WHERE step = ? AND calls > 0", (last // 2,)).fetchone()[0]
        print(f"{count} trials, {last} steps")
        with served(Path(folder)) as (url, server):
            print(f"{'':28} {'median':>11} {'95th':>11} {'of it CPU':>11} {'bytes':>10}")
            for name, path in endpoints(last // 2, trial).items():
                middle, high, worked, size = ask(url + path, server, given.times)
                print(f"{name:28} {middle:8.1f} ms {high:8.1f} ms {worked:8.1f} ms {size:10}")
                slow += [name] if high > given.limit else []
            for name, query in SCANS.items():
                middle, high, worked = timed(given.store, lambda db, q=query: db.execute(q).fetchone(), given.times)
                print(f"{name:28} {middle:8.1f} ms {high:8.1f} ms {worked:8.1f} ms")
            slow += _page(url, given)
    print(json.dumps({"over the limit": slow}))
    return 1 if slow else 0


def _page(url: str, given: Any) -> list[str]:
    if not given.chromium:
        print("no Chromium: the page was not looked at")
        return []
    interactive, views = look(url, given.chromium, max(given.times // 4, 3))
    print(f"\n{'the page can be used after':28} {interactive:8.0f} ms")
    print(f"{'from a click to':28} {'data':>11} {'first chart':>14}")
    for view, parts in views.items():
        print(f"{view:28} {parts['data']:8.0f} ms {parts['chart']:11.0f} ms")
    return ["page"] if interactive > given.interactive else []


if __name__ == "__main__":
    sys.exit(main())
