"""What the README tells people to type is what continuous integration types."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
TEST_COMMAND = 'pip install -e ".[cpu,test]" && pytest'


def test_ci_runs_the_readmes_test_command() -> None:
    assert f"```\n{TEST_COMMAND}\n```" in (ROOT / "README.md").read_text()
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_readme_has_the_main_command() -> None:
    assert 'pip install -e ".[cpu]" && python -m lego_verl.main' in (ROOT / "README.md").read_text().splitlines()
