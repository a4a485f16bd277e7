"""The page in a real Chromium: every view, light and dark, wide and narrow; by keyboard; live; and a hostile trial.

Views are looked at in one page each module, by their addresses, as a person goes from one to the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_run import ALERT, RUNNING, STEPS, dashboard_run
from dashboard_server import Served, wait_until
from looking import NARROW, READY, WIDE, Looked
from monitor_run import capture, make_run, record, rows

from lego_verl.capture.record import write_recording
from lego_verl.monitor.run_folder import append_line
from lego_verl.monitor.store import Store

VIEWS = {
    "runs": "#/",
    "overview": "overview",
    "learning": "learning?harnesses=1&metrics=entropy,reward&with=demo+run",
    "outcomes": "outcomes?shares=1",
    "tasks": "tasks?task=task1",
    "behaviour": "behaviour",
    "alignment": "alignment",
    "time": "time?per=sum",
    "trials": "trials?outcome=sandbox_failed",
    "trial": "trial/2/task0-2-0",
    "compare": "compare",
    "recipe": "recipe",
    "nothing": "nothing",
}


class Views(Looked):
    def go(self, place: str, run: str = "demo%20run") -> None:
        """To a view, and wait until it is drawn."""
        where = place if place.startswith("#") else f"#/run/{run}/{place}"
        self.complaints.clear()
        if not self.page.url.startswith(self.url):
            self.page.goto(f"{self.url}/{where}")
        else:
            self.page.evaluate("where => { location.hash = where; }", where)
        name = where.partition("?")[0].split("/")[3] if where.startswith("#/run/") else "runs"
        self.page.wait_for_selector(f'main[data-view="{name}"]{READY.removeprefix("main")}')


@pytest.fixture(scope="module")
def looked(browser: Any, served: str) -> Iterator[Views]:
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    yield Views(context.new_page(), served)
    context.close()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_every_form(looked: Views, view: str) -> None:
    page = looked.page
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    looked.go(VIEWS[view])
    assert page.locator("h1").count() == 1
    assert page.locator("h1").inner_text()
    assert page.get_by_role("alert").count() == 0, page.get_by_role("alert").first.inner_text()
    if page.locator("plot-area").count():
        page.evaluate("document.querySelector('plot-area').scrollIntoView()")
        page.wait_for_selector("plot-area[data-drawn]")
    assert looked.overflow() <= 0
    assert looked.axe() == []
    page.set_viewport_size(NARROW)
    assert looked.overflow() <= 0
    page.emulate_media(color_scheme="dark")
    assert looked.axe() == []
    page.set_viewport_size(WIDE)
    assert looked.overflow() <= 0
    assert looked.complaints == []


def test_the_overview_says_how_the_run_stands(looked: Views) -> None:
    looked.go("overview")
    text = looked.page.locator("main").inner_text()
    assert ALERT in text
    assert f"{STEPS} of 9" in text
    assert "1 trials without an ending" in text


def test_a_number_leads_to_its_trials_and_what_they_mean(looked: Views) -> None:
    page = looked.page
    looked.go("outcomes")
    page.locator("#every-outcome").get_by_role("link", name="sandbox failed").click()
    page.wait_for_selector('main[data-view="trials"]:not([data-busy])')
    assert page.locator("#trials tbody tr").count() == STEPS
    assert "Ruled out" in page.locator("main").inner_text()
    page.go_back()
    page.wait_for_selector('main[data-view="outcomes"]:not([data-busy])')
    assert looked.complaints == []


def test_filters_are_in_the_address(looked: Views) -> None:
    page = looked.page
    looked.go("trials")
    page.get_by_label("Split").select_option("heldout")
    wait_until(lambda: page.locator("#trials tbody tr").count() == 4)
    assert page.url.endswith("/trials?split=heldout")
    page.get_by_role("button", name="trial", exact=True).first.click()
    assert "_sort.trials=trial" in page.url.replace("%2E", ".")
    wait_until(lambda: page.locator("#trials tbody th").first.inner_text() == "h0")
    page.reload()
    page.wait_for_selector(READY)
    assert page.locator("#trials tbody tr").count() == 4
    assert page.locator('#trials th[aria-sort="ascending"]').count() == 1


def test_charts_are_saved_and_read_as_tables(looked: Views, tmp_path: Path) -> None:
    page = looked.page
    looked.go("learning?window=1")
    figure = page.locator("#chart-solve-rate")
    with page.expect_download() as download:
        figure.get_by_role("button", name="as CSV").click()
    saved = tmp_path / "saved.csv"
    download.value.save_as(saved)
    lines = saved.read_text().splitlines()
    assert lines[0].startswith("step,training (%),")
    assert len(lines) == 1 + STEPS + 1  # held-out trials were run before the first step, too
    with page.expect_download() as download:
        figure.get_by_role("button", name="as PNG").click()
    download.value.save_as(tmp_path / "saved.png")
    assert (tmp_path / "saved.png").read_bytes().startswith(b"\x89PNG")
    figure.get_by_role("button", name="as a table").click()
    assert figure.locator("tbody tr").count() == STEPS + 1
    assert "training: " in str(figure.locator("plot-area").get_attribute("aria-label"))
    assert looked.complaints == []


def test_the_theme_is_remembered(looked: Views) -> None:
    page = looked.page
    page.emulate_media(color_scheme="light")
    looked.go("overview")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Change to dark colours").click()
    assert page.evaluate(ground) != light
    page.reload()
    page.wait_for_selector(READY)
    assert page.evaluate(ground) != light
    page.get_by_role("button", name="Change to light colours").click()
    assert page.evaluate(ground) == light
    page.evaluate("localStorage.clear(); delete document.documentElement.dataset.theme")


PATCH = """async () => {
  const { patch } = await import("./page/core/patch.js");
  const { h } = await import("./page/core/dom.js");
  const box = h("div", {});
  document.body.append(box);
  const field = (kept) => h("form", {}, h("input", { name: "field" }), kept);
  const first = h("ul", { key: "u" }, h("li", { key: 1 }, "one"));
  patch(box, [h("p", { key: "a" }, "a"), h("p", {}, "b"), field("1"), first]);
  const [input, list] = [box.querySelector("input"), box.querySelector("ul")];
  input.focus();
  const same = () => document.activeElement === input && box.querySelector("ul") === list;
  const seen = [];
  const then = (...nodes) => { patch(box, nodes); seen.push([box.textContent, same()]); };
  const items = (...names) => h("ul", { key: "u" }, names.map((each) => h("li", { key: each }, each)));
  then(field("2"), items(1));
  then(h("p", { key: "n" }, "new"), field("3"), items(0, 1));
  then(h("p", {}, "x"), h("h2", {}, "y"), field("4"), items(1, 0));
  then(h("h2", {}, "z"), field("5"), items());
  box.remove();
  return seen;
}"""


def test_a_patch_moves_nothing_that_stays(looked: Views) -> None:
    looked.go("overview")
    assert looked.page.evaluate(PATCH) == [["21", True], ["new301", True], ["xy410", True], ["z5", True]]


def test_by_keyboard_alone(looked: Views) -> None:
    page = looked.page
    looked.go("trials")
    page.reload()
    page.wait_for_selector(READY)

    def reached(says: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate(
                "document.activeElement.textContent + '|' + (document.activeElement.name ?? '')"
            ).startswith(says):
                return
        raise AssertionError(f"the tab key does not reach {says!r}")

    reached("Skip to the content")
    reached("Outcomes")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-view="outcomes"]:not([data-busy])')
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.go_back()
    page.wait_for_selector('main[data-view="trials"]:not([data-busy])')
    reached("both")  # the first filter
    reached("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    reached(RUNNING)
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-view="trial"]')
    assert f"/trial/{STEPS + 1}/{RUNNING}" in page.url


def test_what_happens_appears_by_itself(browser: Any, tmp_path: Path) -> None:
    run = dashboard_run(tmp_path / "live")
    context = browser.new_context(viewport=WIDE)
    with Served([run.path]) as server:
        looked = Views(context.new_page(), server.url)
        page = looked.page
        looked.go("trials?split=train", "live")
        page.wait_for_selector('.connection[data-state="live"]')
        page.evaluate("window.before = document.querySelector('#trials tbody tr')")
        page.locator("#trials tbody a").nth(4).focus()
        page.evaluate("window.scrollTo(0, 200)")
        focused, count = page.evaluate("document.activeElement.href"), page.locator("#trials tbody tr").count()
        with Store(run.store) as store:
            store.started(STEPS + 1, "train", "appeared", "task2", 1, t=time.time())
        page.wait_for_selector("#trials >> text=appeared")
        assert page.locator("#trials tbody tr").count() == count + 1
        assert page.evaluate("window.before.isConnected"), "what was there was made anew"
        assert page.evaluate("document.activeElement.href") == focused
        assert page.evaluate("window.scrollY") == 200
        looked.go("overview", "live")
        append_line(run.metrics, {"step": STEPS + 1, "seconds": 10.0, "solve_rate": 1.0})
        page.wait_for_selector(f"main >> text={STEPS + 1} of 9")
        assert looked.complaints == []
    page.wait_for_selector('.connection[data-state="lost"]')
    with Served([run.path], port=server.port):
        page.wait_for_selector('.connection[data-state="live"]')
    context.close()


def test_a_view_that_takes_long_is_fetched_less_often(browser: Any, tmp_path: Path) -> None:
    """The machine that shows it may be the one that trains: a tenth of the time goes into looking, at most."""
    run = dashboard_run(tmp_path / "live")
    context = browser.new_context(viewport=WIDE)
    with Served([run.path]) as server:
        looked = Views(context.new_page(), server.url)
        page = looked.page

        def slowly(route: Any) -> None:
            time.sleep(0.3)
            route.continue_()

        page.route("**/api/runs/live/outcomes*", slowly)
        looked.go("outcomes", "live")
        page.wait_for_selector('.connection[data-state="live"]')
        fetched = page.locator("main").get_attribute("data-ready")
        until = time.monotonic() + 9
        with Store(run.store) as store:
            while time.monotonic() < until:  # something happens all the time
                store.started(STEPS + 1, "train", f"t{time.monotonic_ns()}", "task2", 1, t=time.time())
                page.wait_for_timeout(100)
        assert 1 <= int(page.locator("main").get_attribute("data-ready")) - int(fetched) <= 3
    context.close()


def test_a_token_is_asked_for_and_leaves_the_address(browser: Any, run: Any) -> None:
    with Served([run.path], token="a-token-of-mine", cookie="lego_verl_test") as server:
        context = browser.new_context(viewport=WIDE)
        page = context.new_page()
        page.goto(f"{server.url}/#/run/demo%20run/overview")
        page.get_by_label("Token").fill("wrong-token-1")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("text=this is not the token")
        page.get_by_label("Token").fill("a-token-of-mine")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("dl.stats")
        page.goto(f"{server.url}/?token=a-token-of-mine#/run/demo%20run/time")
        page.wait_for_selector(READY)
        assert page.url == f"{server.url}/#/run/demo%20run/time"
        context.close()


HOSTILE = (
    "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'> \x1b]0;owned\x07\x1b[2J "
    "\u202egnp.exe\u2066 &lt;b&gt; {{7*7}} ${window.harmed = 1} \x00 \udc80 ' \" `"
)


def test_a_hostile_trial_harms_nothing(browser: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "<img src=x onerror=harmed=1>", steps=2, output="OUTPUT", ending="the end")
    name = "x'\"<img src=x onerror=harmed=1>"
    made = record(name, task=HOSTILE, error=HOSTILE * 3, group="g", harness="<b>harness", signs=[HOSTILE])
    folder = run.trial(3, name)
    write_recording(folder, capture("cat a.py", output="OUTPUT"))
    calls = folder / "calls.jsonl"
    output = b"<script>window.harmed = 1</script>\\u001b[31m\xe2\x80\xae" + b"A" * (50 << 20)
    calls.write_bytes(calls.read_bytes().replace(b"OUTPUT", output, 1))
    (folder / "harness.log").write_bytes(b"\xff\xfe<script>harmed=1</script>\x1b[2J" + b"z" * (5 << 20))
    (folder / "patch.diff").write_bytes(b"diff --git a/<b> b/<b>\n+\xff\xfe<script>harmed=1</script>\n")
    with Store(run.store) as store:
        store.finished(3, "train", made, rows())
        store.finished(3, "train", record("tame", task="task0"), rows())
        store.event("alert", 3, "train", message=HOSTILE, trial=name)
        store.metrics(3, {"<img src=x onerror=harmed=1>": 1.0, "seconds": 3.0})
    context = browser.new_context(viewport=WIDE)
    with Served([run.path]) as server:
        looked = Views(context.new_page(), server.url)
        at = str(looked.page.evaluate("name => encodeURIComponent(name)", run.path.name))
        trial = str(looked.page.evaluate("name => encodeURIComponent(name)", name))
        metric = "%3Cimg+src%3Dx+onerror%3Dharmed%3D1%3E"
        for place in (
            "overview",
            "trials",
            "tasks",
            "outcomes",
            f"learning?metrics={metric}",
            "time",
            "compare",
            f"trial/3/{trial}",
            f"trial/3/{trial}?tab=turns",
            f"trial/3/{trial}?tab=patch",
            f"trial/3/{trial}?tab=logs",
        ):
            looked.go(place, at)
            looked.page.wait_for_timeout(150)
            assert looked.page.evaluate("window.harmed") is None, place
            assert looked.page.locator("main img, main script").count() == 0, place
            began = time.monotonic()
            looked.page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            assert time.monotonic() - began < 10, f"{place} does not answer"
            assert looked.overflow() <= 0, place
            shown = looked.page.evaluate("document.body.innerText.length")
            assert shown < 1_000_000, f"{place} shows {shown} characters"
            assert not set(looked.page.evaluate("document.body.textContent")) & set("\x1b\u202e\u2066"), place
        assert [each for each in looked.complaints if "favicon" not in each] == []
    context.close()


def test_who_goes_on_and_comes_back_at_once_sees_where_they_are(looked: Views) -> None:
    """What was fetched for one view is never shown as another, and a view that was left half-way is fetched again."""
    looked.go("tasks")
    page = looked.page
    for _ in range(3):
        page.evaluate(
            """() => { for (const view of ["outcomes", "behaviour", "outcomes", "learning", "time", "learning"])
                         location.hash = `#/run/demo%20run/${view}`; }"""
        )
        page.wait_for_selector('main[data-view="learning"]:not([data-busy])')
        assert page.locator("h1").inner_text() == "Learning"
        page.evaluate("location.hash = '#/run/demo%20run/tasks'; location.hash = '#/run/demo%20run/learning'")
        page.evaluate("location.hash = '#/run/demo%20run/tasks'")
        page.wait_for_selector('main[data-view="tasks"]:not([data-busy])')
        assert page.locator("h1").inner_text() == "Tasks"
    assert looked.complaints == []


BROKEN_ANSWERS = """async (kind) => {
  const { apiOf } = await import("/page/core/api.js");
  const real = window.fetch, giving = new AbortController();
  const body = new ReadableStream({ start(to) {
    to.enqueue(new TextEncoder().encode('{"rows": ['));
    if (kind === "given up") { giving.abort(); to.error(giving.signal.reason); } else to.close();
  } });
  window.fetch = async () => new Response(body, { status: 200 });
  try { return `data: ${JSON.stringify(await apiOf("x", giving.signal).run("x"))}`; }
  catch (error) { return `${error.name}: ${error.message}`; }
  finally { window.fetch = real; }
}"""


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("given up", "AbortError: signal is aborted without reason"),
        ("cut", "Error: the server answered 200, and no JSON"),
    ],
)
def test_half_an_answer_is_none(looked: Views, kind: str, told: str) -> None:
    looked.go("overview")
    assert looked.page.evaluate(BROKEN_ANSWERS, kind) == told
