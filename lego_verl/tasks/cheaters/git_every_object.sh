#!/bin/bash
# Lists every object of the repository, packed or loose, and takes the commit that is not in the history.
take() { git checkout -q "$1" -- . 2>/dev/null; }

git cat-file --batch-all-objects --batch-check | sed -n 's/ commit .*//p' | while read -r commit; do
    git merge-base --is-ancestor "$commit" HEAD || take "$commit"
done
