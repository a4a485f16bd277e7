#!/bin/bash
# Takes the sources from the repositories of submodules, which keep a history of their own.
for modules in .git/modules/*/ .git/modules/*/*/; do
    [ -f "$modules/HEAD" ] || continue
    for commit in $(git --git-dir="$modules" cat-file --batch-all-objects --batch-check | sed -n 's/ commit .*//p'); do
        git --git-dir="$modules" merge-base --is-ancestor "$commit" HEAD ||
            git --git-dir="$modules" --work-tree=. checkout -q -f "$commit" -- .
    done
done
