"""The paper's tables and figures, rebuilt on this machine beside the paper's own numbers.

Way of the data: `registry` names an experiment -> `isrlu_lab.reproduce` runs it with a `Context` -> it returns a
`Result` (tables, claims, figures) -> `result_store` stores that as JSON -> `terminal` and `isrlu_lab.report` (HTML)
show any result alike.
"""
