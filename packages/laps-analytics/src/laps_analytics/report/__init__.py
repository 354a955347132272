"""The report: one HTML page with plots and tables, made from gold tables.

::

    lake -> gold -> chapters (network, experience, incidents, ...) -> build -> HTML, CSV, JSON
                       |
                    chapter (sections, plots, numbers for readers)

A chapter is a function that returns a :class:`.chapter.Section`. :mod:`.build` lists the chapters.

:mod:`.cells` escapes formulas in CSV, and loads without the chapters.

Other rooms may import ``build``, ``cells``, ``gold`` and ``plans``. The chapters are explained in
``docs/how-to/read-a-report.md``.
"""
