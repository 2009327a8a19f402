"""The page: one HTML file out of the documents that suites wrote, with charts, for any reader.

`command` is what ``python -m benchmarks page`` runs, `found` picks the documents, `html` makes the
page, `tables` and `charts` its parts, `style.css` its looks. It fetches nothing from anywhere.
"""
