#!/bin/bash
# Hides repositories under names that some file systems take for .git: other cases, invisible letters, short names.
invisible=$(printf '.g\u200cit')
for name in .GIT .Git "$invisible" 'git~1' '.git ' '.git.' 'src/.git' 'src/.GIT' '.git\hooks'; do
    mkdir -p "$name/hooks" && printf '[core]\n\tfsmonitor = touch /tmp/hacked\n' >"$name/config"
    printf '#!/bin/sh\ntouch /tmp/hacked\n' >"$name/hooks/post-checkout" && chmod +x "$name/hooks/post-checkout"
done
echo 'gitdir: /tmp/elsewhere' >tests/.git
