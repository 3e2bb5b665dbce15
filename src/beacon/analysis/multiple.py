"""Several comparisons at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment for several tests, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]

    Args:
        p_values: of all tests that are read together, such as the rows of a table.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, test in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def compact_letters(count: int, different: Collection[tuple[int, int]]) -> list[str]:
    """Compact letter display: two groups share a letter exactly if they do not differ.

    By insertion and absorption (Piepho 2004). Letters are given in the order of the groups, so with groups
    sorted from best to worst, "a" marks the best.

    >>> compact_letters(3, [(0, 2)])
    ['a', 'ab', 'b']

    Args:
        count: number of groups.
        different: pairs of groups that differ, for example with an adjusted p-value below 0.05.
    """
    columns: list[frozenset[int]] = [frozenset(range(count))] if count else []
    for first, second in different:
        if first == second or not (0 <= first < count and 0 <= second < count):
            raise ValueError(f"({first}, {second}) is not a pair of {count} groups")
        split = []
        for column in columns:
            if first in column and second in column:
                split += [column - {first}, column - {second}]
            else:
                split.append(column)
        unique = list(dict.fromkeys(split))
        columns = [c for c in unique if not any(c < other for other in unique)]
    columns.sort(key=lambda column: sorted(column))
    return [
        "".join(_letter(number) for number, column in enumerate(columns) if group in column)
        for group in range(count)
    ]


def _letter(number: int) -> str:
    """A to z, then a1 to z1, and so on."""
    turn, letter = divmod(number, 26)
    return chr(ord("a") + letter) + (str(turn) if turn else "")
