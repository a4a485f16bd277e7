"""Whether tasks are fit to be learned from: their own solutions, cheaters, and each part of a reference patch."""
