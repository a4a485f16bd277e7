"""The model card of a tiny policy: it says just what the thing is."""

from __future__ import annotations

from collections.abc import Sequence

from harness_adapters.adapter import ShellTool, ToolUse
from lego_verl.policies.tiny.actions import ActionSet
from lego_verl.policies.tiny.demonstrator import Habits

_ARCHITECTURE = {
    "dense": "Qwen3 (`Qwen3ForCausalLM`)",
    "moe": "Qwen3-MoE (`Qwen3MoeForCausalLM`, 8 experts, 2 of them a token)",
}


def _cell(text: str) -> str:
    """Text that stays inside one cell of a table."""
    return text.replace("|", "\\|")


def _shown(turn: ToolUse | str, shell: ShellTool) -> str:
    """A command, another call, or a text."""
    if isinstance(turn, str):
        return turn
    return str(turn.arguments.get(shell.argument, turn.name))


def _table(actions: ActionSet) -> str:
    rows = (f"| `{action.name}` | `{_cell(_shown(action.turn, actions.shell))}` |" for action in actions.actions)
    return "\n".join(("| action | command |", "|---|---|", *rows))


def model_card(
    *,
    kind: str,
    seed: int,
    parameters: int,
    vocabulary: int,
    actions: Sequence[ActionSet],
    conversations: int,
    habits: Habits,
) -> str:
    """The card's text. ``actions``: of every harness that it works in."""
    tables = "\n\n".join(f"With the tool `{each.shell.name}`:\n\n{_table(each)}" for each in actions)
    whole = len({token for each in actions for token in each.tokens})
    return f"""---
library_name: transformers
tags: [toy]
---
# A tiny policy

Made on the spot by `lego_verl.policies.tiny`; no weights of any other model are in it. It exists so that the whole
loop of harness, sandbox, proxy and trainer can run, and learn, in minutes on a machine without a GPU. It cannot
program: outside of the toy repositories it is of no use.

- **Architecture**: {_ARCHITECTURE[kind]}, 64 wide, 2 layers, float32, {parameters:,} parameters.
- **Tokenizer**: byte-level BPE trained on the recorded conversations, ChatML, {vocabulary} tokens. The last
  {whole} tokens are whole actions: each decodes to a complete tool call in Hermes form.
- **Warm start**: {conversations} conversations that the real harness had with a scripted demonstrator, and variations
  of them in which names are exchanged. The demonstrator opens the right file {habits.right_file:.0%} of the time and
  picks the right edit {habits.right_edit:.0%} of the time; now and then ({habits.give_up:.0%}) it gives up instead. The
  targets are its probabilities. Seed {seed}.
- **What is left to learn** by reinforcement: which edit belongs to which kind of bug, and not to give up.

{tables}
"""
