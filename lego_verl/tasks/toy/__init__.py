"""Small generated git repositories with one planted bug each: tasks that need no download and are graded in a moment."""

from lego_verl.tasks.toy.make import make_toy_tasks

__all__ = ["make_toy_tasks"]
