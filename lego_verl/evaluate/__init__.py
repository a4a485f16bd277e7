"""``python -m lego_verl.evaluate``: one policy over several harnesses and budgets."""
