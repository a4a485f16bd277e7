"""A dry run of a harness: scripted policies in the real sandbox, and what the harness does about them."""
