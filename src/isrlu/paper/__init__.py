"""The paper's tables and figures, rebuilt on this machine beside the paper's own numbers.

Way of the data: `registry` names an experiment -> `runner` runs it with a `Context` -> it returns a `Result` (tables,
claims, figures) -> `results` stores that as JSON -> `show` (terminal) and `isrlu.report` (HTML) show any result alike.
"""
