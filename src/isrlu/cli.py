"""The command line. Each command imports what it runs when it runs, so that `isrlu info` needs no framework."""

import sys
from pathlib import Path
from typing import Annotated

from isrlu._errors import UserError

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


Out = Annotated[Path, typer.Option("--out", help="Folder of the results and the report.")]
Data = Annotated[str | None, typer.Option("--data", help="Folder of MNIST's IDX files, or of data of their form.")]


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments (all, if none): see --list.")] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's protocol instead of the quick preset.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Repeat what is already done.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Name the experiments with their expected times.")] = False,
    out: Out = Path("results"),
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of each row of the MNIST tables.")] = None,
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
    raise typer.Exit(
        runner.reproduce(
            names or [],
            out,
            full=full,
            again=again,
            console=console,
            errors=Console(stderr=True),
            options={"seeds": seeds, "engine": engine, "shard": shard, "data": data},
        )
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


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        app()
    except UserError as error:
        sys.exit(_complain(str(error)))


def _complain(message: str) -> int:
    print(f"isrlu: {message}", file=sys.stderr)
    return 2
