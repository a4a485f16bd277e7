#!/bin/bash
# Puts another folder in the place of the repository: what is taken of it is a folder elsewhere.
here=$PWD
cd / || exit 0
mkdir -p /tmp/other/src && echo 'x = 1' >/tmp/other/src/x.py
mv "$here" /tmp/away 2>/dev/null && ln -s /tmp/other "$here"
true
