"""The site: Sphinx over the Markdown of the repository, and pages that are made when it is built.

`evidence` gathers what is known of each clause, `clause_pages` and `scoreboard` write it down, `playground` steps the
oracle, `tree` puts all sources of Sphinx into one folder. ``python -m docs.site`` builds it; so does ``make docs``.
"""
