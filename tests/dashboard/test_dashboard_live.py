"""What an open page is told, how stores are made meanwhile, and the demonstration run."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_server import Served, wait_until
from monitor_run import make_run, record, rows

from lego_verl.dashboard.demo import NoDemo, demo_run
from lego_verl.dashboard.indexing import Indexer
from lego_verl.dashboard.live import Alive, Watch
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run


def messages(stream: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in stream:
        text = line.decode().strip()
        if text.startswith("event: "):
            kind = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield kind, json.loads(text.removeprefix("data: "))


def test_a_page_is_told_of_every_change(tmp_path: Path) -> None:
    run = make_run(tmp_path / "live", steps=2)
    index_run(run)
    with (
        Served([run.path]) as server,
        urllib.request.urlopen(f"{server.url}/api/runs/live/stream", timeout=10) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = messages(stream)
        kind, first = next(told)
        assert kind == "change"
        assert (first["step"], first["running"]) == (2, 0)
        while first["store"]["state"] != "ready":
            _, first = next(told)
        with Store(run.store) as store:
            store.started(3, "train", "new", "task0", 1)
        kind, second = next(told)
        assert (kind, second["running"]) == ("change", 1)
        append_line(run.metrics, {"step": 3, "seconds": 9.0, "solve_rate": 1.0})  # as the trainer does
        while (message := next(told))[1]["step"] != 3:
            assert message[0] in ("change", "beat")


def test_nothing_new_is_no_change(tmp_path: Path) -> None:
    run = make_run(tmp_path / "quiet", steps=1)
    index_run(run)
    indexer = Indexer()
    indexer.want(RunFolder(run.path.resolve()))
    watch = Watch(RunFolder(run.path.resolve()), indexer, Alive())
    wait_until(lambda: watch.look()[1]["store"]["state"] == "ready")
    watch.look()
    assert watch.look()[0] is False
    with Store(run.store) as store:
        store.finished(1, "train", record("more"), rows())
    assert watch.look()[0] is True
    assert watch.look()[0] is False
    watch.close()


def test_a_run_without_a_store_gets_one_in_the_background(tmp_path: Path) -> None:
    run = RunFolder(make_run(tmp_path / "old", steps=2).path.resolve())
    indexer = Indexer()
    progress = indexer.want(run)
    assert indexer.want(run) is progress
    wait_until(lambda: progress.state == "ready")
    assert (progress.done, progress.of) == (8, 8)
    with Store(run.store) as store:
        assert store.connection.execute("SELECT count(*) FROM trials").fetchone()[0] == 8


def test_a_store_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    run = RunFolder(make_run(tmp_path / "odd", steps=1).path.resolve())
    run.store.write_bytes(b"this is no database" * 100)
    indexer = Indexer()
    progress = indexer.want(run)
    wait_until(lambda: progress.state == "failed")
    assert "odd" in progress.error
    after = RunFolder(make_run(tmp_path / "after", steps=1).path.resolve())
    wait_until(lambda: indexer.want(after).state == "ready")


def test_the_demonstration_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "demonstration", steps=1)
    packed = tmp_path / "demo.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(run.path, arcname="demonstration")
    with demo_run(packed) as folder:
        assert RunFolder(folder).trials.is_dir()
    assert not folder.exists()
    with pytest.raises(NoDemo, match="is missing"), demo_run(tmp_path / "none.tar.xz"):
        pass


def test_the_command_serves_and_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "served", steps=1)
    command = [sys.executable, "-m", "lego_verl.dashboard", str(run.path), "--no-browser", "--token", "a-token-of-mine"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("dashboard: http://127.0.0.1:")
        url = line.removeprefix("dashboard: ").strip()
        assert "?token=a-token-of-mine#/run/served/overview" in url
        with urllib.request.urlopen(url.partition("#")[0], timeout=20) as answer:
            assert answer.status == 200
        base = url.partition("?")[0]
        with urllib.request.urlopen(f"{base}api/runs/served/stream?token=a-token-of-mine", timeout=20) as stream:
            assert next(messages(stream))[0] == "change"
            began = time.monotonic()
            process.send_signal(2)  # with a page that is open
            said = process.communicate(timeout=20)[0]
        assert time.monotonic() - began < 10
        assert process.returncode == 0
        assert said.count("\n") <= 1, said  # how to reach it over ssh; no log of requests, no traceback
    finally:
        process.kill()
