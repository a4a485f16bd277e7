"""What swebench says of a report of tests. Run as a program of its own: ``python3 -I swebench_judge.py``.

Apart, because the report is text that tested code had a hand in: a pattern that takes quadratic time over it, or a
parser that stumbles, costs this process alone, and its processor time is bounded. And because the package around
swebench's parsers imports docker, datasets and modal (4.6 s); what is needed of it takes 0.06 s, since a bare package
stands in its place while its modules are imported.

Reads a JSON object (``repo, version, parser, eval_type, FAIL_TO_PASS, PASS_TO_PASS, output, exit_code``) from its
standard input, writes one to its standard output (see ``judge``). Ends with ``MISSING`` where swebench is not
installed, ``UNKNOWN`` for a parser that it does not have.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

MISSING, UNKNOWN = 3, 4
CPU_SECONDS = 60
_MEMORY = 4 << 30
_ANY_PARSER = "parse_log_pytest"
_QUALIFIED = re.compile(r"::|\(.+\)$")
_PASSED = ("PASSED", "XFAIL")
_OF_PARSERS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What a parser may raise over odd text."""

Parser = Callable[[str, Any], dict[str, str]]


def judge(asked: dict[str, Any]) -> dict[str, Any]:
    """Ask swebench.

    Returns:
        ``resolved``: all FAIL_TO_PASS pass and all PASS_TO_PASS hold. ``valid``: the report could be read.
        ``reported``: how many tests it names, valid or not. ``FAIL_TO_PASS``, ``PASS_TO_PASS``: ``success`` and
        ``failure``. ``spoken``: lines of the grader's own that the report has. ``overturned``: tests that are reported
        as failed or skipped and, further on, as passed.

    Raises:
        LookupError: for a parser that swebench does not have.
    """
    _import_lightly()
    from swebench.harness import constants, grading
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY
    from swebench.types import TestSpec

    if asked["parser"] and asked["parser"] not in PARSER_REGISTRY:
        raise LookupError(f"swebench has no parser {asked['parser']}; it has {', '.join(sorted(PARSER_REGISTRY))}")
    parser: Parser = PARSER_REGISTRY[asked["parser"] or _ANY_PARSER]
    if not asked["parser"]:
        parser = MAP_REPO_TO_PARSER_PY.get(asked["repo"], parser)
    fail_only = asked["eval_type"] == "fail_only" or (
        not asked["eval_type"] and asked["repo"] in constants.FAIL_ONLY_REPOS
    )
    spec = TestSpec(
        instance_id="task",
        image="",
        eval_script_list=[],
        repo=asked["repo"],
        version=asked["version"],
        FAIL_TO_PASS=asked["FAIL_TO_PASS"],
        PASS_TO_PASS=asked["PASS_TO_PASS"],
        log_parser=next(name for name, each in PARSER_REGISTRY.items() if each is parser),
        eval_type="fail_only" if fail_only else "pass_and_fail",
    )
    # None of these is printed in a sandbox by us: begin, end and exit code of a report are known from outside.
    codes = [value for name, value in vars(constants).items() if isinstance(value, str) and value.startswith(">>>>> ")]
    spoken = sorted({code for code in codes if code in asked["output"]})
    output = asked["output"].replace(">>>>> ", ">>>> ")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", errors="replace") as log:
        print(constants.START_TEST_OUTPUT, output, constants.END_TEST_OUTPUT, sep="\n", file=log)
        print(f"{constants.TEST_EXIT_CODE}: {asked['exit_code']}", file=log, flush=True)
        try:
            said = parser(output, spec)
            statuses, valid = grading.get_logs_eval(spec, log.name)
        except _OF_PARSERS:
            said, statuses, valid = {}, {}, False
    wanted = {key: asked[key] for key in (constants.FAIL_TO_PASS, constants.PASS_TO_PASS)}
    report = grading.get_eval_tests_report(statuses, wanted, eval_type=constants.EvalType(spec.eval_type))
    return {
        "resolved": valid and grading.get_resolution_status(report) == constants.ResolvedStatus.FULL.value,
        "valid": valid,
        "reported": len(said),
        "fail_only": fail_only,
        "spoken": spoken,
        "overturned": _overturned(parser, spec, output, asked, said),
        **{key: report[key] for key in wanted},
    }


def _overturned(parser: Parser, spec: Any, output: str, asked: dict[str, Any], last: dict[str, str]) -> list[str]:
    """Tests that count as passed although a line before says that they did not: the last line wins, in a report.

    Runners say it the other way round (passed, and then an error while it was torn down). Names without a file or a
    class may belong to two tests; of these it counts only where the run as a whole claims success.
    """
    wanted = {
        name
        for name in (*asked["FAIL_TO_PASS"], *asked["PASS_TO_PASS"])
        if last.get(name) in _PASSED and (_QUALIFIED.search(name) or asked["exit_code"] == 0)
    }
    before: set[str] = set()
    overturned: set[str] = set()
    for line in output.split("\n"):
        if not line.strip():
            continue
        try:
            said = parser(line, spec)
        except _OF_PARSERS:
            continue
        for name, status in said.items():
            if name in wanted and status not in _PASSED:
                before.add(name)
            elif name in before and status in _PASSED:
                overturned.add(name)
    return sorted(overturned)


def _import_lightly() -> None:
    """Make ``swebench.harness`` a package whose modules can be imported, without what its own file imports.

    ``ImportError`` where there is no swebench.
    """
    found = find_spec("swebench")
    if found is None or not found.submodule_search_locations:
        raise ImportError("swebench")
    package = types.ModuleType("swebench.harness")
    package.__path__ = [f"{found.submodule_search_locations[0]}/harness"]
    sys.modules["swebench.harness"] = package


def main() -> int:
    """Judge what the standard input holds; return the exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 10))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    asked = json.load(sys.stdin)
    try:
        judged = judge(asked)
    except ImportError as error:
        print(error, file=sys.stderr)
        return MISSING
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return UNKNOWN
    json.dump(judged, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
