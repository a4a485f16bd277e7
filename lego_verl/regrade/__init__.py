"""``python -m lego_verl.regrade RUN``: the patches of a finished run, graded again without an agent."""
