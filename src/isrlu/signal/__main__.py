"""Print the tables of docs/signal.md: python -m isrlu.signal"""

import math
from collections.abc import Iterable

from isrlu import signal

ALPHAS = (0.1, 0.5, 0.67, 1, 3, 10)
SELF_NORMALIZING = (0.1, 0.3, 0.5, 0.52, signal.SISRLU_ALPHA, 1, 2, 3, 5, 10)
MEAN, VARIANCE = (-0.1, 0.1), (0.8, 1.5)  # the domain of Klambauer et al.


def table(title: str, head: str, rows: Iterable[Iterable[str]]) -> None:
    columns = head.split(", ")
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def gains(function: str) -> None:
    table(
        f"{function} of a standard normal",
        "alpha, mean, variance, 1/std, 1/rms, slope of the variance, slope of the second moment",
        (
            (
                f"{alpha:g}",
                *(f"{value:.5f}" for value in signal.moments(function, alpha)),
                *(f"{of(function, alpha):.4f}" for of in (signal.std_gain, signal.rms_gain)),
                *(f"{of(function, alpha):.4f}" for of in (signal.variance_slope, signal.second_moment_slope)),
            )
            for alpha in ALPHAS
        ),
    )


def constants() -> None:
    rows = []
    for alpha in SELF_NORMALIZING:
        beta, lambda_ = signal.sisrlu_constants(alpha)
        slope = signal.variance_slope("sisrlu", alpha)
        saturation = -lambda_ * beta / math.sqrt(alpha)
        rows.append((f"{alpha:g}", f"{beta:.5f}", f"{lambda_:.5f}", f"{saturation:.4f}", f"{slope:.3f}"))
    rows.append(("SELU", "", "1.05070", "-1.7581", f"{signal.variance_slope('selu'):.3f}"))
    table("Self-normalising ISRLU", "alpha, beta, lambda, saturation, slope of the variance", rows)


def domain() -> None:
    rows = []
    for name, function, alpha in (
        ("selu", "selu", None),
        *((f"sisrlu {alpha:g}", "sisrlu", alpha) for alpha in SELF_NORMALIZING),
        *((f"centered_isrlu {alpha:g}", "centered_isrlu", alpha) for alpha in (0.5, 1, 3)),
    ):
        mean, variance, norm = signal.check_domain(function, alpha)
        inside = MEAN[0] < mean[0] and mean[1] < MEAN[1] and VARIANCE[0] < variance[0] and variance[1] < VARIANCE[1]
        shown = f"{mean[0]:.4f}..{mean[1]:.4f}", f"{variance[0]:.3f}..{variance[1]:.3f}", f"{norm:.3f}"
        rows.append((name, *shown, "yes" if inside and norm < 1 else "no"))
    head = "function, mean after a layer, variance after a layer, norm of the Jacobian, conditions hold"
    table(f"One layer over the domain of means {MEAN} and variances {VARIANCE}", head, rows)


if __name__ == "__main__":
    gains("isrlu")
    gains("isru")
    constants()
    domain()
