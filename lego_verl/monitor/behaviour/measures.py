"""What is shown of behaviour: each measure is a ratio of two sums over trials, so that it can be added up in any way.

A ratio of sums weighs every turn (call, file) alike. The mean of the trials' own shares would give a trial of one turn
the weight of one of forty, and have no value for a trial without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["share", "count", "seconds", "tokens"]


@dataclass(frozen=True)
class Measure:
    """One number about how the agent works."""

    name: str
    above: str
    """Column of ``group_sums`` that is summed."""
    below: str
    """Column that it is divided by the sum of; ``observed`` counts trials."""
    unit: Unit
    says: str
    """For a person, with what to think of a change."""


MEASURES = (
    Measure("turns", "turns", "observed", "count", "Turns of a trial."),
    Measure("sampled_tokens", "sampled_tokens", "trials", "tokens", "Tokens that the policy wrote in a trial."),
    Measure("thinking_share", "thinking_characters", "characters", "share",
            "Characters of thinking among all that was written, arguments of tool calls included."),
    Measure("silent_turns", "silent_turns", "turns", "share",
            "Turns without a tool call. A trial may end with one; many mean that the agent writes instead of acting."),
    Measure("calls_a_turn", "tool_calls", "turns", "count", "Tool calls of a turn."),
    Measure("malformed_calls", "malformed_calls", "tool_calls", "share",
            "Tool calls that could not be carried out: no JSON, no such tool, an argument missing, or left as text."),
    Measure("reads", "reads", "observed", "count", "Tool calls of a trial that read files."),
    Measure("searches", "searches", "observed", "count", "Tool calls of a trial that look around."),
    Measure("edits", "edits", "observed", "count", "Tool calls of a trial that change files."),
    Measure("tests", "tests", "observed", "count", "Tool calls of a trial that run tests."),
    Measure("runs", "runs", "observed", "count", "Tool calls of a trial that run something else."),
    Measure("tested", "tested", "observed", "share", "Trials in which tests were run at all."),
    Measure("failed_acts", "failed_acts", "tool_calls", "share", "Tool calls whose tool said that it failed."),
    Measure("read_before_edit", "edited_after_reading", "files_edited", "share",
            "Edited files that were read, or written by the agent itself, before."),
    Measure("checked_after_edit", "edited_and_checked", "files_edited", "share",
            "Edited files that were read, compared, run or tested after their last edit."),
    Measure("files_edited", "files_edited", "observed", "count", "Files that a trial edited."),
    Measure("repeated_commands", "repeated_commands", "tool_calls", "share",
            "Tool calls that ask again for what was asked before, with no edit in between."),
    Measure("looped", "looped", "observed", "share", "Trials with a loop: one to four turns three times in a row."),
    Measure("patch_lines", "patch_lines", "observed", "count", "Lines that a trial's patch adds and removes."),
    Measure("tool_seconds", "harness_seconds", "trials", "seconds", "Time in tools and harness, a trial."),
    Measure("generation_seconds", "generation_seconds", "trials", "seconds", "Time in generation, a trial."),
)  # fmt: skip

BY_NAME = {measure.name: measure for measure in MEASURES}
