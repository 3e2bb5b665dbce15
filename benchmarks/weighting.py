"""Speed of the reweighting, as ratios within one run: python benchmarks/weighting.py [--json FILE] [--quick].

A *pass* is one read and write of the whole weight vector (NumPy, one thread), the least that any update must
do. k-NN is compared with the rate of a large matrix product, with scikit-learn and with faiss.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from beacon.weighting import (
    KNN,
    RefreshInputs,
    Strengths,
    WeightProblem,
    minimise,
    project_budget,
    project_budget_bisection,
    stochastic_steps,
)
from beacon.weighting.discrepancy.neighbors import nearest

Vector = NDArray[np.float64]
STRENGTHS = Strengths(lambda_d=0.1, lambda_1=0.01, lambda_2=0.01, gamma=1e-6)


def seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Shortest wall time of a call, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def in_turns(functions: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Median wall time of each; they take turns, so that whatever else the machine does hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for round_ in range(rounds + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if round_:  # the first is to warm up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def make_problem(size: int) -> tuple[Vector, WeightProblem]:
    """Weights in the middle of a run, and its problem: 4% of the samples are the target's."""
    rng = np.random.default_rng(0)
    on_target = np.arange(size) >= 0.96 * size
    targets = int(on_target.sum())
    p0 = np.where(on_target, 1 / targets, 0.0)
    lower = np.where(on_target, 0.05, 0.0)
    upper = np.full(size, 5.0)
    budget = targets + 0.5 * (size - targets)
    costs = rng.exponential(0.27, size) + 0.1 * np.where(on_target, 0.0, rng.normal(2.5, 0.55, size))
    q = project_budget(np.where(on_target, 1.2, 0.5) + 0.2 * rng.normal(size=size), budget, lower, upper)
    return q, WeightProblem(costs, p0, lower, upper, budget, STRENGTHS, capacity=100.0)


def bench_projection(size: int) -> dict[str, float]:
    """Projection and one whole stochastic refresh, in passes; and the paper's 80 halvings."""
    q, problem = make_problem(size)
    bounds = (problem.budget, problem.lower, problem.upper)
    moved = q - 0.01 * problem.costs
    buffer = moved.copy()
    one_pass = seconds(lambda: np.multiply(moved, 1.000001, out=buffer), repeats=9)
    exact = seconds(lambda: project_budget(moved, *bounds, out=buffer))
    refresh = seconds(lambda: stochastic_steps(problem, q, eta=0.01))
    halvings = seconds(lambda: project_budget_bisection(moved, *bounds), repeats=1)
    return {
        "weights": size,
        "pass_ms": 1e3 * one_pass,
        "projection_ms": 1e3 * exact,
        "projection_passes": exact / one_pass,
        "refresh_ms": 1e3 * refresh,
        "refresh_passes": refresh / one_pass,
        "bisection_over_projection": halvings / exact,
    }


def bench_cvxpy(size: int) -> dict[str, float]:
    """The same projection by a general convex solver, at a size that it can do."""
    import cvxpy as cp

    now, problem = make_problem(size)
    moved = now - 0.01 * problem.costs
    exact = seconds(lambda: project_budget(moved, problem.budget, problem.lower, problem.upper))

    def solve() -> None:
        q = cp.Variable(size)
        constraints = [q >= problem.lower, q <= problem.upper, cp.sum(q) == problem.budget]
        cp.Problem(cp.Minimize(cp.sum_squares(q - moved)), constraints).solve(solver=cp.CLARABEL)

    return {"weights": size, "cvxpy_over_projection": seconds(solve, repeats=1) / exact}


def bench_convex(size: int) -> dict[str, float]:
    """The full-convex solve against one stochastic refresh of the same weights."""
    q, problem = make_problem(size)
    refresh = seconds(lambda: stochastic_steps(problem, q, eta=0.01))
    free = seconds(lambda: minimise(replace(problem, capacity=0.0)), repeats=3)
    capped = seconds(lambda: minimise(replace(problem, capacity=1e11)), repeats=1)
    return {
        "weights": size,
        "convex_ms": 1e3 * free,
        "convex_over_refresh": free / refresh,
        "convex_with_cap_search_ms": 1e3 * capped,
        "convex_with_cap_search_over_refresh": capped / refresh,
    }


def knn_peak(source: int, target: int, features: int) -> float:
    """MiB by which the k-NN raises the peak memory of a process that has done nothing else."""
    code = f"""
import torch
from beacon.weighting.discrepancy.neighbors import nearest
queries, points = torch.zeros({source}, {features}).normal_(), torch.zeros({target}, {features}).normal_()
nearest(queries[:10], points, 5)
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again at what is in use now
before = peak()
nearest(queries, points, 5)
print((peak() - before) / 1024)
"""
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def bench_knn(source: int, target: int, features: int) -> dict[str, float]:
    """k-NN of every source embedding, against the matrix rate of this machine and other libraries."""
    from sklearn.neighbors import NearestNeighbors

    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(source, features, generator=generator)
    points = torch.randn(target, features, generator=generator)
    square = torch.randn(4096, 4096, generator=generator)
    a, b = queries.numpy(), points.numpy()
    oracle = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(b)
    rivals: dict[str, Callable[[], Any]] = {
        "knn": lambda: nearest(queries, points, 5),
        "matrix": lambda: square @ square,
        "sklearn": lambda: oracle.kneighbors(a),
    }
    try:
        import faiss
    except ImportError:
        pass
    else:
        faiss.omp_set_num_threads(torch.get_num_threads())
        index = faiss.IndexFlatL2(features)
        index.add(b)
        rivals["faiss"] = lambda: index.search(a, 5)
    taken = in_turns(rivals)
    ours, rate = taken["knn"], 2 * 4096**3 / taken["matrix"]
    results = {
        "source": source,
        "target": target,
        "features": features,
        "knn_s": ours,
        "matrix_gflops": rate / 1e9,
        "share_of_matrix_rate": 2 * source * target * features / ours / rate,
        "peak_growth_mib": knn_peak(source, target, features),
        "whole_table_mib": 4 * source * target / 2**20,
        **{f"{name}_over_knn": taken[name] / ours for name in ("sklearn", "faiss") if name in taken},
    }
    inputs = RefreshInputs(queries, points, np.zeros(source, np.int64), (0,), 1)
    results["discrepancy_over_knn"] = seconds(lambda: KNN()(inputs), repeats=1) / ours
    return results


def main() -> None:
    """Run all and print a table a benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the sizes, to see that it runs")
    options = parser.parse_args()
    scale = 100 if options.quick else 1
    results: dict[str, dict[str, Any]] = {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "projection": bench_projection(10_000_000 // scale),
        "projection_at_paper_scale": bench_projection(57_088),
        "cvxpy": bench_cvxpy(100_000 // scale),
        "convex": bench_convex(1_000_000 // scale),
        "knn": bench_knn(100_000 // scale, 2_000, 512),
    }
    console = Console()
    for title, numbers in results.items():
        table = Table(title=title.replace("_", " "), title_justify="left")
        table.add_column("what")
        table.add_column("value", justify="right")
        for name, value in numbers.items():
            table.add_row(name.replace("_", " "), f"{value:,.3g}" if isinstance(value, float) else f"{value}")
        console.print(table)
    print(json.dumps(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
