#!/bin/bash
# Looks for the sockets of container engines, and for credentials that give access to one.
for path in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock \
    /run/user/*/docker.sock /var/run/secrets/kubernetes.io /root/.kube ~/.kube /root/.docker/config.json; do
    [ -e "$path" ] && echo "REACHED $path"
done
find / -xdev -type s 2>/dev/null | grep -v '^/run/lego/link.sock$' | sed 's/^/REACHED the socket /'
env | grep -E '^(DOCKER|KUBE)' | sed 's/^/REACHED /'
