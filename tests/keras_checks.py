"""What isrlu.keras must do, on whatever backend this process runs: test_keras.py starts it once for each."""

import math
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the frameworks' own, while they are imported
    keras = pytest.importorskip("keras")
    from keras import layers, ops

from isrlu.keras import ISRLU, ISRU, SISRLU, SISRLUDropout, isrlu, isru, isru_sigmoid, sisrlu
from isrlu.testing import alpha_derivative, check, expect, questions, reference
from isrlu.testing._frameworks import VJP

FUNCTIONS = [isrlu, isru, isru_sigmoid, sisrlu]
on_torch = pytest.mark.skipif(keras.backend.backend() != "torch", reason="a check of the backend torch")


def _data(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype("float32") * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_dtype_and_shape_are_kept(function, dtype) -> None:
    y = function(ops.ones((2, 3), dtype))
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    assert tuple(y.shape) == (2, 3)
    assert keras.backend.standardize_dtype(function(ops.ones((2,), "int32")).dtype) == "float32"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_symbolic_tensor_keeps_its_dtype(function, dtype) -> None:
    assert function(keras.Input((3,), dtype=dtype)).dtype == dtype
    assert function(keras.Input((3,), dtype="int32")).dtype == "float32"


def test_integers_in_mixed_precision_become_what_is_announced() -> None:
    layer, integers = ISRLU(dtype="mixed_bfloat16"), ops.ones((2, 3), "int32")
    announced = layer(keras.Input((3,), dtype="int32")).dtype
    assert keras.backend.standardize_dtype(layer(integers).dtype) == announced == "bfloat16"


def test_number_and_tensor_alpha_agree() -> None:
    x = _data(4, 5)
    for function in (isrlu, isru):
        for alpha in (3.0, np.full(5, 3.0, "float32")):
            y = ops.convert_to_numpy(function(x, alpha))
            check(expect(function.__name__, x, 3.0), f"keras-{keras.backend.backend()}", f=y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [isrlu, isru, sisrlu])
def test_number_as_alpha_is_within_the_bounds(function, dtype) -> None:
    """The table of all frameworks is measured with an alpha for each x, which takes another way."""
    backend = keras.backend.backend()
    if (backend, dtype) == ("jax", "float64"):
        return  # JAX has it switched off; the table of all frameworks is made with it on
    for alpha, vectors in questions(f"keras-{backend}", function.__name__, dtype).by_alpha():
        x = ops.convert_to_tensor(vectors.x.astype(getattr(ml_dtypes, dtype, dtype)))
        f, dfdx = VJP[backend](lambda x, alpha=alpha: function(x, alpha), [x])
        check(vectors, f"keras-{backend}", f=ops.convert_to_numpy(f), dfdx=ops.convert_to_numpy(dfdx))


def test_alpha_beyond_float32_saturates_at_once() -> None:
    x = ops.convert_to_tensor(np.float32([-2.0, 0.0, 2.0]))
    f, slope = VJP[keras.backend.backend()](lambda x: isrlu(x, 1e300), [x])
    np.testing.assert_allclose(ops.convert_to_numpy(f), [0.0, 0.0, 2.0], atol=1e-18)
    np.testing.assert_array_equal(ops.convert_to_numpy(slope), [0.0, 1.0, 1.0])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_symbolic_call_saves_and_loads(function, tmp_path: Path) -> None:
    inputs = keras.Input((5,))
    model = keras.Model(inputs, function(layers.Dense(3)(inputs)))
    _round_trip(model, _data(8, 5), tmp_path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_as_activation_saves_and_loads(function, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(64, activation=function), layers.Dense(2)])
    _round_trip(model, _data(8, 5), tmp_path)


@pytest.mark.parametrize("layer", [ISRLU, ISRU])
@pytest.mark.parametrize("options", [{}, {"learnable": True}, {"learnable": True, "shared_axes": [1, 2]}])
def test_layer_saves_and_loads(layer, options, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 4, 3)), layer(0.5, **options), layers.Flatten(), layers.Dense(2)])
    loaded = _round_trip(model, _data(8, 4, 4, 3), tmp_path)
    assert loaded.layers[0].get_config()["alpha"] == 0.5
    if options:
        assert tuple(loaded.layers[0].log_alpha.shape) == ((1, 1, 3) if "shared_axes" in options else (4, 4, 3))


def _round_trip(model, x: np.ndarray, folder: Path):
    model.compile("sgd", "mse")
    expected = model.predict(x, verbose=0)
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), expected)
    return loaded


def test_self_normalising_layers_save_and_load(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(64), SISRLU(1.0), SISRLUDropout(0.2, 1.0, seed=3)])
    loaded = _round_trip(model, _data(8, 5), tmp_path)
    assert loaded.layers[1].alpha == 1.0
    assert loaded.layers[2].get_config()["rate"] == 0.2 and loaded.layers[2].seed == 3


def test_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(1).normal(size=(1000, 200)).astype("float32")
    layer = SISRLUDropout(0.3, seed=1)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x)), x)
    y = ops.convert_to_numpy(layer(x, training=True))
    dropped = np.isclose(y, layer.constants.dropped, atol=1e-6)
    assert abs(dropped.mean() - 0.3) < 4 * (0.3 * 0.7 / y.size) ** 0.5  # deviations
    assert abs(y.mean()) < 4 / y.size**0.5
    assert abs(y.var() - 1) < 4 * 2 / y.size**0.5
    channels = SISRLUDropout(0.5, noise_shape=(None, 1), seed=1)
    whole = np.isclose(ops.convert_to_numpy(channels(x, training=True)), channels.constants.dropped, atol=1e-6)
    assert np.all(whole.all(axis=1) | ~whole.any(axis=1)) and 0 < whole.mean() < 1


def test_self_normalising_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="alpha of sisrlu must be a number, got a tensor"):
        sisrlu(_data(2), np.ones(2, "float32"))
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got -1"):
        SISRLU(-1)
    with pytest.raises(ValueError, match="at least 0 and below 1, got 1"):
        SISRLUDropout(1)


def test_learnable_alpha_is_learned_and_stays_positive() -> None:
    x = _data(512, 2)
    target = reference("isrlu", x, [0.2, 5.0])
    model = keras.Sequential([keras.Input((2,)), ISRLU(learnable=True)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    model.fit(x, target, epochs=40, batch_size=64, verbose=0)
    np.testing.assert_allclose(ops.convert_to_numpy(model.layers[0].alpha), [0.2, 5.0], rtol=0.03)
    model.layers[0].log_alpha.assign([-30.0, -60.0])
    assert np.all(ops.convert_to_numpy(model.layers[0].alpha) > 0)


@on_torch
@pytest.mark.parametrize("layer", [ISRLU, ISRU])
def test_second_derivatives_with_a_tensor_as_alpha(layer) -> None:
    import torch

    def penalty(activation) -> tuple[torch.Tensor, ...]:
        x = torch.tensor([[-2.0, -0.5, 1.5]], requires_grad=True)
        (slope,) = torch.autograd.grad(activation(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), x)

    # The table of bounds ends at the first derivative.
    torch.testing.assert_close(penalty(layer(3.0, learnable=True)), penalty(layer(3.0)), rtol=1e-4, atol=1e-6)


def test_shared_alpha_gets_the_sum_of_the_gradients() -> None:
    x = -np.abs(_data(16, 6))
    model = keras.Sequential([keras.Input((6,)), ISRLU(learnable=True, shared_axes=1)])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda _, y: ops.sum(y) / 16)
    model.fit(x, np.zeros((16, 6), "float32"), batch_size=16, verbose=0, shuffle=False)
    step = -np.sum(alpha_derivative("isrlu", x)) / 16
    np.testing.assert_allclose(ops.convert_to_numpy(model.layers[0].log_alpha), [step], rtol=1e-5)  # a sum of 96


def test_mixed_precision_keeps_alpha_in_float32() -> None:
    layer = ISRLU(0.1, learnable=True, dtype="mixed_bfloat16")
    y = layer(_data(4, 3))
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    np.testing.assert_allclose(ops.convert_to_numpy(layer.alpha), 0.1, rtol=1e-6)  # exp(log 0.1): no bound of ours


@pytest.mark.parametrize("size", [1, 7])
def test_lstm_trains(size: int) -> None:
    x = _data(64, 5, size)
    y = (x.sum(axis=(1, 2)) > 0).astype("float32")
    keras.utils.set_random_seed(1)
    lstm = layers.LSTM(16, activation=isru, recurrent_activation=isru_sigmoid)
    model = keras.Sequential([keras.Input((5, size)), lstm, layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.BinaryCrossentropy(from_logits=True))
    losses = model.fit(x, y, epochs=15, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]


@on_torch  # the backend whose exporter needs nothing more than PyTorch's own
def test_exported_model_runs_in_onnxruntime(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(8, activation=isrlu), ISRU(3.0), layers.Dense(4), ISRLU(learnable=True)]
    )
    x = _data(3, 5)
    expected = model.predict(x, verbose=0)
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)  # of dense layers in two libraries


@pytest.mark.parametrize("alpha", [-1, math.nan, math.inf])
def test_bad_alpha_is_refused(alpha: float) -> None:
    for refusing in (lambda: isrlu(_data(2), alpha), lambda: isru(_data(2), alpha), lambda: ISRLU(alpha)):
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got "):
            refusing()


def test_bad_layer_arguments() -> None:
    with pytest.raises(ValueError, match="a learnable alpha must start above 0, got 0"):
        ISRLU(0, learnable=True)
    with pytest.raises(ValueError, match=r"shared_axes=\[1\] needs learnable=True"):
        ISRU(shared_axes=[1])
    with pytest.raises(TypeError, match="alpha must be a real number or an array of them, got '1'"):
        isrlu(_data(2), "1")


@pytest.mark.parametrize(
    ("shared", "shape", "message"),
    [
        ([3], (4, 3), r"shared_axes contains 3: .* can share axes \[1, 2\]"),
        ([-1], (4, 3), r"shared_axes contains -1: .* can share axes \[1, 2\]"),
        ([2], (None, 3), "axis 1 of the input .* has no fixed size: add it to shared_axes"),
    ],
)
def test_alpha_that_has_no_shape_is_refused(shared: list[int], shape: tuple[int | None, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ISRLU(learnable=True, shared_axes=shared)(keras.Input(shape))


def test_bad_tensors_are_refused() -> None:
    with pytest.raises(TypeError, match="isrlu takes real arrays, got complex64"):
        isrlu(_data(2).astype("complex64"))
    with pytest.raises(TypeError, match="on a symbolic tensor alpha must be a number"):
        isrlu(keras.Input((2,)), np.ones(2, "float32"))
