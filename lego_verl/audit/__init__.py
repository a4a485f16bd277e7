"""``python -m lego_verl.audit RUN``: looks through a finished run's trials for attempts to cheat."""
