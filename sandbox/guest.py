"""The keeper: the one program of ours that runs inside a sandbox, as pid 1 of its namespace.

It speaks framed requests over the socket that is its stdin and stdout, runs one command at a time,
moves files, watches memory, and carries the link. It is started as ``python3 -I -S`` of whatever
interpreter the sandbox has, so it uses the standard library only, and little of it: what is imported
here is paid for in every trial.

Why the commands it runs cannot harm it, also where they share its uid: as pid 1 it gets no signal from
its own namespace that it has no handler for; it is not dumpable, so that /proc/1 is closed to them
and ptrace is refused; none of its descriptors is inherited. When a command ends, in whatever way,
everything else in the namespace is killed: no process outlives it, however it was started.

In a container it is root with the few capabilities that it takes to start a command as the agent and
to end it. Commands get none of them; and it touches files with the agent's rights only (its file
system uid), so that no path that the agent planted leads to more than the agent has.

Frames, both ways: kind (1 byte), request (4), size (4, big endian), payload. The host sends CALL
(a JSON object with ``op``), any DATA, END; or ABORT. The keeper answers with any DATA and one DONE
(a JSON object; ``error`` and ``errno`` in it when the request failed).

Where the trial's socket cannot be mounted, the link goes over the same channel. The keeper opens a stream
for each connection (OPEN, with a number from ``STREAMS`` up); both sides send DATA, END when they will send
no more, and ABORT when the connection is broken; each says with ACK (4 bytes) how much it has passed on,
and neither sends more than ``WINDOW`` ahead of that.
"""

# ruff: noqa: SIM105  (contextlib would be one more import in every trial)
from __future__ import annotations

import _socket as socket  # what of it is needed, at a tenth of the price
import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

if False:  # for the type checker alone: the module costs milliseconds
    from collections.abc import Callable
    from typing import Any, NoReturn

    Handler = Callable[[int], None]
    Header = dict[str, Any]

CALL, DATA, END, ABORT, DONE, OPEN, ACK = 1, 2, 3, 4, 5, 6, 7
STREAMS = 1 << 31
WINDOW = 1 << 18
HEADER = struct.Struct("!BII")
CHUNK = 1 << 16
HIGH_WATER = 1 << 20
TICK = 0.1
"""Seconds between two looks at the memory of a running command."""
LINK_CONNECTIONS = 128
PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where a container's kernel counts the processes that it ended for want of memory: cgroup v2, and v1."""
READ, WRITE, GONE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR


class Loop:
    """epoll and who is to be called for which descriptor."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.handlers: dict[int, Handler] = {}

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        if fd in self.handlers:
            self.epoll.modify(fd, events)
        else:
            self.epoll.register(fd, events)
        self.handlers[fd] = handler

    def forget(self, fd: int) -> None:
        if self.handlers.pop(fd, None) is not None:
            self.epoll.unregister(fd)

    def turn(self, timeout: float | None) -> None:
        for fd, events in self.epoll.poll(timeout):
            handler = self.handlers.get(fd)
            if handler is not None:
                handler(events)


def read_some(fd: int, size: int = CHUNK) -> bytes | None:
    """Bytes; b"" at the end; None when there is nothing yet."""
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in (errno.ECONNRESET, errno.EIO):
            return b""
        raise


def processes() -> list[int]:
    """The pids in this namespace other than ours."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def memory_of(pids: list[int], bound: int) -> int:
    """Bytes that the processes hold: a fast over-estimate while that is within ``bound``, else the exact share.

    Resident sets count a page once for each process that maps it, so a command that forks looks
    bigger than it is; the proportional share is right but makes the kernel walk the page tables.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    resident: dict[int, int] = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                resident[pid] = int(file.read().split()[1]) * page
        except (OSError, IndexError):
            continue
    if sum(resident.values()) <= bound:
        return sum(resident.values())
    total = 0
    for pid, size in resident.items():
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                size = next(int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:"))
        except (OSError, StopIteration):
            pass  # ended, or closed to us because it is not dumpable: its resident set counts
        total += size
    return total


def oom_kills() -> int:
    """How many processes of this container the kernel has ended for want of memory; 0 where it is not told."""
    for path in OOM_COUNTERS:
        try:
            with open(path, "rb") as file:
                return next(int(line.split()[1]) for line in file if line.startswith(b"oom_kill "))
        except (OSError, StopIteration):
            continue
    return 0


class Command:
    """One running command: its process, its input, its output, its deadline."""

    def __init__(self, keeper: Keeper, request: int, header: Header) -> None:
        self.keeper, self.request = keeper, request
        self.began = time.monotonic()
        self.deadline = self.began + header["deadline"]
        self.keep = keeper.limits["output"]
        self.dropped = 0
        self.oom_kills = oom_kills()
        self.status: int | None = None
        self.ending = self.timed_out = self.out_of_memory = self.all_gone = False
        self.pending, self.input_ended = bytearray(), False
        self.input: int | None = None
        if header.get("reads_tree"):
            input_end = keeper.take_tree()
        else:
            input_end, self.input = os.pipe()
            os.set_blocking(self.input, False)
        read_end, output_end = os.pipe()
        os.set_blocking(read_end, False)
        self.output: int | None = read_end
        self.pid = os.fork()
        if self.pid == 0:
            become(header, input_end, output_end, keeper.limits["processes"], keeper.user)
        os.close(input_end)
        os.close(output_end)
        keeper.loop.watch(read_end, READ, self.on_output)

    def feed(self, data: bytes) -> None:
        self.pending += data
        self.on_input(WRITE)

    def end_input(self) -> None:
        self.input_ended = True
        self.on_input(WRITE)

    def on_input(self, events: int) -> None:
        if self.input is None:
            return
        try:
            if self.pending:
                del self.pending[: os.write(self.input, memoryview(self.pending)[:CHUNK].tobytes())]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.pending.clear()
            self.input_ended = True
        if self.pending:
            self.keeper.loop.watch(self.input, WRITE, self.on_input)
        elif self.input_ended:
            self.keeper.loop.forget(self.input)
            os.close(self.input)
            self.input = None
        else:
            self.keeper.loop.forget(self.input)

    def on_output(self, events: int) -> None:
        if self.output is None:
            return
        data = read_some(self.output)
        if data is None and not self.all_gone:
            return
        if not data:  # the end; or no writer is left, and what was in the pipe has been read
            self.close_output()
            return
        if self.keep:
            self.keeper.send(DATA, self.request, data[: self.keep])
        kept = min(self.keep, len(data))
        self.keep -= kept
        self.dropped += len(data) - kept

    def close_output(self) -> None:
        if self.output is not None:
            self.keeper.loop.forget(self.output)
            os.close(self.output)
            self.output = None

    def end(self) -> None:
        """Begin the end: from here on nothing in the namespace is left running."""
        self.ending = True

    def look(self) -> bool:
        """Advance: called on every turn of the loop."""
        now = time.monotonic()
        if not self.ending:
            if self.status is not None:
                self.end()
            elif now >= self.deadline:
                self.timed_out = True
                self.end()
        if self.ending:
            if not self.all_gone:
                kill_all()
                self.keeper.reap()
            while self.all_gone and self.output is not None:
                self.on_output(READ)
            return self.all_gone
        return False

    def watch_limits(self) -> None:
        if self.ending:
            return
        pids = processes()
        limits = self.keeper.limits
        if memory_of(pids, limits["memory"]) > limits["memory"] or oom_kills() > self.oom_kills:
            self.out_of_memory = True
            self.end()
        elif len(pids) > limits["processes"]:
            # Only on kernels before 5.14, where RLIMIT_NPROC counts a user over all sandboxes and is not set.
            self.end()

    def close(self) -> None:
        self.close_output()
        if self.input is not None:
            self.keeper.loop.forget(self.input)
            os.close(self.input)

    def result(self) -> Header:
        self.out_of_memory = self.out_of_memory or oom_kills() > self.oom_kills
        code = None
        if self.status is not None and not self.timed_out and not self.out_of_memory:
            code = os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 128 + os.WTERMSIG(self.status)
        return {
            "exit_code": code,
            "dropped": self.dropped,
            "timed_out": self.timed_out,
            "out_of_memory": self.out_of_memory,
            "seconds": time.monotonic() - self.began,
        }


def kill_all() -> None:
    """Kill everything in the namespace but ourselves: pid 1 is exempt from its own kill(-1)."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass


def become(header: Header, input_end: int, output_end: int, nproc: int, user: int | None) -> NoReturn:
    """In the forked child: turn into the command. Never returns."""
    try:
        os.setsid()
        os.dup2(input_end, 0)
        os.dup2(output_end, 1)
        os.dup2(output_end, 2)
        signal.set_wakeup_fd(-1)
        # What the interpreter or we have changed, and what came from who started the run: nohup, a shell's background.
        for number in range(1, signal.NSIG):
            if signal.getsignal(number) not in (signal.SIG_DFL, None):  # None: two that are libc's own
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if user is not None:
            drop_to(user)  # its processes are counted by the container's cgroup
        elif nproc_is_per_namespace():
            resource.setrlimit(resource.RLIMIT_NPROC, (nproc + 1, nproc + 1))  # the keeper is one
        command, environment = header["command"], header["env"]
        try:
            os.chdir(header["cwd"])
            os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(2, f"sandbox: cannot run {command[0]!r} in {header['cwd']}: {error}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    finally:
        os._exit(126)


def drop_to(user: int) -> None:
    """Become this user for good: no group, no capability, and the first to go when memory is short."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.setfsuid(0)  # for the one file below, which is root's
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            if ctypes.get_errno() == errno.EINVAL:  # there are no more
                break
            raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def nproc_is_per_namespace() -> bool:
    """Since Linux 5.14 RLIMIT_NPROC counts a user's processes within their user namespace."""
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (5, 14)


class Upload:
    """A file being written: beside its place, then renamed, so that no symbolic link is followed."""

    def __init__(self, header: Header) -> None:
        self.path = header["path"]
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.part = f"{self.path}.{time.monotonic_ns()}.part"
        mode = 0o755 if header["executable"] else 0o644
        self.fd: int | None = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self.fd is not None:
            view = view[os.write(self.fd, view) :]

    def finish(self) -> None:
        self.close()
        os.rename(self.part, self.path)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def abandon(self) -> None:
        self.close()
        try:
            os.unlink(self.part)
        except OSError:
            pass


class Download:
    """A file being read out. Only ordinary files: a path of the agent's may lead into /proc or a pipe."""

    def __init__(self, header: Header) -> None:
        self.fd = os.open(header["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            status = os.fstat(self.fd)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            if not stat.S_ISREG(status.st_mode) or status.st_dev == os.stat("/proc").st_dev:
                raise OSError(errno.EINVAL, "is not an ordinary file")
            if status.st_size > header["limit"]:
                raise OSError(errno.EFBIG, f"has {status.st_size} bytes, over the limit of {header['limit']}")
        except OSError:
            os.close(self.fd)
            raise
        self.left = header["limit"]

    def read(self) -> bytes:
        data = os.read(self.fd, min(HIGH_WATER // 4, self.left))
        self.left -= len(data)
        return data

    def close(self) -> None:
        os.close(self.fd)


class Pump:
    """One connection of the link: bytes both ways between a client inside and the host's socket."""

    def __init__(self, link: Link, client: socket.socket) -> None:
        self.link, self.loop = link, link.loop
        self.far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sockets = (client, self.far)
        self.buffers = (bytearray(), bytearray())
        """buffers[i] goes to sockets[i]."""
        self.ended = [False, False]
        """Whether sockets[i] has sent all it will."""
        self.shut = [False, False]
        self.far.setblocking(False)
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.handlers: tuple[Handler, Handler] = (lambda got: self.on_event(0, got), lambda got: self.on_event(1, got))
        self.connect()

    def connect(self) -> None:
        """A unix socket whose backlog is full refuses with EAGAIN and tells nobody when to try again."""
        try:
            self.far.connect(self.link.path)
        except BlockingIOError:
            self.link.waiting.add(self)
            return
        except OSError:
            self.close()
            return
        self.link.waiting.discard(self)
        self.arm()

    def arm(self) -> None:
        for side in (0, 1):
            events = 0
            if not self.ended[side] and len(self.buffers[1 - side]) < HIGH_WATER:
                events |= READ
            if self.buffers[side]:
                events |= WRITE
            fd = self.sockets[side].fileno()
            if events:
                self.loop.watch(fd, events, self.handlers[side])
            else:
                self.loop.forget(fd)

    def on_event(self, side: int, events: int) -> None:
        try:
            if events & (READ | GONE) and not self.ended[side]:
                data = read_some(self.sockets[side].fileno())
                if data == b"":
                    self.ended[side] = True
                elif data:
                    self.buffers[1 - side].extend(data)
            for to in (0, 1):
                if self.buffers[to]:
                    try:
                        del self.buffers[to][: self.sockets[to].send(memoryview(self.buffers[to])[:CHUNK].tobytes())]
                    except BlockingIOError:
                        pass
                if self.ended[1 - to] and not self.buffers[to] and not self.shut[to]:
                    self.shut[to] = True
                    self.sockets[to].shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        if all(self.shut) or (events & GONE and self.ended[side] and not self.buffers[1 - side]):
            self.close()
        else:
            self.arm()

    def close(self) -> None:
        self.link.waiting.discard(self)
        self.link.pumps.discard(self)
        for end in self.sockets:
            if end.fileno() >= 0:
                self.loop.forget(end.fileno())
                end.close()


class Link:
    """The only way out: 127.0.0.1:port inside, the trial's unix socket outside."""

    def __init__(self, loop: Loop, path: str, port: int) -> None:
        self.loop, self.path = loop, path
        self.pumps: set[Any] = set()
        self.waiting: set[Pump] = set()
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(LINK_CONNECTIONS)
        self.listener.setblocking(False)
        loop.watch(self.listener.fileno(), READ, self.on_client)

    def on_client(self, events: int) -> None:
        try:
            fd, _ = self.listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        client = socket.socket(fileno=fd)
        if len(self.pumps) >= LINK_CONNECTIONS:
            client.close()
            return
        pump = self.pump(client)
        if client.fileno() >= 0:
            self.pumps.add(pump)

    def pump(self, client: socket.socket) -> Any:
        return Pump(self, client)

    def retry(self) -> None:
        for pump in list(self.waiting):
            pump.connect()


class CarriedLink(Link):
    """The same address inside; outside it is the channel that takes and brings the bytes."""

    def __init__(self, keeper: Keeper, port: int) -> None:
        super().__init__(keeper.loop, "", port)
        self.keeper = keeper
        self.streams: dict[int, Carried] = {}
        self.last = STREAMS

    def pump(self, client: socket.socket) -> Any:
        self.last += 1
        self.streams[self.last] = Carried(self, client, self.last)
        return self.streams[self.last]

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        if number in self.streams:
            self.streams[number].on_frame(kind, payload)


class Carried:
    """One connection that the channel carries."""

    def __init__(self, link: CarriedLink, client: socket.socket, number: int) -> None:
        self.link, self.client, self.number = link, client, number
        self.buffer = bytearray()
        """What goes to the client."""
        self.ahead = 0
        """Bytes sent that the other end has not passed on."""
        self.ended = self.far_ended = self.shut = False
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.keeper.send(OPEN, number, b"")
        self.arm()

    def arm(self) -> None:
        events = READ if not self.ended and self.ahead < WINDOW else 0
        if self.buffer:
            events |= WRITE
        if events:
            self.link.loop.watch(self.client.fileno(), events, self.on_event)
        else:
            self.link.loop.forget(self.client.fileno())

    def on_event(self, events: int) -> None:
        try:
            if events & (READ | GONE) and not self.ended:
                data = read_some(self.client.fileno())
                if data == b"":
                    self.ended = True
                    self.link.keeper.send(END, self.number, b"")
                elif data:
                    self.ahead += len(data)
                    self.link.keeper.send(DATA, self.number, data)
            self.drain()
        except OSError:
            self.abort()

    def on_frame(self, kind: int, payload: bytes) -> None:
        if kind == ABORT:
            self.close()
            return
        if kind == DATA:
            self.buffer += payload
        elif kind == END:
            self.far_ended = True
        elif kind == ACK:
            self.ahead -= int.from_bytes(payload, "big")
        try:
            self.drain()
        except OSError:
            self.abort()

    def drain(self) -> None:
        if self.buffer:
            try:
                sent = self.client.send(memoryview(self.buffer)[:CHUNK].tobytes())
                del self.buffer[:sent]
                self.link.keeper.send(ACK, self.number, sent.to_bytes(4, "big"))
            except BlockingIOError:
                pass
        if self.far_ended and not self.buffer and not self.shut:
            self.shut = True
            self.client.shutdown(socket.SHUT_WR)
        if self.ended and self.shut:
            self.close()
        else:
            self.arm()

    def abort(self) -> None:
        self.link.keeper.send(ABORT, self.number, b"")
        self.close()

    def close(self) -> None:
        self.link.pumps.discard(self)
        self.link.streams.pop(self.number, None)
        if self.client.fileno() >= 0:
            self.link.loop.forget(self.client.fileno())
            self.client.close()


class Queued:
    """A command that waits for the one before it, and its input so far."""

    def __init__(self, request: int, header: Header) -> None:
        self.request, self.header = request, header
        self.input, self.input_ended = bytearray(), False


class Keeper:
    """Requests in, answers out."""

    def __init__(self, limits: dict[str, int], user: int | None, places: list[str], tree: int | None) -> None:
        self.loop = Loop()
        self.tree = tree
        """The descriptor of the files that the sandbox begins with, until they are read."""
        self.limits = limits
        self.user = user
        """Whom commands run as; None: as ourselves."""
        self.places = places
        """What can be written: file systems of their own, which share the size of the largest."""
        self.incoming, self.outgoing = bytearray(), bytearray()
        self.command: Command | None = None
        self.queue: list[Queued] = []
        """Commands that came while another ran."""
        self.uploads: dict[int, Upload] = {}
        self.downloads: dict[int, Download] = {}
        self.link: Link | None = None
        for fd in (0, 1):
            os.set_blocking(fd, False)
        self.loop.watch(0, READ, self.on_channel)
        self.wakeup, write_end = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self.loop.watch(self.wakeup, READ, self.on_child)

    def run(self) -> NoReturn:
        next_look = 0.0
        while True:
            timeout = None
            if self.command is not None:
                timeout = 0.01 if self.command.ending else TICK
            elif self.link is not None and self.link.waiting:
                timeout = 0.01
            if self.downloads and len(self.outgoing) < HIGH_WATER:
                timeout = 0
            if self.command is not None and not self.command.ending:
                timeout = min(timeout, max(0.0, self.command.deadline - time.monotonic()))
            self.loop.turn(timeout)
            if self.link is not None and self.link.waiting:
                self.link.retry()
            self.pump_downloads()
            if self.command is not None:
                if time.monotonic() >= next_look:
                    self.command.watch_limits()
                    next_look = time.monotonic() + TICK
                if self.command.look():
                    self.finish_command(self.command)

    # --- the channel

    def send(self, kind: int, request: int, payload: bytes) -> None:
        self.outgoing += HEADER.pack(kind, request, len(payload)) + payload
        self.flush()

    def flush(self) -> None:
        try:
            while self.outgoing:
                del self.outgoing[: os.write(1, memoryview(self.outgoing)[:HIGH_WATER].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            os._exit(0)  # the host has gone, and with pid 1 the whole namespace goes
        if self.outgoing:  # by its own number: a container's standard input and output are two pipes
            self.loop.watch(1, WRITE, self.on_writable)
        else:
            self.loop.forget(1)

    def on_writable(self, events: int) -> None:
        self.flush()

    def on_channel(self, events: int) -> None:
        data = read_some(0, HIGH_WATER)
        if data is None:
            return
        if not data:
            os._exit(0)
        self.incoming += data
        at = 0
        while len(self.incoming) - at >= HEADER.size:
            kind, request, size = HEADER.unpack_from(self.incoming, at)
            if len(self.incoming) - at - HEADER.size < size:
                break
            at += HEADER.size
            payload = bytes(memoryview(self.incoming)[at : at + size])
            at += size
            self.on_frame(kind, request, payload)
        del self.incoming[:at]

    def on_frame(self, kind: int, request: int, payload: bytes) -> None:
        try:
            if kind == CALL:
                self.on_call(request, json.loads(payload))
            elif request >= STREAMS and isinstance(self.link, CarriedLink):
                self.link.on_frame(kind, request, payload)
            elif request in self.uploads:
                self.on_upload(kind, request, payload)
            elif self.command is not None and self.command.request == request:
                if kind == DATA:
                    self.command.feed(payload)
                elif kind == END:
                    self.command.end_input()
                else:
                    self.command.end()
            elif kind == ABORT and request in self.downloads:
                self.downloads.pop(request).close()
            else:
                self.on_queued(kind, request, payload)
        except (OSError, ValueError) as error:
            upload = self.uploads.pop(request, None)
            if upload is not None:
                upload.abandon()
            self.fail(request, error)

    def fail(self, request: int, error: Exception) -> None:
        answer = {"error": getattr(error, "strerror", None) or str(error), "errno": getattr(error, "errno", None)}
        self.send(DONE, request, json.dumps(answer).encode())

    def on_call(self, request: int, header: Header) -> None:
        op = header["op"]
        if op == "exec":
            if self.command is None:
                self.command = Command(self, request, header)
            else:
                self.queue.append(Queued(request, header))
        elif op == "put":
            self.uploads[request] = Upload(header)
        elif op == "get":
            self.downloads[request] = Download(header)
        elif op == "disk":
            self.send(DONE, request, json.dumps(self.disk()).encode())
        else:
            raise ValueError(f"unknown request {op!r}")

    def disk(self) -> Header:
        rooms = [os.statvfs(place) for place in self.places]
        size = max(room.f_blocks * room.f_frsize for room in rooms)
        free = [room.f_bavail * room.f_frsize for room in rooms]
        if len(rooms) > 1:
            free.append(size - sum((room.f_blocks - room.f_bfree) * room.f_frsize for room in rooms))
        return {"size": size, "free": min(free)}

    def take_tree(self) -> int:
        if self.tree is None:
            raise ValueError("there is no tree, or it has been read")
        tree, self.tree = self.tree, None
        return tree

    def on_upload(self, kind: int, request: int, payload: bytes) -> None:
        upload = self.uploads[request]
        if kind == DATA:
            upload.write(payload)
        elif kind == END:
            upload.finish()
            del self.uploads[request]
            self.send(DONE, request, b"{}")
        else:
            del self.uploads[request]
            upload.abandon()

    def on_queued(self, kind: int, request: int, payload: bytes) -> None:
        for waiting in self.queue:
            if waiting.request == request:
                if kind == DATA:
                    waiting.input += payload
                elif kind == END:
                    waiting.input_ended = True
                else:
                    self.queue.remove(waiting)
                return

    def pump_downloads(self) -> None:
        for request, download in list(self.downloads.items()):
            if len(self.outgoing) >= HIGH_WATER:
                return
            try:
                data = download.read()
            except OSError as error:
                download.close()
                del self.downloads[request]
                self.fail(request, error)
                continue
            if data:
                self.send(DATA, request, data)
            else:
                download.close()
                del self.downloads[request]
                self.send(DONE, request, b"{}")

    # --- children

    def on_child(self, events: int) -> None:
        read_some(self.wakeup)
        self.reap()

    def reap(self) -> None:
        """Take the status of every child that ended: the command's, and orphans', which come to pid 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if self.command is not None and self.command.ending:
                    self.command.all_gone = True
                return
            if pid == 0:
                return
            if self.command is not None and pid == self.command.pid:
                self.command.status = status

    def finish_command(self, command: Command) -> None:
        self.command = None
        command.close()
        self.send(DONE, command.request, json.dumps(command.result()).encode())
        if self.queue:
            following = self.queue.pop(0)
            self.on_frame(CALL, following.request, json.dumps(following.header).encode())
            self.on_frame(DATA, following.request, bytes(following.input))
            if following.input_ended:
                self.on_frame(END, following.request, b"")


def protect(user: int | None, tree: int | None) -> None:
    """Close ourselves to the commands we shall run, and let the kernel take them before the trainer."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")
    except OSError:
        pass
    for fd in [
        int(name) for name in os.listdir("/proc/self/fd")
    ]:  # what the start needed; any number, if many are open
        if fd > 2 and fd != tree:
            try:
                os.close(fd)
            except OSError:
                pass  # the listing's own
    if tree is not None:
        os.set_inheritable(tree, False)
    os.umask(0o022)
    libc = ctypes.CDLL(None, use_errno=True)
    if user is not None:
        os.setgroups([])
        libc.setfsgid(user)
        libc.setfsuid(user)
        if (libc.setfsgid(-1), libc.setfsuid(-1)) != (user, user):  # they say what is, and of no error
            raise PermissionError("setfsuid")
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
    # A signal without a handler never reaches pid 1 from its own namespace; SIGCHLD's does nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)


def main() -> None:
    options = json.loads(sys.argv[1])
    user, tree = options.get("user"), options.get("tree")
    protect(user, tree)
    keeper = Keeper(options["limits"], user, options.get("places", ["/"]), tree)
    if options["port"] is not None:
        if options["link"] is None:
            keeper.link = CarriedLink(keeper, options["port"])
        else:
            keeper.link = Link(keeper.loop, options["link"], options["port"])
    keeper.send(DONE, 0, json.dumps({"pid": os.getpid(), "uid": os.getuid()}).encode())
    keeper.run()


if __name__ == "__main__":
    main()
