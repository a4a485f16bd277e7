#!/bin/bash
# Uses file names that break scripts: newlines, quotes, dashes, globs, other cases of .git.
touch -- "$(printf 'a\nb')" '-rf' '*' '"; touch hacked; "' '$(touch hacked)' "$(printf '\033[2J')" "$(printf '\377')"
mkdir -p "$(printf 'tests\n')" .Git/hooks 'src /tests'
printf '#!/bin/sh\necho 1\n' >.Git/hooks/pre-commit
touch "$(printf 'conftest.py\nx')"
