"""Harness runtimes ahead of a run: built, listed, cleared up."""
