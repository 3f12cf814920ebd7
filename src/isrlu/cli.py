"""The command line. Each command imports what it runs when it runs, so that `isrlu info` needs no framework."""

import sys
from pathlib import Path
from typing import Annotated

from isrlu._errors import UserError, lacking
from isrlu._files import try_to_write

try:
    import rich
    import rich.markup
    import rich.table
    import typer
except ImportError:
    sys.exit("isrlu: the command line needs typer and rich: pip install 'isrlu[cli]'")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
bench = typer.Typer(no_args_is_help=True, help="Benchmarks: contenders interleaved, checked against the oracle first.")
app.add_typer(bench, name="bench")
results = typer.Typer(no_args_is_help=True, help="The stored training runs of the experiments.")
app.add_typer(results, name="results")

MOST_THREADS = 1024  # with many more, PyTorch ends in a segmentation fault


@app.callback()
def _root() -> None:
    """ISRLU and ISRU: smooth activation functions at the price of ReLU."""


@app.command()
def info() -> None:
    """Show CPU, instruction set, versions and threads."""
    from isrlu import environment

    found = environment.capture()
    table = rich.table.Table(box=None, show_header=False)
    table.add_row("CPU", found["cpu"])
    table.add_row("instruction set", f"{found['simd']} (this CPU has {', '.join(found['simd_available'])})")
    table.add_row("threads", str(found["threads"]))
    table.add_row("system", found["os"])
    for name, version in found["versions"].items():
        table.add_row(name, version)
    rich.print(table)


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


@app.command()
def accuracy(
    quick: Annotated[bool, typer.Option("--quick", help="A sample instead of every float32.")] = False,
    simd: Annotated[list[str] | None, typer.Option(help="Instruction sets (all that this CPU has).")] = None,
    markdown: Markdown = None,
    json: Json = None,
) -> None:
    """Compare ISRLU, in every method and instruction set, with a reference of higher precision."""
    from isrlu import accuracy
    from isrlu.bench import show

    with show.progress("every float32" if not quick else "a sample of float32") as advance:
        found = accuracy.run(show.instruction_sets(simd), quick=quick, progress=advance)
    if markdown:
        show.write(markdown, accuracy.markdown(found) + "\n")
    if json:
        show.write_json(json, found)
    if not (markdown or json):
        show.accuracy(found)


@bench.command("mnist")
def bench_mnist(
    architecture: Annotated[int, typer.Option(min=1, max=2, help="The paper's network.")] = 1,
    steps: Annotated[int, typer.Option(min=10, help="Steps of 100 images that each contender takes in a round.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each contender is timed.")] = 3,
    folder: Annotated[str | None, typer.Option("--data", help="Folder of MNIST's IDX files.")] = None,
) -> None:
    """Images per second: the grid of ISRLU runs against a plain PyTorch loop with F.elu."""
    from isrlu.bench import mnist, show

    with show.status() as say:
        found = mnist.run(folder, architecture, steps=steps, rounds=rounds, say=say, warn=_complain)
    for name, rates in found.items():
        rich.print(f"{name:7} {', '.join(f'{rate:,.0f}' for rate in rates)} images/s")
    plain, one = mnist.ratio(found), mnist.ratio(found, "one run")
    rich.print(f"the grid has {plain:.2f} times the throughput of the plain loop (median of {rounds} rounds),")
    rich.print(f"and {one:.2f} times that of one run on all threads")


@bench.command("kernels")
def bench_kernels(
    simd: Annotated[list[str] | None, typer.Option(help="Instruction sets (all that this CPU has).")] = None,
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from first-level cache to memory).")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")] = 25,
    markdown: Markdown = None,
    json: Json = None,
) -> None:
    """ns and cycles per element of every kernel, and of ReLU, ELU, tanh and sigmoid."""
    from isrlu.bench import kernels, show

    with show.status() as say:
        rows = kernels.run(show.instruction_sets(simd), size or kernels.SIZES, rounds=rounds, progress=say)
    if markdown:
        show.write(markdown, kernels.markdown(rows) + "\n")
    if json:
        show.write_json(json, rows)
    if not (markdown or json):
        show.kernels(rows)


@bench.command("numpy")
def bench_numpy(
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from 16 to 16M).")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")] = 25,
    json: Json = None,
) -> None:
    """isrlu.numpy against np.maximum and NumPy expressions."""
    from isrlu.bench import numpy, show

    with show.status() as say:
        rows = numpy.run(size or numpy.SIZES, rounds=rounds, progress=say)
    if json:
        show.write_json(json, rows)
    else:
        show.numpy(rows)


@bench.command("rnn")
def bench_rnn(
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Sequences (1 and 32).")] = None,
    hidden: Annotated[list[int] | None, typer.Option(min=1, help="Hidden units (64 to 512).")] = None,
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Threads of the layers.")] = 2,
    simd: Annotated[
        list[str] | None, typer.Option(help="Instruction sets of the gates (all that this CPU has).")
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")] = 25,
    json: Json = None,
) -> None:
    """LSTM and GRU beside torch.nn's; their gates with ISRU beside sigmoid and tanh."""
    from dataclasses import asdict

    from isrlu.bench import rnn, show

    with show.status() as say:
        gates = rnn.run_gates(show.instruction_sets(simd), rounds=rounds, progress=say)
        sizes = {"batches": batch or rnn.BATCHES, "hidden": hidden or rnn.HIDDEN}
        layers = rnn.run_layers(**sizes, threads=threads, rounds=rounds, progress=say)
    if json:
        show.write_json(json, [*map(asdict, gates), *map(asdict, layers)])
    else:
        show.recurrent(gates, layers)


@bench.command("torch")
def bench_torch(
    size: Annotated[list[int] | None, typer.Option(min=1, help="Elements (from 16 to 16M).")] = None,
    threads: Annotated[list[int] | None, typer.Option(min=1, max=MOST_THREADS, help="Threads (1 and all).")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")] = 25,
    functions: Annotated[bool, typer.Option(help="Time the functions.")] = True,
    steps: Annotated[bool, typer.Option(help="Time the paper's networks and a compiled block.")] = True,
    json: Json = None,
) -> None:
    """Time of a call beside PyTorch's own activations; of a training step, with its peak memory."""
    from dataclasses import asdict

    from isrlu.bench import show
    from isrlu.bench import steps as in_networks
    from isrlu.bench import torch as calls

    with show.status() as say:
        rows = calls.run(size or calls.SIZES, threads, rounds=rounds, progress=say) if functions else []
        found = in_networks.run(rounds=rounds, progress=say) if steps else []
    if json:
        show.write_json(json, [*map(asdict, rows), *map(asdict, found)])
    else:
        show.torch(rows)
        if found:
            show.steps(found)


Sizes = Annotated[list[int] | None, typer.Option("--size", min=1, help="Elements (1,000 to 16 million).")]
Rounds = Annotated[int, typer.Option(min=2, help="Times that each contender is timed.")]


@bench.command("jax")
def bench_jax(size: Sizes = None, rounds: Rounds = 25, json: Json = None) -> None:
    """isrlu and isru against relu, elu, silu, gelu and tanh of jax.nn under jit, forward and gradient."""
    from isrlu.bench import arrays, show
    from isrlu.bench.jax import Jax

    with show.status() as say:
        rows = arrays.run(Jax(), size or arrays.SIZES, rounds=rounds, progress=say)
    show.arrays(rows, json)


@bench.command("keras")
def bench_keras(
    backend: Annotated[str, typer.Option(help="What Keras runs on: tensorflow, jax or torch.")] = "tensorflow",
    size: Sizes = None,
    rounds: Rounds = 25,
    json: Json = None,
) -> None:
    """isrlu and isru against Keras' activations, forward and gradient, and in the train step of a small CNN."""
    from isrlu.bench import arrays, show

    show.choose_keras_backend(backend)
    from isrlu.bench import keras  # after the choice

    with show.status() as say:
        rows = arrays.run(keras.Keras(), size or arrays.SIZES, rounds=rounds, progress=say)
        rows += keras.train_step(rounds=rounds)
    show.arrays(rows, json)


@bench.command("onnx")
def bench_onnx(size: Sizes = None, rounds: Rounds = 25, json: Json = None) -> None:
    """The ONNX functions against Relu, Elu and Tanh of onnxruntime, alone and in a small perceptron."""
    from isrlu.bench import arrays, onnx, show

    with show.status() as say:
        rows = onnx.run(size or arrays.SIZES, rounds=rounds, progress=say)
    show.arrays(rows, json)


Out = Annotated[Path, typer.Option("--out", help="Folder of the results and the report.")]
Data = Annotated[str | None, typer.Option("--data", help="Folder of MNIST's IDX files, or of data of their form.")]


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments (all, if none): see --list.")] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's protocol instead of the quick preset.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Repeat what is already done.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Name the experiments with their expected times.")] = False,
    out: Out = Path("results"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of each training run.")] = None,
    engine: Annotated[str, typer.Option(help="What trains: local, ray, or ray:ADDRESS.")] = "local",
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Train part I of N only; then merge.")] = None,
    data: Data = None,
) -> None:
    """Rebuild the paper's tables and figures on this machine and write the report."""
    from rich.console import Console

    from isrlu.paper import registry, runner, show

    console = Console()
    if listing:
        show.listing(console, registry.select(names or []))
        return
    options = {"seeds": seeds, "engine": engine, "shard": shard, "data": data}
    if (engine, shard, data) != ("local", None, None):
        from isrlu.paper.runs import study

        study.check_options(options)
    errors = Console(stderr=True)
    raise typer.Exit(
        runner.reproduce(names or [], out, full=full, again=again, console=console, errors=errors, options=options)
    )


@app.command()
def report(out: Out = Path("results")) -> None:
    """Write the HTML report of the results that are there."""
    from isrlu.report import build

    damaged: list[str] = []
    path = build.write(out, warn=damaged.append)
    rich.print(f"report: [bold]{rich.markup.escape(str(path))}[/]")
    for message in damaged:
        _complain(message)
    raise typer.Exit(1 if damaged else 0)


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="The data set: mnist.")] = "mnist",
    folder: Data = None,
) -> None:
    """Find or fetch the data, check it, and say where it is."""
    from isrlu.data import command

    command.show(name, folder)


@app.command()
def train(
    architecture: Annotated[int, typer.Option(help="The paper's network: 1 (table 4) or 2 (table 5).")] = 1,
    activation: Annotated[str, typer.Option(help="isrlu, elu or relu.")] = "isrlu",
    alpha: Annotated[float, typer.Option(help="Of ISRLU or ELU.")] = 1.0,
    learnable: Annotated[bool, typer.Option("--learnable", help="Learn ISRLU's alpha, from --alpha on.")] = False,
    method: Annotated[str, typer.Option(help="ISRLU's inverse square root: full, approx, kinney...")] = "full",
    width: Annotated[int, typer.Option(help="Hidden units of the dense layer; 0: the paper's.")] = 0,
    pkeep: Annotated[float, typer.Option(help="Probability of keeping a unit of the dense layer.")] = 0.4,
    pkeep_conv: Annotated[float, typer.Option(help="The same after each max-pool, in architecture 2.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Times through the training data.")] = 17,
    steps: Annotated[int, typer.Option(help="Stop after so many steps; 0: after the last epoch.")] = 0,
    evaluations: Annotated[int, typer.Option(help="Looks at the test set in an epoch.")] = 1,
    batch: Annotated[int, typer.Option(help="Images in a step.")] = 100,
    seed: Annotated[int, typer.Option(help="Of weights, order and dropout.")] = 0,
    threads: Annotated[int, typer.Option(min=0, max=MOST_THREADS, help="torch's threads; 0: as torch has it.")] = 0,
    data: Data = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File to go on from, and to write after each epoch.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="File for the result.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
) -> None:
    """Train one of the paper's MNIST networks; under torchrun, on several processes."""
    from isrlu.paper.mnist import command

    spec = {
        "architecture": architecture,
        "activation": activation,
        "alpha": alpha,
        "learnable": learnable,
        "method": method,
        "width": width,
        "pkeep": pkeep,
        "pkeep_conv": pkeep_conv,
        "epochs": epochs,
        "steps": steps,
        "evaluations": evaluations,
        "batch": batch,
        "seed": seed,
    }
    files = {"checkpoint": checkpoint, "output": output, "tensorboard": tensorboard}
    raise typer.Exit(command.train_one(spec, threads=threads, data=data, **files))


@results.command()
def merge(
    stores: Annotated[list[Path], typer.Argument(help="Other output folders, or their stores of runs.")],
    out: Out = Path("results"),
) -> None:
    """Take over the runs of other stores: of the shards of a grid, trained on other machines."""
    from isrlu.paper.runs import command

    command.merge(stores, out)


@results.command("show")
def show_runs(
    out: Out = Path("results"),
    output: Annotated[Path | None, typer.Option("--json", help="File for all runs with their histories.")] = None,
) -> None:
    """List the stored runs; also while they are being trained."""
    from isrlu.paper.runs import command

    command.show(out, output)


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        app()
    except UserError as error:
        sys.exit(_complain(str(error)))
    except ModuleNotFoundError as error:
        message = lacking(error)
        if message is None:
            raise
        sys.exit(_complain(message))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # PyTorch's word for it
            raise
        sys.exit(_complain("this machine has not enough memory for it: ask for less"))


def _complain(message: str) -> int:
    print(f"isrlu: {message}", file=sys.stderr)
    return 2
