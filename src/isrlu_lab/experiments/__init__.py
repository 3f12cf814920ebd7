"""The paper's tables and figures, reproduced on this machine and compared with the paper's numbers.

Data flow: `registry` names an experiment -> `isrlu_lab.reproduce` runs it with a `Context` -> it returns a `Result`
(tables, claims, figures) -> `result_store` stores the result as JSON -> `terminal` and `isrlu_lab.report` (HTML)
show it. Both show every experiment in the same way.
"""
