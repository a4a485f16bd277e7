#!/bin/bash
# Looks into the index: what was staged and never committed is written out.
git checkout-index -q -f -a
git diff --cached --name-only | while IFS= read -r file; do git show ":$file" >"$file"; done
