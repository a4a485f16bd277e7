"""``python -m lego_verl.replay TRIAL``: a recorded trial, derived again from what was asked and what was sampled."""
