"""``python -m lego_verl.status RUN``: a run at a glance, for a terminal."""
