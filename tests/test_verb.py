"""How a verb ends: what a person can do something about is one line and a code, and nothing else is hidden."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from lego_verl.config import ConfigError
from lego_verl.monitor.store import StoreError
from lego_verl.verb import ended
from sandbox.sandbox import SandboxError

CODES: dict[type[Exception], int] = {ConfigError: 2, StoreError: 1, SandboxError: 3, sqlite3.Error: 1, OSError: 4}


def failing(error: BaseException) -> Callable[[], int]:
    def act() -> int:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("data.n=0: at least 1"), 2, "lego_verl: data.n=0: at least 1"),
        (SandboxError("no daemon"), 3, "lego_verl: no daemon"),
        (OSError(28, "No space left on device", "/x/y"), 4, "lego_verl: No space left on device: /x/y"),
        (PermissionError(13, "Permission denied"), 4, "lego_verl: Permission denied"),
        (OSError("port 80 to 81: taken"), 4, "lego_verl: port 80 to 81: taken"),
        (sqlite3.OperationalError("disk I/O error"), 1, "lego_verl: the run's store cannot be used: disk I/O error"),
        (KeyboardInterrupt(), 130, "interrupted; nothing of it is running any more"),
    ],
)
def test_one_line_and_a_code(error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(failing(error), CODES) == code
    assert capsys.readouterr() == ("", said + "\n")


def test_what_it_did_and_what_it_says_of_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(lambda: 7, CODES) == 7
    assert ended(failing(KeyboardInterrupt()), {}, interrupted="run it again") == 130
    assert capsys.readouterr().err == "run it again\n"


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        ended(lambda: 1 // 0, CODES)
