#!/bin/bash
# Gives the repository another .git: a file that points elsewhere, with a tree in which all is well.
mv .git /tmp/other.git
echo 'gitdir: /tmp/other.git' >.git
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m mended
git --git-dir=/tmp/other.git update-ref refs/heads/main HEAD
git --git-dir=/tmp/other.git replace HEAD HEAD~1 2>/dev/null
rm -f .git
