"""``python -m lego_verl.serve``: the proxy by itself, for people who debug a harness and for tests from outside."""
