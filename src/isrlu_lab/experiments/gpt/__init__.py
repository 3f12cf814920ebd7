"""Experiments with a character-level GPT."""
