"""The commands that measure: `isrlu accuracy` and `isrlu bench`.

A new bench is one file with a function `bench(**options, progress) -> Tables`, and one entry in `BENCHES`. The file
is imported when the bench runs, so that no other command needs its framework.
"""

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import isrlu
from isrlu_lab.atomic_files import try_to_write
from isrlu_lab.errors import UserError

MOST_THREADS = 1024  # with many more, PyTorch ends in a segmentation fault
KERAS_BACKENDS = ("tensorflow", "jax", "torch")


@dataclass(frozen=True)
class Bench:
    """One `isrlu bench NAME`."""

    name: str
    module: str  # in isrlu_lab.measure
    options: str  # names in OPTIONS; --markdown and --json come with every bench
    help: str


BENCHES = (
    Bench(
        "kernels", "kernel_bench", "simd size rounds",
        "ns and cycles per element of the kernels, and of ReLU, ELU, tanh and sigmoid.",
    ),
    Bench("numpy", "numpy_bench", "size rounds", "isrlu.numpy against np.maximum and NumPy expressions."),
    Bench(
        "torch", "torch_bench", "size threads rounds functions steps device",
        "Time of a call beside PyTorch's own activations; of a training step, with its peak memory.",
    ),
    Bench(
        "gpu-code", "gpu_code_bench", "",
        "What a GPU executes for the Triton kernels, ReLU and ELU: instructions and registers. Needs Triton, no GPU.",
    ),
    Bench(
        "rnn", "recurrent_bench", "batch hidden layer_threads simd rounds",
        "LSTM and GRU beside torch.nn's, also in short calls with packed weights; their gates beside sigmoid and tanh.",
    ),
    Bench(
        "norm", "norm_bench", "threads rounds",
        "DyISRU beside PyTorch's layer_norm and rms_norm, and beside DyT and Derf in torch ops.",
    ),
    Bench(
        "jax", "jax_bench", "size rounds",
        "isrlu and isru against relu, elu, silu, gelu and tanh of jax.nn under jit, forward and gradient.",
    ),
    Bench(
        "keras", "keras_bench", "backend size rounds",
        "isrlu and isru against Keras' activations, forward and gradient, and in the train step of a small CNN.",
    ),
    Bench(
        "onnx", "onnx_bench", "size rounds",
        "The ONNX functions against Relu, Elu and Tanh of onnxruntime, alone and in a small perceptron.",
    ),
    Bench(
        "mnist", "grid_bench", "architecture training_steps training_rounds data",
        "Images per second: the grid of ISRLU runs against a plain PyTorch loop with F.elu.",
    ),
)  # fmt: skip


def _check_writable(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """Fail before the measurement, not after it."""
    if path:
        try_to_write(path, option.opts[0])
    return path


def _instruction_sets(names: list[str] | None) -> list[str]:
    """The named instruction sets, or all that this CPU has."""
    available = isrlu.simd_available()
    if unknown := [name for name in names or [] if name not in available]:
        raise UserError(f"instruction set {unknown[0]!r} is not available here: this CPU has {', '.join(available)}")
    return names or list(available)


def _choose_keras_backend(name: str) -> str:
    """Set the backend before Keras is imported, and silence TensorFlow's log."""
    if name not in KERAS_BACKENDS:
        raise UserError(f"unknown Keras backend {name!r}: known are {', '.join(KERAS_BACKENDS)}")
    os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return name


Simd = Annotated[
    list[str] | None, typer.Option(callback=_instruction_sets, help="Instruction sets (all that this CPU has).")
]
Markdown = Annotated[
    Path | None, typer.Option(callback=_check_writable, help="File for the tables in Markdown; - for standard output.")
]
Json = Annotated[
    Path | None, typer.Option("--json", callback=_check_writable, help="File for the figures; - for standard output.")
]
Sizes = Annotated[list[int] | None, typer.Option(min=1, help="Elements; repeatable (several, up to 16 million).")]
Threads = Annotated[list[int] | None, typer.Option(min=1, max=MOST_THREADS, help="Threads; repeatable (1 and all).")]
Functions = Annotated[bool, typer.Option(help="Time the functions.")]
Steps = Annotated[bool, typer.Option(help="Time the paper's networks and a compiled block.")]
Backend = Annotated[
    str, typer.Option(callback=_choose_keras_backend, help="What Keras runs on: tensorflow, jax or torch.")
]
TrainingSteps = Annotated[
    int, typer.Option("--steps", min=10, help="Steps of 100 images that each contender takes in a round.")
]

# Parameter name -> (type and help, default). A bench gets its options under these names.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "simd": (Simd, None),
    "size": (Sizes, None),
    "rounds": (Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")], 25),
    "threads": (Threads, None),
    "functions": (Functions, True),
    "steps": (Steps, True),
    "device": (Annotated[str, typer.Option(help="Where the functions run: cpu, cuda (also ROCm) or xpu.")], "cpu"),
    "batch": (Annotated[list[int] | None, typer.Option(min=1, help="Sequences; repeatable (1 and 32).")], None),
    "hidden": (Annotated[list[int] | None, typer.Option(min=1, help="Hidden units; repeatable (64 to 512).")], None),
    "layer_threads": (
        Annotated[int, typer.Option("--threads", min=1, max=MOST_THREADS, help="Threads of the layers.")],
        2,
    ),
    "backend": (Backend, "tensorflow"),
    "architecture": (Annotated[int, typer.Option(min=1, max=2, help="The paper's network.")], 1),
    "training_steps": (TrainingSteps, 200),
    "training_rounds": (
        Annotated[int, typer.Option("--rounds", min=1, help="Times that each contender is timed.")],
        3,
    ),
    "data": (Annotated[str | None, typer.Option(help="Folder of MNIST's IDX files.")], None),
    "markdown": (Markdown, None),
    "json": (Json, None),
}


def accuracy(
    quick: Annotated[bool, typer.Option("--quick", help="A sample instead of every float32.")] = False,
    simd: Simd = None,
    markdown: Markdown = None,
    json: Json = None,
) -> None:
    """Compare ISRLU, in every method and instruction set, with a reference of higher precision."""
    from isrlu_lab.measure import exhaustive_accuracy, printer, progress

    with progress.bar("every float32" if not quick else "a sample of float32") as advance:
        found = exhaustive_accuracy.run(simd or [], quick=quick, progress=advance)
    printer.show([(exhaustive_accuracy.LAYOUT, found)], markdown=markdown, json=json)


def _command(bench: Bench) -> Callable[..., None]:
    """The function that Typer turns into `isrlu bench NAME`; its signature is made from OPTIONS."""

    def command(*, markdown: Path | None, json: Path | None, **options: Any) -> None:
        from isrlu_lab.measure import printer, progress

        module = importlib.import_module(f"isrlu_lab.measure.{bench.module}")
        with progress.status() as say:
            tables = module.bench(**options, progress=say)
        printer.show(tables, markdown=markdown, json=json)

    chosen = {name: OPTIONS[name] for name in (*bench.options.split(), "markdown", "json")}
    command.__annotations__ = {name: kind for name, (kind, _) in chosen.items()}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in chosen.items()
        ]
    )
    return command


bench = typer.Typer(no_args_is_help=True, help="Benchmarks: contenders interleaved, checked against the oracle first.")
for each in BENCHES:
    bench.command(each.name, help=each.help)(_command(each))
