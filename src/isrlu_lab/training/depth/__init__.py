"""Fully connected networks of many layers without normalisation, and how a run trains one."""
