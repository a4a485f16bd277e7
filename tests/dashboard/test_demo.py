"""The demonstration run that is shipped: it is whole, and every view of it can be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_server import Served
from watching import VIEWS

from lego_verl.dashboard.demo import NoDemo, demo_run
from lego_verl.dashboard.demo_pack import pack_demo
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trained_tokens import read_trained
from lego_verl.proof.read import NoRun


@pytest.fixture(scope="module")
def demo() -> Iterator[RunFolder]:
    with demo_run() as folder:
        yield RunFolder(folder)


def test_it_is_a_run_that_learnt(demo: RunFolder) -> None:
    with queries.read_store(demo.store) as db:
        rates = {row["step"]: row["solved"] / row["graded"] for row in queries.learning(db)}
        trials = queries.trials(db, step=16, split="train", limit=100)
    assert list(rates) == list(range(1, 17))
    assert rates[16] > rates[1] + 0.3
    trained = read_trained(demo, 16, trials[0]["trial"])
    assert trained, "the trainer's log-probabilities are there"


@pytest.mark.parametrize("view", [*VIEWS, "trial", "trial?tab=turns", "trial?tab=tokens"])
def test_every_view_of_it(view: str, shown: Any) -> None:
    page, complaints, url, trial = shown
    place = view.replace("trial", f"trial/16/{trial}") if view.startswith("trial") and view != "trials" else view
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("about:blank")
    page.goto(f"{url}/#/run/demo/{place}")
    page.wait_for_selector("main[data-ready]:not([data-busy])")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_role("alert").count() == 0
    assert page.locator("h1").inner_text()
    assert complaints == []


@pytest.fixture(scope="module")
def shown(demo: RunFolder, browser: Any) -> Iterator[Any]:
    """A page, what its console complained of, the dashboard's address, and a trial of the last step."""
    with queries.read_store(demo.store) as db:
        trial = queries.trials(db, step=16, split="train", limit=1)[0]["trial"]
    complaints: list[str] = []
    with Served([demo.path]) as server:
        page = browser.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page, complaints, server.url, trial
        page.close()


def test_what_is_packed_is_what_is_shown(run: RunFolder, tmp_path: Path) -> None:
    (run.path / "checkpoints").mkdir(exist_ok=True)
    (run.path / "checkpoints" / "weights").write_bytes(b"0" * 1000)
    assert pack_demo(run, tmp_path / "packed.tar.xz") == (tmp_path / "packed.tar.xz").stat().st_size
    with demo_run(tmp_path / "packed.tar.xz") as folder:
        kept = RunFolder(folder)
        assert not kept.checkpoints.exists()
        with queries.read_store(kept.store) as there, queries.read_store(run.store) as here:
            assert queries.learning(there) == queries.learning(here)
        assert sorted(path.name for path in kept.trials.rglob("*")) == sorted(p.name for p in run.trials.rglob("*"))


def test_without_a_run_there_is_nothing_to_pack_or_show(tmp_path: Path) -> None:
    with pytest.raises(NoRun, match="has no store"):
        pack_demo(RunFolder(tmp_path), tmp_path / "packed.tar.xz")
    with pytest.raises(NoDemo, match="is missing"), demo_run(tmp_path / "none.tar.xz"):
        pass
