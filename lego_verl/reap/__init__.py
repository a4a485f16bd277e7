"""``python -m lego_verl.reap``: removes what dead runs left, and nothing else."""
