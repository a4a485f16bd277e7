"""wandb and tensorboard, through verl's own tracking, read back from what they wrote. Nothing leaves the machine."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trial_table import COLUMNS
from lego_verl.tracking_check import check_loggers
from lego_verl.training_process import TrainingProcess
from lego_verl.workers.tracking import LoudTracking, log_alerts, log_trials, markdown

ROWS = [
    ["bakery-1-0", "bakery", "codex", "solved", 1.0, 4, 120, 8.5, 3, 1, "#/run/r/trial/3/bakery-1-0"],
    ["<script>|x", "task\x1b[31m", "codex", "grader_failed", None, 2, 60, 4.0, None, 0, "#/run/r/trial/3/x"],
]
NEWS = {
    "name": "tool_use", "severity": "critical", "message": "80% of a trial's turns have no tool call",
    "look": "#/run/r/behaviour", "state": "open",
}  # fmt: skip


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which a run was tracked by verl, in the environment that a training process is given."""
    import wandb
    from verl.utils.tracking import Tracking

    folder = tmp_path_factory.mktemp("tracked")
    made = TrainingProcess(RunFolder(folder), use_cpu=True)._environment()
    assert made["WANDB_MODE"] == os.environ.get("WANDB_MODE", "offline")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_DIR", "TENSORBOARD_DIR"):
            patch.setenv(name, made[name])
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        tracking = LoudTracking(Tracking("lego_verl", "r", ["wandb", "tensorboard", "console"], config={"trainer": {}}))
        for step in (1, 2):
            log_trials(tracking.logger, step, ROWS)
            log_alerts(tracking.logger, step, [NEWS] if step == 2 else [])
            numbers = {"lego/solve_rate": step / 4, "actor/entropy": 0.5, "alerts/tool_use": float(step == 2)}
            tracking.log(numbers, step)
        tracking.finish()
        yield folder
        wandb.teardown()


def records(folder: Path) -> list[Any]:
    """What a .wandb file holds: a header of 7 bytes, then LevelDB's log format (blocks of 32 KiB; each record has a
    checksum of 4 bytes, its length in 2, and whether it is whole, a first, a middle or a last part)."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, place, found, parts = path.read_bytes(), 7, [], b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            found.append(record)
            parts = b""
    return found


def test_wandb_has_numbers_tables_and_alerts(tracked: Path) -> None:
    found = records(tracked)
    steps: dict[int, dict[str, Any]] = {}
    for record in found:
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            steps.setdefault(record.history.step.num, {}).update(items)
    assert steps[1]["lego/solve_rate"] == 0.25
    assert steps[2]["lego/solve_rate"] == 0.5
    assert [steps[step]["alerts/tool_use"] for step in (1, 2)] == [0.0, 1.0]
    assert steps[2]["actor/entropy"] == 0.5
    table = steps[1].get("trials") or {"path": steps[1]["trials/path"], "nrows": steps[1]["trials/nrows"]}
    assert table["nrows"] == 2
    (path,) = tracked.glob(f"wandb/offline-run-*/files/{table['path']}")
    read = json.loads(path.read_text())
    assert read["columns"] == list(COLUMNS)
    assert read["data"][0] == ROWS[0]
    assert read["data"][1][1] == "task", "nothing that a terminal obeys"
    (alert,) = [record.alert for record in found if record.WhichOneof("record_type") == "alert"]
    assert (alert.title, alert.level) == ("step 2: tool use", "ERROR")
    assert alert.text == "80% of a trial's turns have no tool call (#/run/r/behaviour)"


def test_tensorboard_has_them_too(tracked: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tracked / "tensorboard"))
    events.Reload()
    assert [(each.step, each.value) for each in events.Scalars("lego/solve_rate")] == [(1, 0.25), (2, 0.5)]
    assert [each.value for each in events.Scalars("alerts/tool_use")] == [0.0, 1.0]
    text = events.Tensors("trials/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| bakery-1-0 | bakery | codex | solved | 1 | 4 |" in text
    assert "\\<script\\>\\|x" in text
    (alert,) = events.Tensors("alerts/text_summary")
    assert "80% of a trial's turns" in alert.tensor_proto.string_val[0].decode()


def test_other_loggers_get_no_table() -> None:
    log_trials({"console": object()}, 1, ROWS)
    log_alerts({"console": object()}, 1, [NEWS])
    log_trials({"wandb": SimpleNamespace(run=None)}, 1, ROWS)


def test_a_table_of_nothing_has_its_head() -> None:
    assert markdown([]).splitlines()[0].startswith("| trial | task |")


def test_a_logger_that_cannot_write_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Full:
        def __init__(self) -> None:
            self.logger = {"file": object()}

        def log(self, **_: Any) -> None:
            raise OSError(28, "No space left on device")

    tracking = LoudTracking(Full())
    tracking.log({"a": 1.0}, 1)
    tracking.log({"a": 1.0}, 2)
    assert capsys.readouterr().err.count("a logger of trainer.logger cannot write") == 1
    assert list(tracking.logger) == ["file"]


def test_a_logger_that_is_not_installed_is_said_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_recipe(["trainer.logger=[console,wandb]"])
    check_loggers(config)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"trainer.logger names wandb, and the package wandb is not installed: pip"):
        check_loggers(config)
