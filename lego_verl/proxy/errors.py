"""What a harness is told when it gets no reply. Each dialect writes these in its own shape."""

from __future__ import annotations


class ProxyError(Exception):
    """An answer that is no reply. ``code`` is the machine-readable word for it, where there is one."""

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class BadRequest(ProxyError):
    """A request that is malformed, or asks for what cannot be honoured; ``message`` names it."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(400, message, code=code)


class PromptTooLong(ProxyError):
    """The words and the code on which harnesses compact."""

    def __init__(self, tokens: int | None, limit: int | None, detail: str = "") -> None:
        message = detail or (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )
        super().__init__(400, message, code="context_length_exceeded")


class SessionOver(ProxyError):
    """The session has ended; ``status`` is the one on which its harness stops."""

    def __init__(self, status: int, session: str, reason: str) -> None:
        super().__init__(status, f"session {session} is over: {reason}", code=reason)


class PolicyFailed(ProxyError):
    def __init__(self, message: str) -> None:
        super().__init__(500, message, code="policy_failed")
