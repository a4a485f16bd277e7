#!/bin/bash
# Leaves more than any patch may hold.
head -c 12000000 /dev/urandom >big.bin
