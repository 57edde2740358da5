"""The figures behind every claim of speed: ``make bench``, or ``python -m tests.bench --help``.

Each figure is measured on this machine in this run, beside a floor made of plain tools, so that a ratio
holds where absolute numbers do not. Each bar has a verdict, and the exit code tells whether all are met.
"""
