"""A policy made on the spot: a tokenizer and a tiny Qwen3 that knows whole actions, for runs without a download."""
