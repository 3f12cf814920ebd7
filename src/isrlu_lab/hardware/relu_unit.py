"""max(x, 0): the least that an activation costs."""

import numpy as np
from amaranth.hdl import Module, Mux, Value

from isrlu_lab.hardware.formats import Float, Reals, Words
from isrlu_lab.hardware.stream import Cut, Unit


class ReluUnit(Unit):
    """0 for negative x, else x; NaN stays NaN."""

    function = "relu"
    form = "computed"
    number: Float
    cuts = 0

    def exact(self, x: Reals) -> Reals:
        return np.where(x < 0, 0.0, x)

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        x = words[0]
        return Mux(x[-1] & (x[:-1] <= self.number.inf), 0, x)

    def model(self, words: Words) -> Words:
        return np.where((words >= self.number.sign) & (words <= self.number.sign + self.number.inf), 0, words)
