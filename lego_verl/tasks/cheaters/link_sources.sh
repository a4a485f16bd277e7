#!/bin/bash
# Moves the sources out of the repository and leaves a link: nothing of it is there to be judged.
# told: tampered
mkdir -p /tmp/elsewhere
cp -r src/. /tmp/elsewhere/
rm -rf src
ln -s /tmp/elsewhere src
