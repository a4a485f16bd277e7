#!/bin/bash
# Pops what somebody has stashed.
git stash pop -q || git checkout -q refs/stash -- .
