"""A run to make reports of: some steps, alerts, and one hostile trial."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

from monitor_run import capture, make_run, record

from lego_verl.capture.record import write_recording
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run
from lego_verl.trial.outcome import Outcome

SECRET = "sk-abcdefghijklmnopqrstuvwx0123"
SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31m"
TURNED = "\u202egnp.exe\u202c"
HOSTILE = f"{SCRIPT} {ESCAPES} {TURNED} </pre></details></main> javascript:alert(1) {{{{ 7 * 7 }}}} {{% raise %}}"


def report_run(folder: Path, *, hostile: bool = True) -> RunFolder:
    """Four steps of 2 tasks x 3 trials."""
    run = make_run(folder, steps=4, members=3)
    run.versions.write_text(json.dumps({"python": "3.11", "evil": HOSTILE if hostile else "none"}))
    recipe = {"lego": {"run": {"name": folder.name}, "policy": {"api_key": SECRET}, "trial": {"min_group": 2}}}
    run.recipe.write_text(json.dumps({**recipe, "trainer": {"total_training_steps": 9, "note": f"token {SECRET}"}}))
    if hostile:
        _hostile(run)
    index_run(run)
    with Store(run.store) as store:
        news = {"name": "tool_use", "severity": "critical", "look": "#/run/r/behaviour", "state": "open"}
        store.event("alert", 3, "train", message=f"90% of the turns have no tool call {HOSTILE}", **news)
    return run


def _hostile(run: RunFolder) -> None:
    """The longest trial of all, so that a rule chooses it."""
    lines = [f"echo '{HOSTILE}' {number}" for number in range(3)]
    session = capture("cat big", *lines, *(["ls"] * 40), output=HOSTILE, ending=f"Done. API_KEY={SECRET} {HOSTILE}")
    name, folder = "evil-4-9", run.trial(4, "evil-4-9")
    write_recording(folder, session)
    with (folder / "calls.jsonl").open("a") as file:
        file.write("")
    (folder / "patch.diff").write_bytes(b"diff --git a/x b/x\n+" + HOSTILE.encode() + b"\n+\xff\xfe\x80 not utf-8\n")
    (folder / "grading.log").write_bytes(b"\xff\xfe" + HOSTILE.encode() + b"x" * (50 << 20))
    proof = session.proof()
    made = record(name, Outcome.UNSOLVED, task=f"task {HOSTILE}", group="4-0", error=HOSTILE, signs=[HOSTILE])
    made |= {"calls": proof.calls, "sampled_tokens": proof.sampled_tokens, "proof": proof.as_dict()}
    (folder / "trial.json").write_text(json.dumps(made))
    about = {"step": 4, "split": "train", "trial": name}
    append_line(run.events, {"t": 1.0, "event": "started", **about, "task": made["task"], "attempt": 1})
    kept = {key: made[key] for key in ("task", "harness", "outcome", "reward", "error", "seconds", "sampled_tokens")}
    append_line(run.events, {"t": 2.0, "event": "finished", **about, **kept})
