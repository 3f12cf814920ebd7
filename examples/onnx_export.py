"""Export a PyTorch model with ISRLU to ONNX and run it in onnxruntime. Then do the same with a graph built by hand.

    python examples/onnx_export.py        # about 10 s on 2 cores; largest difference below 1e-6

Needs: pip install -c constraints.txt '.[torch,onnx]' onnxscript
"""

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

import isrlu.onnx
from isrlu.torch import ISRLU


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def main() -> float:
    torch.manual_seed(0)
    x = torch.randn(5, 8)

    model = nn.Sequential(nn.Linear(8, 16), ISRLU(alpha=3.0), nn.Linear(16, 4)).eval()
    exported = torch.onnx.export(model, (x,), dynamo=True, verbose=False).model_proto
    difference = np.abs(run(exported, x.numpy()) - model(x).detach().numpy()).max()
    print(f"exported by PyTorch, largest difference: {difference:.1e}")

    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [isrlu.onnx.node("ISRLU", "x", "y", alpha=3.0)],
        "by_hand",
        [onnx.helper.make_tensor_value_info("x", float32, ["n", 8])],
        [onnx.helper.make_tensor_value_info("y", float32, ["n", 8])],
    )
    by_hand = np.abs(run(isrlu.onnx.make_model(graph), x.numpy()) - ISRLU(alpha=3.0)(x).numpy()).max()
    print(f"built by hand, largest difference: {by_hand:.1e}")
    return float(max(difference, by_hand))


if __name__ == "__main__":
    main()
