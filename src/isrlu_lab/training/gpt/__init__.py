"""A character-level GPT with one of five norm layers, how a run trains it, and how its norms are swapped."""
