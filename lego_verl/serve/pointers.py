"""How each harness is pointed at a session, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator

_WAYS = (
    ("any OpenAI client", "/chat/completions", "base_url {v1}, any API key, any model name"),
    ("mini-swe-agent", "/chat/completions", "mini -m openai/policy -c mini.yaml -c model.model_kwargs.api_base={v1}"),
    ("SWE-agent", "/chat/completions", "--agent.model.name=openai/policy --agent.model.api_base={v1}"),
    ("OpenHands", "/chat/completions", "LLM_BASE_URL={v1} LLM_MODEL=openai/policy LLM_API_KEY=key"),
    ("OpenCode", "/chat/completions", "opencode.json: @ai-sdk/openai-compatible with baseURL {v1}"),
    ("Claude Code", "/messages", "ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN=key ANTHROPIC_MODEL=policy"),
    ("Codex", "/responses", '[model_providers.lego] base_url="{v1}" wire_api="responses" env_key="KEY"'),
)


def pointers(url: str, paths: Collection[str], session: str = "SESSION") -> Iterator[str]:
    """A line for every harness whose protocol is spoken.

    Args:
        url: the proxy's address.
        paths: of the protocols that it speaks, without ``/v1``.
    """
    base = f"{url}/s/{session}"
    for harness, path, way in _WAYS:
        if path in paths:
            yield f"  {harness:<18} {way.format(base=base, v1=f'{base}/v1')}"
