"""A wait that ends: every wait of a trial has a deadline, and one that passes says what was waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def deadline(seconds: float | None, what: str, error: Callable[[str], Exception]) -> AsyncIterator[None]:
    """Give what is inside ``seconds``; None sets no limit.

    Raises:
        error: made of one line that names ``what``. A ``TimeoutError`` of the inside's own passes as it is.
    """
    try:
        async with asyncio.timeout(seconds) as clock:
            yield
    except TimeoutError as expired:
        if not clock.expired():
            raise
        raise error(f"waited {seconds:g} s for {what}") from expired
