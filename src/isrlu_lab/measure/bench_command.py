"""The commands that measure: `isrlu accuracy` and `isrlu bench`."""

from pathlib import Path
from typing import Annotated

import rich
import typer

from isrlu_lab.atomic_files import try_to_write
from isrlu_lab.errors import print_error

bench = typer.Typer(no_args_is_help=True, help="Benchmarks: contenders interleaved, checked against the oracle first.")

MOST_THREADS = 1024  # with many more, PyTorch ends in a segmentation fault


def _tried(option: typer.CallbackParam, path: Path | None) -> Path | None:
    if path:
        try_to_write(path, option.opts[0])
    return path


Json = Annotated[
    Path | None, typer.Option("--json", callback=_tried, help="File for the figures; - for standard output.")
]
Markdown = Annotated[
    Path | None, typer.Option(callback=_tried, help="File for the table in Markdown; - for standard output.")
]
Simd = Annotated[list[str] | None, typer.Option(help="Instruction sets (all that this CPU has).")]
Rounds = Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")]


def accuracy(
    quick: Annotated[bool, typer.Option("--quick", help="A sample instead of every float32.")] = False,
    simd: Simd = None,
    markdown: Markdown = None,
    json: Json = None,
) -> None:
    """Compare ISRLU, in every method and instruction set, with a reference of higher precision."""
    from isrlu_lab.measure import bench_output, exhaustive_accuracy

    with bench_output.progress("every float32" if not quick else "a sample of float32") as advance:
        found = exhaustive_accuracy.run(bench_output.instruction_sets(simd), quick=quick, progress=advance)
    if markdown:
        bench_output.write(markdown, exhaustive_accuracy.markdown(found) + "\n")
    if json:
        bench_output.write_json(json, found)
    if not (markdown or json):
        bench_output.accuracy(found)


@bench.command("mnist")
def bench_mnist(
    architecture: Annotated[int, typer.Option(min=1, max=2, help="The paper's network.")] = 1,
    steps: Annotated[int, typer.Option(min=10, help="Steps of 100 images that each contender takes in a round.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each contender is timed.")] = 3,
    folder: Annotated[str | None, typer.Option("--data", help="Folder of MNIST's IDX files.")] = None,
) -> None:
    """Images per second: the grid of ISRLU runs against a plain PyTorch loop with F.elu."""
    from isrlu_lab.measure import bench_output, grid_bench

    with bench_output.status() as say:
        found = grid_bench.run(folder, architecture, steps=steps, rounds=rounds, say=say, warn=print_error)
    for name, rates in found.items():
        rich.print(f"{name:7} {', '.join(f'{rate:,.0f}' for rate in rates)} images/s")
    plain, one = grid_bench.ratio(found), grid_bench.ratio(found, "one run")
    rich.print(f"the grid has {plain:.2f} times the throughput of the plain loop (median of {rounds} rounds),")
    rich.print(f"and {one:.2f} times that of one run on all threads")


@bench.command("kernels")
def bench_kernels(
    simd: Simd = None,
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from first-level cache to memory).")] = None,
    rounds: Rounds = 25,
    markdown: Markdown = None,
    json: Json = None,
) -> None:
    """ns and cycles per element of the kernels, and of ReLU, ELU, tanh and sigmoid."""
    from isrlu_lab.measure import bench_output, kernel_bench

    with bench_output.status() as say:
        rows = kernel_bench.run(
            bench_output.instruction_sets(simd), size or kernel_bench.SIZES, rounds=rounds, progress=say
        )
    if markdown:
        bench_output.write(markdown, kernel_bench.markdown(rows) + "\n")
    if json:
        bench_output.write_json(json, rows)
    if not (markdown or json):
        bench_output.kernels(rows)


@bench.command("numpy")
def bench_numpy(
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from 16 to 16M).")] = None,
    rounds: Rounds = 25,
    json: Json = None,
) -> None:
    """isrlu.numpy against np.maximum and NumPy expressions."""
    from isrlu_lab.measure import bench_output, numpy_bench

    with bench_output.status() as say:
        rows = numpy_bench.run(size or numpy_bench.SIZES, rounds=rounds, progress=say)
    if json:
        bench_output.write_json(json, rows)
    else:
        bench_output.numpy(rows)


@bench.command("rnn")
def bench_rnn(
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Sequences (1 and 32).")] = None,
    hidden: Annotated[list[int] | None, typer.Option(min=1, help="Hidden units (64 to 512).")] = None,
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Threads of the layers.")] = 2,
    simd: Annotated[
        list[str] | None, typer.Option(help="Instruction sets of the gates (all that this CPU has).")
    ] = None,
    rounds: Rounds = 25,
    json: Json = None,
) -> None:
    """LSTM and GRU beside torch.nn's; their gates with ISRU beside sigmoid and tanh."""
    from dataclasses import asdict

    from isrlu_lab.measure import bench_output, recurrent_bench

    with bench_output.status() as say:
        gates = recurrent_bench.run_gates(bench_output.instruction_sets(simd), rounds=rounds, progress=say)
        sizes = {"batches": batch or recurrent_bench.BATCHES, "hidden": hidden or recurrent_bench.HIDDEN}
        layers = recurrent_bench.run_layers(**sizes, threads=threads, rounds=rounds, progress=say)
    if json:
        bench_output.write_json(json, [*map(asdict, gates), *map(asdict, layers)])
    else:
        bench_output.recurrent(gates, layers)


@bench.command("torch")
def bench_torch(
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from 16 to 16M).")] = None,
    threads: Annotated[list[int] | None, typer.Option(min=1, max=MOST_THREADS, help="Threads (1 and all).")] = None,
    rounds: Rounds = 25,
    functions: Annotated[bool, typer.Option(help="Time the functions.")] = True,
    steps: Annotated[bool, typer.Option(help="Time the paper's networks and a compiled block.")] = True,
    json: Json = None,
) -> None:
    """Time of a call beside PyTorch's own activations; of a training step, with its peak memory."""
    from dataclasses import asdict

    from isrlu_lab.measure import bench_output, torch_bench, training_step_bench

    with bench_output.status() as say:
        rows = torch_bench.run(size or torch_bench.SIZES, threads, rounds=rounds, progress=say) if functions else []
        found = training_step_bench.run(rounds=rounds, progress=say) if steps else []
    if json:
        bench_output.write_json(json, [*map(asdict, rows), *map(asdict, found)])
    else:
        bench_output.torch(rows)
        if found:
            bench_output.steps(found)


Sizes = Annotated[list[int] | None, typer.Option("--size", min=1, help="Elements (1,000 to 16 million).")]


@bench.command("jax")
def bench_jax(size: Sizes = None, rounds: Rounds = 25, json: Json = None) -> None:
    """isrlu and isru against relu, elu, silu, gelu and tanh of jax.nn under jit, forward and gradient."""
    from isrlu_lab.measure import bench_output, framework_bench
    from isrlu_lab.measure.jax_bench import Jax

    with bench_output.status() as say:
        rows = framework_bench.run(Jax(), size or framework_bench.SIZES, rounds=rounds, progress=say)
    bench_output.arrays(rows, json)


@bench.command("keras")
def bench_keras(
    backend: Annotated[str, typer.Option(help="What Keras runs on: tensorflow, jax or torch.")] = "tensorflow",
    size: Sizes = None,
    rounds: Rounds = 25,
    json: Json = None,
) -> None:
    """isrlu and isru against Keras' activations, forward and gradient, and in the train step of a small CNN."""
    from isrlu_lab.measure import bench_output, framework_bench

    bench_output.choose_keras_backend(backend)
    from isrlu_lab.measure import keras_bench  # after the choice

    with bench_output.status() as say:
        rows = framework_bench.run(keras_bench.Keras(), size or framework_bench.SIZES, rounds=rounds, progress=say)
        rows += keras_bench.train_step(rounds=rounds)
    bench_output.arrays(rows, json)


@bench.command("onnx")
def bench_onnx(size: Sizes = None, rounds: Rounds = 25, json: Json = None) -> None:
    """The ONNX functions against Relu, Elu and Tanh of onnxruntime, alone and in a small perceptron."""
    from isrlu_lab.measure import bench_output, framework_bench, onnx_bench

    with bench_output.status() as say:
        rows = onnx_bench.run(size or framework_bench.SIZES, rounds=rounds, progress=say)
    bench_output.arrays(rows, json)
