"""All rules. To add one, add a row to the file of its theme, and to the tests a cheat with its honest twin."""

from __future__ import annotations

from lego_verl.audit.rules import grading, history, repository_tests, running, surroundings

RULES = (*history.RULES, *grading.RULES, *running.RULES, *repository_tests.RULES, *surroundings.RULES)
