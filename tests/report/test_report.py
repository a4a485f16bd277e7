"""The report says what the store says, holds no secret, and nothing in it acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_run import SECRET, report_run

from lego_verl.export.redact import Redactor
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.report.__main__ import main, make_report
from lego_verl.report.charts import Series, bar_chart, line_chart
from lego_verl.report.chosen import chosen
from lego_verl.report.reading import short


class Page(HTMLParser):
    """The elements of a page, and its visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "line", "polyline", "polygon", "circle", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "polyline", "polygon", "circle", "rect"):
            assert self.open.pop() == tag, "what an agent wrote has closed an element"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(reported: RunFolder) -> str:
    return make_report(reported, Redactor({}))


def test_nothing_hostile_acts(page: str) -> None:
    parsed = Page(page)
    assert parsed.open == []
    assert not parsed.tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "audio", "video"}
    for name, value in parsed.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "srcdoc", "style"), name
        assert name != "href" or value.startswith("#"), value
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "<script>document.title='owned'</script>" in parsed.text, "it is shown as it is"
    assert "{{ 7 * 7 }}" in parsed.text
    assert "\ufffd" in parsed.text, "what is no UTF-8"
    assert ("http-equiv", "Content-Security-Policy") in parsed.attributes
    assert len(page) < 1 << 20, "of a grading log of 50 MB its beginning"


def test_no_secret_is_in_it(page: str) -> None:
    assert SECRET not in page
    assert "[redacted: recipe]" in page
    assert "token [redacted: api key]" in page


def test_it_says_what_the_store_says(page: str) -> None:
    text = Page(page).text
    assert "4 of 9" in text
    assert "90% of the turns have no tool call" in text
    for title in (
        "Solve rate",
        "How trials ended",
        "Groups without a signal",
        "Turns",
        "Where trials spent their time",
    ):
        assert f"{title} as a table" in text
    assert "lego.trial.min_group" in text
    assert "3.11" in text


def test_five_trials_by_their_rules(reported: RunFolder) -> None:
    with queries.read_store(reported.store) as db:
        found = {each.row["trial"]: each.why for each in chosen(db)}
    assert len(found) == 5
    assert found["task0-1-0"] == "the first that was solved"
    assert found["evil-4-9"].startswith("the one with the most calls (")
    assert [trial for trial, why in found.items() if why.startswith("a typical failure: ")] != []
    assert found["task1-4-2"] == "the newest that was dropped: sandbox_failed"
    with queries.read_store(reported.store) as db:
        assert [each.row["trial"] for each in chosen(db)] == list(found), "the same every time"


def test_the_command_writes_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = report_run(tmp_path / "plain", hostile=False)
    assert main([str(run.path)]) == 0
    assert (run.path / "report.html").read_text().startswith("<!doctype html>")
    assert "redacted: api key 1, recipe 1" in capsys.readouterr().out
    assert main([str(run.path), "--out", str(tmp_path / "no such folder" / "r.html")]) == 1
    assert main([str(tmp_path / "nowhere")]) == 2
    assert main([str(run.trial(1, "task0-1-0"))]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_run_in_which_nothing_ended_has_a_report(tmp_path: Path) -> None:
    from lego_verl.monitor.store import Store

    run = RunFolder(tmp_path / "empty")
    run.create()
    with Store(run.store) as store:
        store.started(1, "train", "a", "task", 1)
    text = Page(make_report(run, Redactor({}))).text
    assert "No trial has ended." in text
    assert "None was raised." in text


def test_long_texts_are_shortened_after_their_secrets_are_gone() -> None:
    redactor = Redactor({})
    cut = short("a" * 890 + SECRET + "b" * 2000, redactor)
    assert SECRET[:12] not in cut
    assert short("x" * 10, redactor) == "x" * 10
    long = short("begin " + "x" * 100_000 + f" {SECRET} end", redactor)
    assert long.startswith("begin ")
    assert long.endswith("[redacted: api key] end")
    assert len(long) < 2000
    # Of what is too long to be searched nothing but the beginning is shown.
    key = "-----BEGIN PRIVATE KEY-----\n" + "A" * 300_000 + "\n-----END PRIVATE KEY-----"
    assert "AAAA" not in short(key, redactor)
    assert "ENDKEY" not in short("z" * 300_000 + "ENDKEY", redactor)


def test_charts_hold_what_they_are_given() -> None:
    svg = str(line_chart("<b>", [Series("s & t", [(1, 0.0), (2, None), (3, 1.0)], [(1, 0.0, 0.5), (3, 0.5, 1.0)])]))
    assert "<title>&lt;b&gt;</title>" in svg
    assert "s &amp; t: 0 at step 1, 1 at step 3" in svg
    assert svg.count("<circle") == 2
    assert "<polyline" not in svg, "a step without a value breaks the line"
    assert "nothing to show" in line_chart("t", [Series("s", [(1, None)])])
    bars = str(bar_chart("t", [Series("a", [(1, 2.0), (2, 0.0)]), Series("b", [(1, 2.0), (2, 4.0)], colour=1)]))
    heights = [float(value) for value in re.findall(r'<rect[^>]* height="([\d.]+)"', bars)]
    assert heights[0] == pytest.approx(heights[1], abs=0.2)
    assert heights[2] == pytest.approx(2 * heights[0], abs=0.2)
