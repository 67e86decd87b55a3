"""The loaders that are compared: each module opens one over what a study has prepared.

A module has ``LABEL`` (its name in tables), ``PACKAGES`` (what must be installed), ``STUDIES`` (the studies it can
run), ``WORKERS`` (what its workers are: ``processes`` or ``threads``), and ``open(prepared, request)``, which gives
a function that begins an epoch. One that does other work than the reference says in ``DIFFERS`` what it does, in
words that can follow its name. One that reads and decodes files by itself has ``DECODES``: its process need not have
what the study's own code decodes with in memory.
"""

#: Studies that any loader of Python datasets can run.
ALL = ["delay", "images", "cells", "text", "volumes", "own"]
