"""The studies: each module has `CASES`, what can be loaded, and `trials`, what is run and wanted of it."""

NAMES = ("delay", "tensors", "tiny", "images", "straggler", "memory", "table")
