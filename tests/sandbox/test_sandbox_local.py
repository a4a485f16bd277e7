"""Commands and files: the contract of a sandbox, on the local backend."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from sandbox_helpers import PATIENCE, Start, busy, output

from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import Image, ImageMissing, Limits, Mount, SandboxError, SandboxLost, SandboxSpec


async def test_a_command_and_its_ending(sandbox: LocalSandbox) -> None:
    done = await sandbox.exec(["bash", "-c", "cat; echo err >&2; exit 3"], deadline=10, stdin=b"in\n")
    assert (done.exit_code, done.output) == (3, b"in\nerr\n")
    assert not done.timed_out
    assert not done.out_of_memory
    assert done.dropped_bytes == 0
    assert 0 < done.seconds < 10


async def test_a_signal_is_told_as_a_shell_tells_it(sandbox: LocalSandbox) -> None:
    assert (await sandbox.exec(["bash", "-c", "kill -TERM $$"], deadline=10)).exit_code == 128 + signal.SIGTERM


async def test_what_cannot_be_run_is_a_result_not_an_error(sandbox: LocalSandbox) -> None:
    missing = await sandbox.exec(["no-such-program"], deadline=10)
    assert missing.exit_code == 127
    assert b"no-such-program" in missing.output
    nowhere = await sandbox.exec(["true"], deadline=10, cwd="/nowhere")
    assert nowhere.exit_code == 127
    assert b"/nowhere" in nowhere.output
    await sandbox.put({"/tmp/data": b"text"})
    assert (await sandbox.exec(["/tmp/data"], deadline=10)).exit_code == 126


async def test_working_folder_and_environment(start: Start) -> None:
    sandbox = await start(Image(workdir="/some/where"))
    done = await sandbox.exec(["bash", "-c", "pwd; env -u _ -u SHLVL -u PWD | sort"], deadline=10, env={"A": "b c"})
    lines = done.output.decode().splitlines()
    assert lines[:3] == ["/some/where", "A=b c", "HOME=/home/agent"]
    assert [line.partition("=")[0] for line in lines[1:]] == ["A", "HOME", "LANG", "PATH"]
    assert (await sandbox.exec(["pwd"], deadline=10, cwd="/tmp")).output == b"/tmp\n"


async def test_the_tools_are_there_and_signals_are_as_usual(sandbox: LocalSandbox) -> None:
    assert await output(sandbox, "python3 -c 'print(6 * 7)'") == "42"
    assert "git version" in await output(sandbox, "git --version")
    assert (
        await output(sandbox, "whoami; id -u; echo $HOME; touch ~/x /tmp/x && echo ok")
        == "agent\n1000\n/home/agent\nok"
    )
    ignored = await output(sandbox, "grep SigIgn /proc/self/status")
    assert ignored.split()[1] == "0" * 16
    assert await output(sandbox, "yes | head -1; echo ${PIPESTATUS[0]}") == "y\n141"


async def test_signals_are_as_usual_however_the_run_was_started(start: Start) -> None:
    """Under nohup, in the background of a script, or by a process that blocks some."""
    ignored = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGRTMIN]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    try:
        sandbox = await start()
        status = await output(sandbox, "cat /proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
    masks = dict(re.findall(r"^(Sig(?:Ign|Blk)):\s*([0-9a-f]+)$", status, re.MULTILINE))
    assert masks == {"SigIgn": "0" * 16, "SigBlk": "0" * 16}


async def test_a_pseudo_terminal_can_be_opened(sandbox: LocalSandbox) -> None:
    assert await output(sandbox, "python3 -c 'import pty; pty.spawn([\"tty\"])'") == "/dev/pts/0"


async def test_large_input_and_output_pass_unharmed(start: Start) -> None:
    sandbox = await start(limits=Limits(output_bytes=32 << 20))
    data = os.urandom(16 << 20)
    assert (await sandbox.exec(["cat"], deadline=30, stdin=data)).output == data


async def test_input_that_is_not_read_does_no_harm(sandbox: LocalSandbox) -> None:
    assert (await sandbox.exec(["true"], deadline=10, stdin=b"x" * (4 << 20))).exit_code == 0


async def test_files_in_and_out(sandbox: LocalSandbox) -> None:
    files = {"/new/folder/a": b"", "/testbed/b": bytes(range(256)) * 20_000, "/tmp/c d\n": b"x"}
    await sandbox.put(files)
    assert {path: await sandbox.get(path) for path in files} == files
    await sandbox.put({"/tmp/run": b"#!/bin/sh\necho ran\n"}, executable=True)
    assert (await sandbox.exec(["/tmp/run"], deadline=10)).output == b"ran\n"
    assert await output(sandbox, "stat -c '%a %U' /testbed/b /tmp/run") == "644 agent\n755 agent"


async def test_files_that_cannot_be_had(sandbox: LocalSandbox) -> None:
    with pytest.raises(FileNotFoundError):
        await sandbox.get("/nothing")
    with pytest.raises(FileNotFoundError):
        await sandbox.get("/etc/passwd/x")
    with pytest.raises(SandboxError, match="folder"):
        await sandbox.get("/tmp")
    await sandbox.put({"/tmp/big": b"x" * 1000})
    with pytest.raises(SandboxError, match=r"1000 bytes, over the limit of 999"):
        await sandbox.get("/tmp/big", limit=999)
    with pytest.raises(SandboxError, match=r"/usr/x could not be written: Read-only"):
        await sandbox.put({"/usr/x": b""})
    with pytest.raises(ValueError, match="absolute"):
        await sandbox.put({"x": b""})


async def test_a_planted_path_does_not_catch_the_keeper(sandbox: LocalSandbox) -> None:
    await output(sandbox, "mkfifo /tmp/pipe")
    for target in ("/proc/self/mem", "/proc/1/environ", "/proc/self/fd/0", "/dev/zero", "/tmp/pipe"):
        await output(sandbox, f"ln -sf {target} /tmp/planted")
        with pytest.raises(SandboxError):
            await sandbox.get("/tmp/planted")
        await sandbox.put({"/tmp/planted": b"mine"})  # replaces the link, does not follow it
        assert await sandbox.get("/tmp/planted") == b"mine"


_UNTIL_GO = "while [ ! -e /tmp/go ]; do sleep 0.01; done"


async def test_requests_do_not_wait_for_a_running_command(sandbox: LocalSandbox) -> None:
    running = asyncio.create_task(sandbox.exec(["bash", "-c", _UNTIL_GO], deadline=60))
    await sandbox.put({"/tmp/seen": b"1"})
    assert await sandbox.get("/tmp/seen") == b"1"
    assert not await sandbox.disk_full()
    assert not running.done()
    await sandbox.put({"/tmp/go": b""})
    assert (await running).exit_code == 0


async def test_commands_take_turns(sandbox: LocalSandbox) -> None:
    """Each ends what it leaves running, so two at once would end each other."""
    script = "echo b >>/tmp/log; sleep 0.05; cat >>/tmp/log; echo e >>/tmp/log"
    done = await asyncio.gather(
        *(sandbox.exec(["bash", "-c", script], deadline=30, stdin=b"%d\n" % n) for n in range(5))
    )
    assert [result.exit_code for result in done] == [0] * 5
    assert (await sandbox.get("/tmp/log")).decode().split() == [x for n in range(5) for x in ("b", str(n), "e")]


async def test_waiting_for_a_turn_is_not_held_against_a_command(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time counts from when it is asked for, and that is when the one before it has ended."""
    asked: list[object] = []
    request = sandbox._request

    async def noted(header, *rest):  # type: ignore[no-untyped-def]
        asked.append(header.get("command"))
        return await request(header, *rest)

    monkeypatch.setattr(sandbox, "_request", noted)
    first = asyncio.create_task(sandbox.exec(["bash", "-c", _UNTIL_GO], deadline=60))
    while not asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(sandbox.exec(["true"], deadline=30))
    await sandbox.put({"/tmp/seen": b""})
    assert ["true"] not in asked
    await sandbox.put({"/tmp/go": b""})
    assert (await first).exit_code == (await second).exit_code == 0


async def test_a_trainer_that_stood_still_does_not_take_the_keeper_for_dead(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.kept.GRACE_SECONDS", 0.2)
    assert sandbox._channel is not None
    channel = sandbox._channel._writer.transport.get_extra_info("socket")
    running = asyncio.create_task(sandbox.exec(["echo", "done"], deadline=0.5))
    while len(sandbox._channel._pending) == 1:  # until it is asked for
        await asyncio.sleep(0)
    time.sleep(1)  # the event loop is held up past all that was allowed,
    answered = select.poll()
    answered.register(channel.fileno(), select.POLLIN)
    assert answered.poll(60_000)  # and the answer is there meanwhile
    assert (await running).output == b"done\n"


async def test_a_cancelled_command_is_ended_and_the_sandbox_goes_on(sandbox: LocalSandbox) -> None:
    script = "trap '' TERM; setsid sleep 1000 & touch /tmp/runs; sleep 1000"
    running = await busy(sandbox, script)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await output(sandbox, "pgrep -c sleep") == "0"


async def test_closing(backend: LocalBackend) -> None:
    sandbox = await backend.start(SandboxSpec("run", "trial-7", Image()))
    running = await busy(sandbox)
    await asyncio.gather(sandbox.close(), sandbox.close())
    await sandbox.close()
    with pytest.raises(SandboxLost):
        await running
    for use in (sandbox.exec(["true"], deadline=1), sandbox.get("/x"), sandbox.put({"/x": b""}), sandbox.disk_full()):
        with pytest.raises(SandboxLost, match=r"trial-7 is closed"):
            await use


async def test_a_sandbox_killed_from_outside_is_lost(sandbox: LocalSandbox) -> None:
    running = await busy(sandbox)
    assert sandbox._process is not None
    os.kill(sandbox._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxLost, match=r"sandbox of trial trial is gone: it was killed from outside"):
        await running
    with pytest.raises(SandboxLost):
        await sandbox.get("/x")


async def test_a_keeper_that_does_not_answer_is_given_up(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.kept.GRACE_SECONDS", 0.5)
    assert sandbox._process is not None
    keeper = psutil.Process(sandbox._process.pid).children()[0]
    keeper.suspend()
    with pytest.raises(SandboxLost, match=r"did not answer: the command 'true' was to end within 0.2 s"):
        await sandbox.exec(["true"], deadline=0.2)
    await sandbox.close()
    keeper.wait(PATIENCE)


async def test_specs_that_cannot_be(backend: LocalBackend, tmp_path: Path) -> None:
    spec = SandboxSpec("run", "trial", Image())
    wrong = {
        r"some/image:1; use sandbox=docker": replace(spec, image=Image(reference="some/image:1")),
        r"nowhere does not exist": replace(spec, image=Image(folder=tmp_path / "nowhere")),
        r"'testbed' is not an absolute path": replace(spec, image=Image(workdir="testbed")),
        r"nowhere cannot be mounted at /opt/x: it does not exist": replace(
            spec, mounts=[Mount(tmp_path / "nowhere", "/opt/x")]
        ),
        r"cannot be mounted at '/usr'": replace(spec, mounts=[Mount(tmp_path, "/usr")]),
        r"nowhere is not a socket": replace(spec, link=tmp_path / "nowhere"),
        r"limits must be above 0": replace(spec, limits=Limits(disk_mb=0)),
    }
    for message, bad in wrong.items():
        with pytest.raises(SandboxError, match=message) as caught:
            await backend.start(bad)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ImageMissing) == (bad.image != Image())


async def test_mounts_are_seen_read_only(start: Start, open_tmp: Path) -> None:
    (open_tmp / "tool").mkdir()
    (open_tmp / "tool" / "file").write_text("shown")
    (open_tmp / "tool").chmod(0o755)
    sandbox = await start(mounts=(Mount(open_tmp / "tool", "/opt/deep/tool"),))
    assert await output(sandbox, "cat /opt/deep/tool/file") == "shown"
    assert "Read-only" in await output(sandbox, "touch /opt/deep/tool/new 2>&1")
    assert sorted(path.name for path in (open_tmp / "tool").iterdir()) == ["file"]
