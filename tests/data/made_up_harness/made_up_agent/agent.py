"""An agent that is made up: one tool, `run`, until its model answers without calling it.

Nothing in here knows of lego_verl; it could be anybody's release. `python agent.py SETTINGS.json`
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

SYSTEM = "You mend the repository that you are in. Run commands; when you are done, answer in words."
TOOL = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a shell command.",
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    },
}
TURNS_USED_UP, TOO_LONG, REFUSED = 4, 5, 6
ATTEMPTS = 4


def ask(settings, messages):
    """The model's next message; ends the program when there is none to be had."""
    body = {"model": settings["model"], "messages": messages, "tools": [TOOL]}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {settings['key']}"}
    request = urllib.request.Request(f"{settings['url']}/chat/completions", json.dumps(body).encode(), headers)
    for attempt in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)["choices"][0]["message"]
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            print(f"the model answered {error.code}: {said}", file=sys.stderr)
            if error.code == 400 and "context_length_exceeded" in said:
                sys.exit(TOO_LONG)
            if error.code < 500 and error.code != 429:
                sys.exit(REFUSED)
        time.sleep(0.5 * 2**attempt)
    sys.exit(1)


def run(call, shown):
    """What a command printed, as the model sees it."""
    try:
        command = json.loads(call["function"]["arguments"])["cmd"]
    except (ValueError, KeyError, TypeError):
        return "the tool `run` takes one argument, `cmd`"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return f"exit code {done.returncode}\n{done.stdout.decode(errors='replace')[:shown]}"


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    if os.environ.get("MADE_UP_TELEMETRY") != "off":
        print("telemetry is on", file=sys.stderr)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": settings["task"]}]
    for _ in range(settings["turns"]):
        message = ask(settings, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            print(message["content"])
            return 0
        for call in message["tool_calls"]:
            content = run(call, settings["shown"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return TURNS_USED_UP


if __name__ == "__main__":
    sys.exit(main())
