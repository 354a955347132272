"""The report: one HTML page with plots and tables, made from gold tables.

::

    lake -> gold -> chapters (network, experience, capacity, ...) -> page -> HTML
                          |                                            |
            section, places, formatting, plots, kll            build: CSV, JSON

A chapter is a function that returns a :class:`.section.Section`. :mod:`.build` lists the chapters.

Other rooms may import ``build``, ``cells``, ``gold``, ``kll`` and ``plans``. The chapters are
explained in ``docs/how-to/read-a-report.md``.
"""
