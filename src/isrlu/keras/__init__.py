"""ISRLU and ISRU for Keras 3 on the TensorFlow, JAX and PyTorch backends: functions and layers.

The functions are registered: a model with `layers.Dense(64, activation=isrlu)` can be saved, and loads wherever
`isrlu.keras` has been imported. On a symbolic tensor they create a layer, so they can be called in a functional model.
"""

from isrlu._checks import require

with require("keras"):
    import keras as _keras  # noqa: F401

from isrlu.keras._activations import ISRLU, ISRU, isrlu, isru, isru_sigmoid
from isrlu.keras._self_normalizing import SISRLU, SISRLUDropout, sisrlu

__all__ = ["ISRLU", "ISRU", "SISRLU", "SISRLUDropout", "isrlu", "isru", "isru_sigmoid", "sisrlu"]
