"""Studies of data loading: generated data, datasets, and the loaders that are measured on them.

The ``feedline`` command asks and shows; what is here runs in a fresh process for every measurement
(``runner.py``), speaks JSON lines, and can be used by itself:

=================  ==========================================================================================
``request.py``     what is to be measured
``runner.py``      one measurement, in the process that was started for it
``consumer.py``    the loop that takes batches, and its clock
``data/``          generated files, the same on every machine
``studies/``       a dataset for each study
``contestants/``   a loader in each file; a new one is found by being there
=================  ==========================================================================================
"""
