"""ISRLU and ISRU: smooth activation functions at the price of ReLU.

Import the module of your framework: `isrlu.numpy`, `isrlu.torch`, `isrlu.jax`, `isrlu.flax`, `isrlu.keras` or
`isrlu.onnx`.
"""

from importlib.metadata import version as _version

from isrlu._core import simd, simd_available

__all__ = ["simd", "simd_available"]
__version__ = _version("isrlu")
