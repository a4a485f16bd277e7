"""A rollout server on transformers: exact ids, log-probabilities and expert routes, on any device torch has."""
