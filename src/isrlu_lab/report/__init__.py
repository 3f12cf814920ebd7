"""The HTML report: one self-contained file from the results store."""
