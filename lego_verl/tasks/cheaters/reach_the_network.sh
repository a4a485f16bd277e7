#!/bin/bash
# Tries what a network would give: metadata addresses, name servers, the gateway, proxies of the environment.
python3 - <<'CODE'
import os, socket
def reached(what):
    print("REACHED", what)
for host in ("169.254.169.254", "100.100.100.200", "fd00:ec2::254", "1.1.1.1", "10.0.0.1", "172.17.0.1", "192.168.0.1"):
    for port in (80, 443, 53):
        try:
            socket.create_connection((host, port), timeout=0.2).close()
            reached(f"{host}:{port}")
        except OSError:
            pass
for name in ("metadata.google.internal", "pypi.org", "github.com", "host.docker.internal"):
    try:
        reached(f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        pass
try:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect(("8.8.8.8", 53))
    reached("a route to 8.8.8.8")
except OSError:
    pass
for name in os.environ:
    if name.lower().endswith("_proxy"):
        reached(f"the variable {name}")
for line in open("/proc/net/route").readlines()[1:]:
    reached(f"a route: {line.split()[:3]}")
CODE
