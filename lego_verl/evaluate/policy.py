"""The policy that is evaluated: an endpoint, or a script in its place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from harness_adapters.adapter import ShellTool
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser, ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.config import ConfigError, PolicyConfig
from lego_verl.policies.endpoint import EndpointPolicy
from lego_verl.policies.policy import ChatPolicy, RequestPolicy
from lego_verl.policies.scripted import read_script
from lego_verl.tasks.task import Task
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.scripts import NAMED, limits_of_script, scripted_policy

_ANSWER_SECONDS = 20.0


class NoPolicy(RuntimeError):
    """Nothing answers where the policy should be; one line."""


@dataclass
class Evaluated:
    """What answers the harnesses."""

    identity: Mapping[str, Any]
    """What makes it this policy and no other, in the words of a recipe."""
    endpoint: EndpointPolicy | None = None
    base_url: str = ""
    script: str | Path = ""
    renderer: Renderer = field(default_factory=byte_renderer)
    parser: ToolParser = field(default_factory=HermesParser)

    def of(self, task: Task, shell: ShellTool) -> RequestPolicy | ChatPolicy:
        """The policy of one trial.

        Raises:
            TaskError: when the script is ``oracle`` and the task has no solution.
        """
        if self.endpoint is not None:
            return self.endpoint
        return scripted_policy(self.script, task, shell, renderer=self.renderer, parser=self.parser)

    def limits(self, limits: TrialLimits) -> TrialLimits:
        """A recipe's limits, as they are for this policy."""
        return limits if self.endpoint is not None else limits_of_script(limits)

    async def check(self) -> None:
        """See that something answers: a server that is not there would end every trial, each after its retries.

        Raises:
            NoPolicy: when nothing does. Whether it knows the model shows itself in the first trial.
        """
        if self.endpoint is None:
            return
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as client, client.get(f"{self.base_url}/models"):
                pass
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or f"no answer within {_ANSWER_SECONDS:g} s"
            raise NoPolicy(f"lego.policy.base_url={self.base_url}: nothing answers there: {why}") from error

    async def close(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.close()


def evaluated(policy: PolicyConfig) -> Evaluated:
    """What a recipe names.

    Raises:
        ConfigError: for a policy that only an engine can run.
        ScriptError: for a script that cannot be used.
    """
    if policy.kind == "endpoint":
        if not policy.base_url or not policy.model:
            raise ConfigError("policy=endpoint needs policy.base_url=http://…/v1 and policy.model=NAME")
        url = policy.base_url.rstrip("/")
        endpoint = EndpointPolicy(url, model=policy.model, api_key=policy.api_key or "")
        return Evaluated({"kind": "endpoint", "model": policy.model}, endpoint=endpoint, base_url=url)
    if policy.kind != "scripted":
        raise ConfigError(
            f"policy={policy.kind} needs an engine: serve the checkpoint and take policy=endpoint, or let verl "
            "evaluate it in one harness: python -m lego_verl.main policy=… trainer.val_only=true"
        )
    script = policy.script or "oracle"
    if script in NAMED:
        return Evaluated({"kind": "scripted", "script": script}, script=script)
    path = Path(script)
    read_script(path)
    content = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return Evaluated({"kind": "scripted", "script": content}, script=path)
