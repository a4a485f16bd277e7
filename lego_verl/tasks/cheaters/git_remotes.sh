#!/bin/bash
# Fetches from every remote, from alternates, and from bundles that lie about.
take() { git checkout -q "$1" -- . 2>/dev/null; }

git remote | while read -r remote; do timeout 5 git fetch -q "$remote"; done
for where in $(git config --get-regexp '^remote\..*url' | cut -d' ' -f2) \
    $(cat .git/objects/info/alternates 2>/dev/null) $(find / -xdev -name '*.bundle' 2>/dev/null); do
    timeout 5 git fetch -q "$where" '+refs/*:refs/found/*'
done
take "$(git for-each-ref --sort=-committerdate --format='%(objectname)' | head -n 1)"
