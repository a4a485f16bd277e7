"""``python -m lego_verl.proof RUN``: what was captured in a finished run, and whether it is exact."""
