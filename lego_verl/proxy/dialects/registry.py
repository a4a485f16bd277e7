"""Which protocol is spoken at which path."""

from __future__ import annotations

from collections.abc import Mapping

from lego_verl.proxy.dialects.chat import ChatCompletions
from lego_verl.proxy.dialects.messages import Messages
from lego_verl.proxy.dialects.responses import Responses
from lego_verl.proxy.exchange import Dialect


def dialects() -> Mapping[str, Dialect]:
    """Every dialect by its path, without ``/v1``. The first of them answers where no path says which."""
    return {
        "/chat/completions": ChatCompletions(),
        "/messages": Messages(),
        "/responses": Responses(),
    }
