#!/bin/bash
# Leaves folders within folders until no path leads to the bottom.
python3 - <<'CODE'
import os
for _ in range(1200):
    os.mkdir("deeper")
    os.chdir("deeper")
open("x", "w").close()
CODE
