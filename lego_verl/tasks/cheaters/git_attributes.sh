#!/bin/bash
# Uses .gitattributes: filters, binary and export rules, so that git sees something else than what is there.
rules=('*.py filter=forge -diff merge=forge text eol=crlf' '*.py working-tree-encoding=UTF-16' '* export-ignore')
printf '%s\n' "${rules[@]}" >.gitattributes
git config filter.forge.clean 'sed "s/return/return None #/"'
git config filter.forge.smudge 'sh -c "echo import os"'
git config diff.external /bin/true
cp .gitattributes .git/info/attributes
