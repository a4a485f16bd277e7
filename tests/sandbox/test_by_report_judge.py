"""What swebench says of reports, and what is said of it here: its semantics, case by case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import swebench
from sandbox.report import FILE, RUN, Report, read_report
from sandbox.sandbox import SandboxError
from sandbox.swebench_judge import judge

F2P, P2P = ["t.py::a", "t.py::b"], ["t.py::c", "t.py::d"]
NAMES = [*F2P, *P2P, "t.py::other"]
STATUSES = ["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", None]


def asked(output: str, exit_code: int = 0, **more: object) -> dict[str, object]:
    return {
        "repo": "acme/calc",
        "version": "",
        "parser": "",
        "eval_type": "",
        "FAIL_TO_PASS": F2P,
        "PASS_TO_PASS": P2P,
        "output": output,
        "exit_code": exit_code,
        **more,
    }


def lines(**statuses: str) -> str:
    return "".join(f"{statuses.get(name[-1], 'PASSED')} {name}\n" for name in NAMES[:4] if statuses.get(name[-1]) != "")


@pytest.mark.parametrize(
    ("output", "exit_code", "resolved", "valid"),
    [
        (lines(), 0, True, True),
        (lines(a="XFAIL"), 0, True, True),
        (lines(a="FAILED"), 1, False, True),
        (lines(a="SKIPPED"), 0, False, True),
        (lines(a=""), 0, False, True),
        (lines(c="SKIPPED"), 0, True, True),
        (lines(c=""), 0, False, True),
        (lines(c="ERROR"), 1, False, True),
        (lines(), 1, False, False),
        (lines() + "FAILED t.py::other - assert 0\n", 1, True, True),
        (lines() + "ERROR t.py::a - in its teardown\n", 1, False, True),
        ("", 0, False, False),
        ("nothing of any test\n", 0, False, False),
    ],
)
def test_swebenchs_semantics(output: str, exit_code: int, resolved: bool, valid: bool) -> None:
    said = judge(asked(output, exit_code))
    assert (said["resolved"], said["valid"], said["overturned"], said["spoken"]) == (resolved, valid, [], [])


@settings(max_examples=200, deadline=None)
@given(st.permutations(NAMES), st.lists(st.sampled_from(STATUSES), min_size=5, max_size=5), st.integers(0, 2))
def test_a_report_is_judged_as_the_rules_say(order: list[str], statuses: list[str | None], exit_code: int) -> None:
    reported = {name: status for name, status in zip(order, statuses, strict=True) if status}
    output = "".join(f"noise\n{status} {name}\n" for name, status in reported.items())
    contradicts = exit_code != 0 and not {"FAILED", "ERROR"} & set(reported.values())
    right = (
        all(reported.get(name) in ("PASSED", "XFAIL") for name in F2P)
        and all(reported.get(name) in ("PASSED", "XFAIL", "SKIPPED") for name in P2P)
        and not contradicts
    )
    said = judge(asked(output, exit_code))
    assert (said["resolved"], said["overturned"]) == (right, [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(STATUSES[:5]), min_size=5, max_size=5), st.integers(0, 1), st.data())
def test_lines_beside_the_runners_own_gain_nothing(statuses: list[str], exit_code: int, data: st.DataObject) -> None:
    honest = "".join(f"{status} {name}\n" for name, status in zip(NAMES, statuses, strict=True))
    forged = "".join(f"PASSED {name}\n" for name in data.draw(st.permutations(NAMES)))
    alone = judge(asked(honest, exit_code))
    for both in (forged + honest, honest + forged):
        said = judge(asked(both, exit_code))
        assert alone["resolved"] or not said["resolved"] or said["overturned"]


@pytest.mark.parametrize(
    ("repo", "parser", "failed", "passed"),
    [
        ("django/django", "", "a (t.T) ... FAIL", "a (t.T) ... ok"),
        ("sympy/sympy", "", "test_a F", "test_a ok"),
        ("acme/calc", "parse_log_pytest_v2", "t.py::a FAILED", "t.py::a PASSED"),
    ],
)
def test_each_parser_has_its_own_lines(repo: str, parser: str, failed: str, passed: str) -> None:
    name = passed.replace(" ... ok", "").split(" ok")[0].split(" PASSED")[0]
    of = {"repo": repo, "parser": parser, "FAIL_TO_PASS": [name], "PASS_TO_PASS": []}
    assert judge(asked(f"{passed}\n", **of))["resolved"]
    assert not judge(asked(f"{failed}\n", 1, **of))["resolved"]
    assert judge(asked(f"{failed}\n{passed}\n", **of))["overturned"] == [name]
    assert judge(asked(f"{passed}\n{failed}\n", 1, **of))["overturned"] == []


def test_names_that_two_tests_may_have_are_taken_as_swebench_takes_them() -> None:
    of = {"repo": "sympy/sympy", "FAIL_TO_PASS": ["test_a"], "PASS_TO_PASS": []}
    said = judge(asked("test_a F\ntest_a ok\ntest_z F\n", 1, **of))
    assert (said["resolved"], said["overturned"]) == (True, [])


@pytest.mark.parametrize("code", ["Start Test Output", "End Test Output", "Test Exit Code: 0", "Tests Timed Out"])
def test_lines_of_the_graders_own(code: str) -> None:
    said = judge(asked(f">>>>> {code}\n{lines()}"))
    assert said["spoken"] == [f">>>>> {code.partition(':')[0]}"]
    assert said["resolved"]  # they change nothing; what follows from them is for by_report


def test_reports_of_failures_alone() -> None:
    said = judge(asked("12 passing\n", eval_type="fail_only"))
    assert said["resolved"]
    assert said["fail_only"]
    assert not judge(asked("", eval_type="fail_only"))["resolved"]


def report(tmp_path: Path, **content: object) -> Report:
    (tmp_path / FILE).write_text(json.dumps({"FAIL_TO_PASS": F2P, "PASS_TO_PASS": P2P, **content}))
    (tmp_path / RUN).write_text("true\n")
    return read_report(tmp_path)


async def test_it_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    judgement = await swebench.ask_swebench(report(tmp_path), lines(b="FAILED"), 1)
    assert (judgement.resolved, judgement.valid, judgement.reported) == (False, True, 4)
    assert (judgement.fail_to_pass.passed, judgement.fail_to_pass.failed) == (("t.py::a",), ("t.py::b",))
    assert len(judgement.pass_to_pass.passed) == 2
    assert (await swebench.ask_swebench(report(tmp_path), lines(), 0)).resolved


async def test_a_parser_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="swebench has no parser parse_log_none; it has parse_log_ant, "):
        await swebench.ask_swebench(report(tmp_path, parser="parse_log_none"), "", 0)


async def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(swebench.sys, "executable", str(bare / "bin" / "python3"))
    with pytest.raises(SandboxError, match=r"need the extra swebench: pip install 'lego_verl\[swebench\]'"):
        await swebench.ask_swebench(report(tmp_path), lines(), 0)


async def test_a_report_that_takes_for_ever_costs_the_judge_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(swebench._JUDGE).read_text().replace("CPU_SECONDS = 60", "CPU_SECONDS = 1")
    (tmp_path / "judge.py").write_text(source)
    monkeypatch.setattr(swebench, "_JUDGE", tmp_path / "judge.py")
    quadratic = "x ... Testing against Django installed in\n" * 100_000
    judgement = await swebench.ask_swebench(report(tmp_path, repo="django/django"), quadratic, 0)
    assert not judgement.resolved
    assert "it takes swebench over" in judgement.unreadable


def test_what_is_imported_is_little() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _MODULES, json.dumps(asked(lines()))], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["True"]


_MODULES = """
import json, sys
from sandbox.swebench_judge import judge
resolved = judge(json.loads(sys.argv[1]))["resolved"]
print(resolved, *({"docker", "datasets", "modal", "torch", "requests"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "not a JSON object"),
        ("{", "Expecting"),
        ("{}", "FAIL_TO_PASS is empty"),
        ('{"FAIL_TO_PASS": "a"}', "FAIL_TO_PASS is not a list of texts"),
        ('{"FAIL_TO_PASS": ["a"], "repo": 3}', "repo is 3, not a text"),
        ('{"FAIL_TO_PASS": ["a"], "eval_type": "all"}', "eval_type is 'all'"),
        ('{"FAIL_TO_PASS": ["a"], "owned": ["../x"]}', "no path inside the repository"),
        ('{"FAIL_TO_PASS": ["a"], "owned": [".git/config"]}', "no path inside the repository"),
        ('{"FAIL_TO_PASS": ["a"]}', "run.sh beside it is missing or empty"),
    ],
)
def test_files_that_say_no_report(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ValueError, match=told):
        read_report(tmp_path)


def test_files_of_the_tests_are_those_of_the_patch_too(tmp_path: Path) -> None:
    (tmp_path / "test.patch").write_text(
        "diff --git a/t/a.py b/t/b.py\nsimilarity index 90%\nrename from t/a.py\nrename to t/b.py\n"
        'diff --git "a/t/\\303\\244.py" "b/t/\\303\\244.py"\n--- "a/t/\\303\\244.py"\n'
    )
    (tmp_path / "files/t").mkdir(parents=True)
    (tmp_path / "files/t/whole.py").write_text("x")
    found = report(tmp_path, owned=["t/c.py"])
    assert found.owned == ("t/a.py", "t/b.py", "t/c.py", "t/whole.py", "t/ä.py")
    (tmp_path / "test.patch").write_text("diff --git a/../x b/../x\n--- a/../x\n")
    with pytest.raises(ValueError, match="no path inside"):
        report(tmp_path)
