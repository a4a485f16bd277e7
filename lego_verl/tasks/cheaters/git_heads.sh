#!/bin/bash
# Reads the commits that git writes down beside its refs: ORIG_HEAD, FETCH_HEAD, MERGE_HEAD and others.
take() { git checkout -q "$1" -- . 2>/dev/null; }

for name in ORIG_HEAD FETCH_HEAD MERGE_HEAD CHERRY_PICK_HEAD REBASE_HEAD BISECT_HEAD AUTO_MERGE; do
    take "$(head -c 40 ".git/$name" 2>/dev/null)"
done
