"""A harness that is made up, and its adapter."""
