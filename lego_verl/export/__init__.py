"""``python -m lego_verl.export RUN``: a run's trajectories as JSON lines, for other programs."""
