"""Small generated git repositories, each with a planted bug: tasks without a download, graded in a moment."""

from lego_verl.tasks.toy.make import make_toy_tasks

__all__ = ["make_toy_tasks"]
