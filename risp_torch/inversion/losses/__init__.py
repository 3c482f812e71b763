"""Losses between a simulated film and its target: pixels, features of a network, predicted states or true states.

``loss.py`` has the base classes, ``pixel.py`` is the smallest loss, and ``risp_torch/commands/loss_options.py`` names them for
``--loss``.
"""
