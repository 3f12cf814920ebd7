"""The command line. Each command imports what it runs when it runs, so that `isrlu info` needs no framework."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import Annotated

try:
    import isrlu
except ImportError as error:  # the core rejects an unknown or unsupported instruction set
    if not str(error).startswith("ISRLU_SIMD"):
        raise
    print(f"isrlu: {error}", file=sys.stderr)
    sys.exit(2)

from isrlu._missing import install_extra, install_hint
from isrlu_lab.errors import UserError, print_error

try:
    import rich
    import rich.markup
    import rich.table
    import typer
except ImportError:
    sys.exit(f"isrlu: the command line needs typer and rich: {install_extra('cli')}")

from isrlu_lab.measure.bench_command import MOST_THREADS, accuracy, bench

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")
app.command()(accuracy)
results = typer.Typer(no_args_is_help=True, help="Stored training runs.")
app.add_typer(results, name="results")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"isrlu {isrlu.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """ISRLU and ISRU: smooth activation functions at the price of ReLU."""


@app.command()
def info() -> None:
    """Show CPU, instruction set, versions and threads."""
    from isrlu_lab import environment

    found = environment.capture()
    table = rich.table.Table(box=None, show_header=False)
    table.add_row("CPU", found["cpu"])
    table.add_row("instruction set", f"{found['simd']} (this CPU has {', '.join(found['simd_available'])})")
    table.add_row("threads", str(found["threads"]))
    table.add_row("system", found["os"])
    for name, version in found["versions"].items():
        table.add_row(name, version)
    rich.print(table)


Out = Annotated[Path, typer.Option("--out", help="Folder for results and report.")]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="MNIST's folder, or one with data in its format; for cifar CIFAR-10's folder, for normfree a text file.",
    ),
]


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments, all by default: see --list.")] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's protocol instead of the quick preset.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Repeat what is already done.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments with their expected times.")] = False,
    out: Out = Path("results"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds of each training run.")] = None,
    engine: Annotated[str, typer.Option(help="Where to train: local, ray, or ray:ADDRESS.")] = "local",
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Train only part I of N, to be merged.")] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Make tables, figures and report from what is stored; train nothing.")
    ] = False,
    data: Data = None,
) -> None:
    """Rebuild the paper's tables and figures on this machine and write the report."""
    from rich.console import Console

    from isrlu_lab import reproduce
    from isrlu_lab.experiments import registry, terminal

    console = Console()
    if listing:
        terminal.listing(console, registry.select(names or []))
        return
    if stored and (engine != "local" or shard or again):
        raise UserError("--stored trains and measures nothing: give it without --engine, --shard and --again")
    options = {"seeds": seeds, "engine": engine, "shard": shard, "data": data, "stored": stored}
    if (engine, shard, data) != ("local", None, None):
        from isrlu_lab.experiments import study

        study.check_options(options)
    errors = Console(stderr=True)
    raise typer.Exit(
        reproduce.reproduce(names or [], out, full=full, again=again, console=console, errors=errors, options=options)
    )


@app.command()
def report(
    out: Out = Path("results"),
    shipped: Annotated[
        bool, typer.Option("--shipped", help="Only the results that ship with the package; nothing needs to be run.")
    ] = False,
) -> None:
    """Write the HTML report: the shipped results beside those made here."""
    from isrlu_lab.report import build

    damaged: list[str] = []
    path = build.write_shipped(out) if shipped else build.write(out, warn=damaged.append)
    rich.print(f"report: [bold]{rich.markup.escape(str(path))}[/]")
    for message in damaged:
        print_error(message)
    raise typer.Exit(1 if damaged else 0)


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="The data set: mnist, cifar10 or tinyshakespeare.")] = "mnist",
    folder: Data = None,
) -> None:
    """Find or download a data set (mnist, cifar10, tinyshakespeare), check it, and print where it is."""
    from isrlu_lab.data import data_command

    data_command.show(name, folder)


@app.command()
def train(
    architecture: Annotated[int, typer.Option(help="The paper's network: 1 (table 4) or 2 (table 5).")] = 1,
    activation: Annotated[str, typer.Option(help="isrlu, elu or relu.")] = "isrlu",
    alpha: Annotated[float, typer.Option(help="alpha of ISRLU or ELU.")] = 1.0,
    learnable: Annotated[bool, typer.Option("--learnable", help="Learn ISRLU's alpha, starting at --alpha.")] = False,
    method: Annotated[str, typer.Option(help="ISRLU's inverse square root: full, approx, kinney...")] = "full",
    width: Annotated[int, typer.Option(help="Hidden units of the dense layer; 0: the paper's.")] = 0,
    pkeep: Annotated[float, typer.Option(help="Probability of keeping a unit of the dense layer.")] = 0.4,
    pkeep_conv: Annotated[float, typer.Option(help="The same after each max-pool (architecture 2).")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.")] = 17,
    steps: Annotated[int, typer.Option(help="Stop after this many steps; 0: after the last epoch.")] = 0,
    evaluations: Annotated[int, typer.Option(help="Evaluations on the test set per epoch.")] = 1,
    batch: Annotated[int, typer.Option(help="Images per step.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of weights, shuffling and dropout.")] = 0,
    threads: Annotated[int, typer.Option(min=0, max=MOST_THREADS, help="Threads of PyTorch; 0: its default.")] = 0,
    data: Data = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File to resume from, written after each epoch.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="File for the result; - for standard output.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
) -> None:
    """Train one of the paper's MNIST networks; under torchrun, on several processes."""
    from isrlu_lab.training.mnist import train_command

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
    raise typer.Exit(train_command.train_one(spec, threads=threads, data=data, **files))


@app.command()
def hardware(
    function: Annotated[str | None, typer.Option(help="fma, multiply, rsqrt, isrlu, isru, elu, tanh or relu.")] = None,
    number: Annotated[str, typer.Option("--format", help="bf16, fp16, fp32, int8, int16, or fixedW.F.")] = "bf16",
    form: Annotated[str | None, typer.Option(help="table, linear or computed.")] = None,
    out: Annotated[Path | None, typer.Option(help="FILE.v for Verilog, FILE.h for the table as a C header.")] = None,
    testbench: Annotated[
        bool, typer.Option("--testbench", help="Also write FILE_tb.v and vectors of all inputs.")
    ] = False,
    pipelined: Annotated[bool, typer.Option("--pipelined", help="Put pipeline registers into the unit.")] = False,
    seeds: Annotated[int, typer.Option(min=0, max=99, help="Seeds of place and route; 0: gate counts alone.")] = 3,
    markdown: Annotated[Path | None, typer.Option(help="File for the table in Markdown; -: standard output.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="File for the table in JSON.")] = None,
) -> None:
    """Count gates of the units for ISRLU and ISRU and of what they replace, or write one unit as Verilog."""
    if out is None and (testbench or pipelined):
        raise UserError("--testbench and --pipelined belong to --out FILE.v")
    if out is not None and function is None:
        raise UserError("--out needs --function: fma, multiply, rsqrt, isrlu, isru, elu, tanh or relu")
    from isrlu_lab.hardware import hardware_command
    from isrlu_lab.measure import printer

    if out is not None and function is not None:
        files = hardware_command.write_files(function, number, form, out, testbench=testbench, pipelined=pipelined)
        print("\n".join(map(str, files)))
        return
    status = rich.get_console().status("")
    with status:
        tables = hardware_command.table(number, function, form, seeds, status.update)
    printer.show(tables, markdown=markdown, json=output)


@results.command()
def merge(
    stores: Annotated[list[Path], typer.Argument(help="Other output folders, or files of `results show --json`.")],
    out: Out = Path("results"),
) -> None:
    """Copy training runs from other output folders, such as shards trained on other machines."""
    from isrlu_lab.experiments import results_command

    raise typer.Exit(results_command.merge(stores, out))


@results.command("show")
def show_runs(
    out: Out = Path("results"),
    output: Annotated[
        Path | None, typer.Option("--json", help="File for all runs with their histories; - for standard output.")
    ] = None,
) -> None:
    """List the stored training runs; also works while others are being trained."""
    from isrlu_lab.experiments import results_command

    raise typer.Exit(results_command.show(out, output))


def _flush_output() -> None:
    """Write what standard output holds. If it does not take it, drop it: the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def main() -> None:
    """Run the command line. A user's mistake is reported in one line, with exit code 2."""
    if sys.stdout is None:  # closed by the shell: `isrlu info >&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the encoding lacks becomes "?": one column wide, so tables stay aligned. Standard error
        # never fails; Python itself writes such characters as escapes there.
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            app()
        except SystemExit:
            sys.stdout.flush()
            raise
    except UserError as error:
        _flush_output()
        sys.exit(print_error(str(error)))
    except ModuleNotFoundError as error:
        message = install_hint(error)
        if message is None:
            raise
        sys.exit(print_error(message))
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EPIPE):
            raise
        _flush_output()
        if error.errno == errno.EPIPE:  # `isrlu info | head -1`
            sys.exit(1)
        sys.exit(print_error(f"cannot write: {error.strerror}"))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # PyTorch's message
            raise
        sys.exit(print_error("this machine has not enough memory for it: ask for less"))
