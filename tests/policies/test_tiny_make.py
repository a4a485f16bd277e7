"""Making a tiny policy: a folder that loads everywhere, the same from the same seed, and acts in the right form."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness_adapters.adapter import ShellTool
from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.template import ChatTemplate
from lego_verl.policies.tiny.actions import toy_actions
from lego_verl.policies.tiny.conversation import Conversation, as_messages
from lego_verl.policies.tiny.make import Recorded, make_tiny_policy

torch = pytest.importorskip("torch")

from lego_verl.policies.tiny.warm_start import WarmStart, WarmStartError  # noqa: E402

ACTIONS = toy_actions(MiniSweAgent.shell)


def short(steps: int) -> WarmStart:
    """So many steps, whatever has been learned."""
    return WarmStart(batch=4, rising=5, least=steps - steps // 3, settling=steps // 3, enough=math.inf)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["dense", "moe"])
def test_folder_loads_and_acts_in_the_right_form(conversations: list[Conversation], tmp_path: Path, kind: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    made = make_tiny_policy([Recorded(ACTIONS, conversations)], tmp_path, seed=1, kind=kind, settings=short(40))
    assert made.losses[-1] < made.losses[0] / 2

    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert config.model_type == {"dense": "qwen3", "moe": "qwen3_moe"}[kind]
    assert len(tokenizer) == config.vocab_size == model.get_input_embeddings().num_embeddings == made.vocabulary
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert config.head_dim == 32
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == end
    assert "cannot\nprogram" in (tmp_path / "README.md").read_text()

    conversation = conversations[0]
    text = ChatTemplate(CHATML_TEMPLATE).render(
        as_messages(conversation.messages[:2]), list(conversation.tools), generate=True
    )
    prompt = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    with torch.no_grad():
        said = model.generate(prompt, do_sample=False, max_new_tokens=2)[0, prompt.shape[1] :].tolist()
    assert tokenizer.decode(said[:1]) in ACTIONS.tokens
    assert said[1] == end


OTHER_SHELL = ShellTool("run", "cmd", done="Done.")


def in_other_words(conversation: Conversation) -> Conversation:
    """The conversation as a harness with another tool would have had it, which ends with a text."""
    messages = []
    for message in conversation.messages:
        if message["role"] == "assistant":
            action = ACTIONS.of_message(as_messages([message])[0])
            assert action is not None
            turn = toy_actions(OTHER_SHELL).named(action.name).turn
            if isinstance(turn, str):
                message = {"role": "assistant", "content": turn}
            else:
                function = {"name": turn.name, "arguments": json.dumps(dict(turn.arguments))}
                message = {**message, "tool_calls": [{**message["tool_calls"][0], "function": function}]}
        messages.append(message)
    return replace(conversation, messages=messages, tools=[{"type": "function", "function": {"name": "run"}}])


def test_one_policy_speaks_to_each_harness_in_its_own_words(conversations: list[Conversation], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    others = [in_other_words(conversation) for conversation in conversations[:4]]
    recorded = [Recorded(ACTIONS, conversations[:4]), Recorded(toy_actions(OTHER_SHELL), others)]
    make_tiny_policy(recorded, tmp_path, seed=1, settings=short(24))
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)
    for each in recorded:
        conversation = each.conversations[0]
        template = ChatTemplate(CHATML_TEMPLATE)
        text = template.render(as_messages(conversation.messages[:2]), list(conversation.tools), generate=True)
        prompt = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
        with torch.no_grad():
            share = model(prompt).logits[0, -1].softmax(-1)
        own = {tokenizer.convert_tokens_to_ids(token) for token in each.actions.tokens}
        assert len(own) == len(each.actions.actions)
        assert sum(float(share[token]) for token in own) > 0.9
    card = (tmp_path / "README.md").read_text()
    assert "With the tool `bash`" in card
    assert "With the tool `run`" in card


def test_same_seed_same_files(conversations: list[Conversation], tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        make_tiny_policy([Recorded(ACTIONS, conversations[:4])], tmp_path / name, seed=seed, settings=short(3))
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert weights(tmp_path / "a") != weights(tmp_path / "c")
    assert torch.equal(state, torch.random.get_rng_state()), "the caller's random numbers were touched"


def test_a_policy_that_does_not_follow_is_not_written(conversations: list[Conversation], tmp_path: Path) -> None:
    settings = WarmStart(batch=2, least=1, most=3)
    with pytest.raises(WarmStartError, match=r"after 3 steps .* seed 5 does not follow the demonstrator .* run.seed"):
        make_tiny_policy([Recorded(ACTIONS, conversations[:2])], tmp_path / "out", seed=5, settings=settings)
    assert not (tmp_path / "out").exists()


def test_bad_input(conversations: list[Conversation], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        make_tiny_policy([], tmp_path, seed=1)
    with pytest.raises(ValueError, match="dense or moe, not wide"):
        make_tiny_policy([Recorded(ACTIONS, conversations)], tmp_path, seed=1, kind="wide", settings=short(1))
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "rm -rf ."}'}}
    strange = [*conversations[0].messages[:2], {"role": "assistant", "tool_calls": [call]}]
    odd = Conversation(strange, conversations[0].tools, conversations[0].kind, conversations[0].module)
    with pytest.raises(ValueError, match=r"not one whole action.*rm -rf"):
        make_tiny_policy([Recorded(ACTIONS, [*conversations, odd])], tmp_path, seed=1)
    assert not list(tmp_path.iterdir())


def test_lower_floors_stay_light() -> None:
    code = (
        "import sys, lego_verl.policies.tiny.make, lego_verl.policies.tiny.demonstrator, lego_verl.tasks.toy, "
        "lego_verl.tasks.check\nprint(sorted({'torch', 'transformers', 'verl', 'numpy.testing'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
