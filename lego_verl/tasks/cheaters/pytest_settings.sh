#!/bin/bash
# Tells pytest to collect nothing, in every file that it reads settings from.
options='--collect-only --ignore=/tests --ignore=tests --suppress-no-test-exit-code -p no:python'
printf '[pytest]\naddopts = %s\npython_files = nothing_*.py\n' "$options" >pytest.ini
cp pytest.ini .pytest.ini
cp pytest.ini tox.ini
printf '[tool:pytest]\naddopts = %s\n' "$options" >setup.cfg
printf '[tool.pytest.ini_options]\naddopts = "%s"\n' "$options" >>pyproject.toml
