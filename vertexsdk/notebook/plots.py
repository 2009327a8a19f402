"""Plots of a result's numbers, with matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, shorten

_LONG = 24  # characters of an id at a bar


def plot_histogram(values: NDArray[Any], name: str, *, bins: int, ax: Any = None) -> Any:
    """Plot how many vertices have which value; return the Axes.

    Args:
        values: finite numbers.
        name: the field's name.
        bins: the number of bars.
        ax: the Axes to draw on; None makes a figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    ax = _axes(ax)
    ax.hist(values, bins=bins)
    if len(values) and values.min() > 0 and values.max() > 1000 * np.median(values):
        ax.set_yscale("log")  # else one bar hides the others
    ax.set_xlabel(name)
    ax.set_ylabel("vertices")
    return ax


def plot_top(values: Mapping[Any, Any], name: str, *, ax: Any = None) -> Any:
    """Plot a bar for each vertex, the first one at the top; return the Axes.

    Args:
        values: the values of vertices, by id.
        name: the field's name.
        ax: the Axes to draw on; None makes a figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    ax = _axes(ax)
    places = range(len(values))
    ax.barh(places, list(values.values()))
    # A dollar sign would begin a formula.
    labels = [shorten(str(vertex), _LONG).replace("$", r"\$") for vertex in values]
    ax.set_yticks(places, labels)
    ax.invert_yaxis()
    ax.set_xlabel(name)
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        return importlib.import_module("matplotlib.pyplot").subplots()[1]
    except ImportError:
        raise InputError("plot() needs matplotlib: pip install 'vertexsdk[plot]'") from None
