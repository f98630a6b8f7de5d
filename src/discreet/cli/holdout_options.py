"""Options and output that ``train`` and ``evaluate`` share: held-out users, what they say, and who signs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from discreet.base.errors import InvalidInput
from discreet.cli.output import check_outputs, print_table

_PANEL = "Judgement"

Holdout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--holdout",
        metavar="SHARE",
        help="Hold out this share of users, such as 0.35: they judge the policy instead of being learned from.",
        rich_help_panel=_PANEL,
    ),
]
Clip: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--clip",
        metavar="auto",
        help="auto: a tenth of epsilon buys an interval that outcomes of one step are clipped to, so that a wide "
        "--rewards costs little.",
        rich_help_panel="Privacy",
    ),
]
Judge: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="WHO",
        help="everybody: the table of one step that is learned from judges, too, at no further cost (the default of "
        "one step without --holdout); or nobody.",
        rich_help_panel=_PANEL,
    ),
]
Behaviour: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--behaviour",
        metavar="FILE|P,P,...",
        help="The policy that users followed, if it is known (a policy file, uniform, or a probability for each action "
        "such as .35,.30,.35): narrower intervals, and apvi falls back on it.",
        rich_help_panel=_PANEL,
    ),
]
Returns: TypeAlias = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--returns",
        metavar="LOW HIGH",
        help="The range of the sum of rewards from any step on, where it is narrower than --rewards allow.",
        rich_help_panel=_PANEL,
    ),
]
Safe: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--safe", help="Keep to the declared behaviour where few users show what happens.", rich_help_panel=_PANEL
    ),
]
SplitFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--split",
        metavar="FILE",
        help="Where it is recorded who was held out; private. Beside the policy unless given.",
        rich_help_panel=_PANEL,
    ),
]
Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the intervals (.png, .svg, .pdf).", rich_help_panel="Output"),
]

Key: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The key that signs the receipt (discreet ledger key); your own one unless given.",
        rich_help_panel="Output",
    ),
]


def signing_key(key: Path | None, receipt: Path | None) -> Any:
    """The key that signs a receipt, made or opened before any noise is drawn; None where there is none."""
    from discreet.ledger import keys

    if receipt is not None:
        return keys.signing_key(key)
    if key is not None:
        raise InvalidInput("--key signs a receipt: name the file of the receipt, too")
    return None


def signed_by(key: Any) -> str:
    """Who signed a receipt, or that nobody did."""
    from discreet.ledger.keys import own_key_file, public_digits

    if key is not None:
        return f"signed by {public_digits(key.public_key())}"
    return f"not signed, because no key can be kept as {own_key_file()}: give --key"


def split_beside(policy: Path, split: Path | None, holdout: float | None) -> Path | None:
    """The file of the split: as given, else beside the policy; none without held-out users."""
    from discreet.base.files import check_distinct, check_writable

    if holdout is None:
        if split is not None:
            raise InvalidInput("--split records who is held out: give --holdout, too")
        return None
    file = recorded_beside(policy) if split is None else split
    check_distinct({"--out": policy, "--split": file})
    if not file.exists():
        check_writable(file)
    elif split is None:
        raise InvalidInput(
            f"{str(file)!r} records an earlier split: give it as --split to use it again, or move it away for a new one"
        )
    return file


def recorded_beside(policy: Path) -> Path:
    """Where the split of a policy is recorded unless told otherwise."""
    return policy.with_name(policy.stem + ".split.json")


def check_plot(plot: Path | None, holdout: float | None, judge: str | None = None) -> None:
    """Refuse a picture that could not be drawn, before any work."""
    if plot is not None and holdout is None and judge != "everybody":
        raise InvalidInput("--plot draws what judges say: give --holdout, too, or --judge everybody for one step")
    check_outputs(plot=plot)


def print_judgement(evaluation: Mapping[str, Any]) -> None:
    """The three intervals and the verdict."""
    words = {"value": "the policy", "behaviour": "the behaviour", "difference": "difference"}
    rows = [
        [word, *(f"{evaluation[name][part]:.4g}" for part in ("estimate", "low", "high"))]
        for name, word in words.items()
    ]
    confidence = evaluation["value"]["confidence"]
    print_table([f"{confidence:.0%} intervals", "estimate", "low", "high"], rows, right=("estimate", "low", "high"))
    typer.echo(f"{evaluation['verdict']}.")
    if "by" in evaluation:
        typer.echo(f"{evaluation['by'].capitalize()}.")
    judged, users = evaluation["judged"], evaluation["users"]
    about = f"{judged['users']:,.0f} ± {3 * judged['deviation']:,.0f} of {users:,}"
    typer.echo(f"About {about} people were judged, each until her record ends.")
