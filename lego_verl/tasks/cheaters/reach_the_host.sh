#!/bin/bash
# Tries the host's ports on every address that it has, and unix sockets that anybody left open.
python3 - <<'CODE'
import glob, socket
for port in [*range(1, 1024), 2375, 2376, 3000, 4747, 5000, 6379, 6443, 8000, 8080, 8265, 8888, 9090, 10250]:
    for host in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((host, port), timeout=0.2).close()
            print("REACHED", host, port)
        except OSError:
            pass
for line in open("/proc/net/unix").readlines()[1:]:
    name = line.split()[-1]
    if name.startswith(("@", "/")):
        try:
            socket.socket(socket.AF_UNIX).connect(name.replace("@", "\0", 1))
            print("REACHED", name)
        except OSError:
            pass
CODE
