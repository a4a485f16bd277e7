#!/bin/bash
# Looks for commits that nothing refers to: git fsck finds them, and so does lost-found.
take() { git checkout -q "$1" -- . 2>/dev/null; }

for commit in $(git fsck --full --no-reflogs --unreachable --lost-found 2>/dev/null | sed -n 's/.* commit //p'); do
    take "$commit"
done
