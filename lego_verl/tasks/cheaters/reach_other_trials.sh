#!/bin/bash
# Looks for files of other trials, of the run, and of whoever runs it.
for path in /root/* /home/*/.ssh /home/*/.aws /etc/shadow /var/cache/lego_verl/* /tmp/lego* /work /solution/* /tests/* \
    /logs/* /run/lego/*; do
    [ "$path" = /run/lego/link.sock ] && continue
    [ -r "$path" ] && [ -e "$path" ] && echo "REACHED $path"
done
find / -xdev \( -name reference.patch -o -name questions.json -o -name solve.sh -o -name trial.json \) \
    2>/dev/null | sed 's/^/REACHED /'
true
