"""What stands behind a proxy that runs by itself: a script, an endpoint or a recording, from a recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import ParserMismatch, ToolParser, check_parser
from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.capture.render import TemplateRenderer
from lego_verl.config import CaptureConfig, ConfigError, LegoConfig, PolicyConfig
from lego_verl.policies.endpoint import EndpointPolicy
from lego_verl.policies.policy import ChatPolicy, RequestPolicy
from lego_verl.policies.replay import ReplayPolicy, RequestDifference
from lego_verl.policies.scripted import ScriptedPolicy, ScriptError
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.session import Session
from lego_verl.replay.renderer import RendererError, renderer_of, renderer_of_files
from lego_verl.trial.from_recipe import tool_parser, untrained_splits
from lego_verl.trial.scripts import nop_script

KINDS = ("scripted", "endpoint", "replay")


@dataclass(frozen=True)
class Behind:
    """A policy and what captures it. One serves every session."""

    policy: RequestPolicy | ChatPolicy
    renderer: TemplateRenderer | None = None
    """None, as the parser, for an endpoint: nothing of it is captured."""
    parser: ToolParser | None = None

    def session(self, name: str, *, budget: Budget | None = None, capture: CaptureConfig | None = None) -> Session:
        capture = capture or CaptureConfig()
        return Session(
            name,
            self.policy,
            renderer=self.renderer,
            parser=self.parser,
            budget=budget,
            reasoning=capture.reasoning.value,
            untrained=untrained_splits(LegoConfig(capture=capture)),
        )

    async def close(self) -> None:
        if isinstance(self.policy, EndpointPolicy):
            await self.policy.close()


def behind(policy: PolicyConfig, *, told: Callable[[str, RequestDifference], None] | None = None) -> Behind:
    """Make what a recipe's policy says.

    Args:
        told: of a replay: gets every difference between a request and the recorded one, with its session.

    Raises:
        ConfigError: in one line that says what to change.
    """
    if policy.kind == "endpoint":
        if not policy.base_url or not policy.model:
            raise ConfigError("policy=endpoint needs policy.base_url=http://…/v1 and policy.model=NAME")
        return Behind(EndpointPolicy(policy.base_url, model=policy.model, api_key=policy.api_key or ""))
    if policy.kind not in KINDS:
        raise ConfigError(f"policy={policy.kind} cannot answer without verl; it can be {', '.join(KINDS)}")
    try:
        given = _given_renderer(policy)
        return _scripted(policy, given) if policy.kind == "scripted" else _replay(policy, given, told)
    except (RendererError, RecordingError, ScriptError, ParserMismatch) as error:
        raise ConfigError(str(error)) from error


def _given_renderer(policy: PolicyConfig) -> TemplateRenderer | None:
    if policy.tokenizer is None:
        if policy.template is not None:
            raise ConfigError("policy.template needs policy.tokenizer=FILE, the tokenizer.json that belongs to it")
        return None
    return renderer_of_files(Path(policy.tokenizer), Path(policy.template) if policy.template else None)


def _scripted(policy: PolicyConfig, given: TemplateRenderer | None) -> Behind:
    if policy.script is None:
        raise ConfigError("policy=scripted needs policy.script=FILE, a JSON-lines file of replies")
    if policy.script == "oracle":
        raise ConfigError("policy.script=oracle solves the task of a trial, and here is none; give a file of replies")
    renderer, parser = given or byte_renderer(), tool_parser(policy.tool_parser)
    check_parser(renderer.template, parser)
    script = nop_script(MiniSweAgent.shell) if policy.script == "nop" else Path(policy.script)
    return Behind(
        ScriptedPolicy(script, renderer=renderer, parser=parser, repeat=policy.repeat.value), renderer, parser
    )


def _replay(
    policy: PolicyConfig, given: TemplateRenderer | None, told: Callable[[str, RequestDifference], None] | None
) -> Behind:
    if policy.recording is None:
        raise ConfigError("policy=replay needs policy.recording=FOLDER, a trial's")
    folder = Path(policy.recording)
    recording = read_recording(folder)
    renderer = renderer_of(recording, folder, given)
    if renderer is None:
        raise ConfigError(
            f"{folder}: the tokenizer and chat template that it was made with are not known here; "
            "give policy.tokenizer=tokenizer.json and policy.template=chat_template.jinja"
        )
    parser = tool_parser(str(recording.made_with.get("parser", policy.tool_parser)))
    return Behind(ReplayPolicy(recording, told=told), renderer, parser)
