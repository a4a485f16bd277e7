"""The console's view of a run, also of one whose agents printed what a terminal obeys."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path

import pytest
from monitor_run import capture, make_run, record
from rich.console import Console

from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.capture.session import Asked
from lego_verl.monitor import queries
from lego_verl.monitor.behaviour.count import count
from lego_verl.monitor.behaviour.turns import turns_of
from lego_verl.monitor.run_folder import append_line
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run
from lego_verl.monitor.store_rows import rows_of_recording
from lego_verl.monitor.store_text import harmless, one_line
from lego_verl.status.__main__ import main
from lego_verl.status.show import show_status

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x1bP$q\x1b\\\x9b31m \u202egnp.exe \ud800 [bold]not markup[/bold] \r\x08"
)
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_a_run_is_shown_and_indexed_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=4)
    assert main([str(run.path)]) == 0
    out = capsys.readouterr().out
    assert "step 4/9" in out
    assert "not running on this machine" in out
    assert "sandbox_failed 4" in out
    assert run.store.exists()
    append_line(run.metrics, {"step": 5, "seconds": 10.0})
    assert main([str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 5


def test_why_it_ended_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=1)
    (run.path / "error.txt").write_text("LedgerError: step 2: too many \x1b[31mdropped")
    assert main([str(run.path)]) == 0
    assert "! LedgerError: step 2: too many dropped" in capsys.readouterr().out


def test_no_run_a_trial_and_a_broken_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    run = make_run(tmp_path / "run", steps=1)
    assert main([str(run.trial(1, "task0-1-0"))]) == 2
    run.store.write_text("not a database" * 200)
    assert main([str(run.path)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_nothing_hostile_reaches_the_store_or_the_terminal(tmp_path: Path) -> None:
    encodable = HOSTILE.replace("\ud800", "")  # half a pair cannot be tokenized
    run = make_run(tmp_path / "run", steps=1, output=encodable, ending=f"Done {encodable}")
    session = capture(f"echo {encodable}", output=encodable)
    with Store(run.store) as store:
        write_recording(tmp_path / "hostile", session)
        rows = rows_of_recording(read_recording(tmp_path / "hostile"), HOSTILE.encode("utf-8", "replace"))
        made = record("evil", task=f"task {HOSTILE}", error=HOSTILE, signs=[HOSTILE])
        store.finished(1, "train", made, rows)
        store.event("alert", 1, "train", trial="evil", message=HOSTILE)
        store.event("broken", 1, "train", error=HOSTILE)
    index_run(run)
    with queries.read_store(run.store) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f"SELECT * FROM {table}"):
                for value in row:
                    assert not (isinstance(value, str) and OBEYED.search(value)), (table, value)
        plain = io.StringIO()
        show_status(
            db, Console(file=plain, width=200), name=f"run {HOSTILE}", total_steps=3, alive=True, notes=[HOSTILE]
        )
    assert not OBEYED.search(plain.getvalue())
    assert "[bold]not markup[/bold]" in plain.getvalue()


def test_50_megabytes_do_not_stand_in_the_way() -> None:
    big = "ab\x1b[31m <tool_call>\n" * (50 << 16)
    calls = [ToolCall(f"c{number}", "bash", json.dumps({"command": f"cat {big[:2_000_000]}"})) for number in range(2)]
    said = big[:2_000_000]  # more than any policy writes
    replies = [Message("assistant", said, said, tuple(calls)), Message("assistant", said)]
    asked = [Asked(0, (Message("user", big),), None)]
    asked.append(Asked(2, tuple(Message("tool", big, tool_call_id=call.id) for call in calls), None))
    began = time.process_time()
    turns = turns_of(asked, replies, {})
    counts = count(turns, big.encode())
    briefs = [one_line(done.brief) for turn in turns for done in turn.done]
    assert time.process_time() - began < 5
    assert (counts.turns, counts.tool_calls >= 2) == (2, True)
    assert all(len(brief) <= 120 and not OBEYED.search(brief) for brief in briefs)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain\tand\nlines é 漢", "plain\tand\nlines é 漢"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b]52;c;aGk=\x1b\\copied", "copied"),
        ("\x1b]never ended", ""),
        ("a\rb\x00c\x7fd\x9be", "abcde"),
        ("abc\u202egnp", "abcgnp"),
        ("half \ud800 pair", "half ? pair"),
    ],
)
def test_texts_are_harmless(text: str, clean: str) -> None:
    assert harmless(text) == clean


def test_texts_are_cut() -> None:
    assert harmless("x" * 10, 5) == "xxxx…"
    assert harmless("x" * 5, 5) == "xxxxx"
    assert one_line("a\n  b\t c") == "a b c"
    assert len(one_line("\x1b[31m" * 10_000_000 + "end")) <= 120
