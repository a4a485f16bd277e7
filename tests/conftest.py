"""What all tests share."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take SIGINT as usual: who is started in the background of a script inherits that it is ignored, and so would
    every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
