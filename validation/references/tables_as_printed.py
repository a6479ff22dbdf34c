"""The papers' tables as the texts at hand have them, line by line, and what a reader makes of them.

Nothing is shared with the package, whose own transcription is compared with this one. Only the tabs
between cells are written as ' | '. The texts' slips stand: labels beside another row of their
group, last rows that are shifted by a cell, and EFL's numbers three times over where they are not
bold.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TEXT", "accuracies", "hyperparameters", "poster", "tables_2_to_4"]

Cell = str | tuple[str, str] | None
TEXT = {
    "fedelasticnet-table2": r"""
 | Dataset | Rounds | FedProx | Algorithm 1 | SCAFFOLD | Algorithm 2 | FedDyn | Algorithm 3
IID | CIFAR-10 | 200 | 163.82 | <b>124.56</b> | 327.64 | <b>313.04</b> | 163.82 | <b>34.23</b>
 | CIFAR-100 | 500 | 413.37 | <b>249.26</b> | 826.74 | <b>803.33</b> | 413.37 | <b>132.95</b>
 | MNIST | 100 | 20.3 | <b>7.51</b> | 40.58 | <b>36.98</b> | 20.3 | <b>2.55</b>
 | EMNIST-L | 200 | 18.4 | <b>11.23</b> | 36.78 | <b>34.90</b> | 18.4 | <b>2.12</b>
 | Shakespeare | 100 | 1.99 | <b>1.93</b> | 3.32 | <b>3.31</b> | 1.99 | <b>1.28</b>
Dirichlet (.6) | CIFAR-10 | 200 | 163.82 | <b>116.96</b> | 327.64 | <b>310.51</b> | 163.82 | <b>29.96</b>
 | CIFAR-100 | 500 | 413.37 | <b>247.87</b> | 826.74 | <b>798.21</b> | 413.37 | <b>127.23</b>
 | MNIST | 100 | 20.3 | <b>6.66</b> | 40.58 | <b>35.20</b> | 20.3 | <b>2.55</b>
 | EMNIST-L | 200 | 18.4 | <b>11.18</b> | 36.78 | <b>34.45</b> | 18.4 | <b>2.05</b>
 | CIFAR-10 | 200 | 163.82 | <b>112.1</b> | 327.64 | <b>308.15</b> | 163.82 | <b>26.99</b>
Dirichlet (.3) | CIFAR-100 | 500 | 413.37 | <b>255.97</b> | 826.74 | <b>804.47</b> | 413.37 | <b>124.02</b>
 | MNIST | 100 | 20.3 | <b>6.49</b> | 40.58 | <b>34.95</b> | 20.3 | <b>2.53</b>
 | EMNIST-L | 200 | 18.4 | <b>11.29</b> | 36.78 | <b>34.22</b> | 18.4 | <b>2.07</b>
 | Non-IID | Shakespeare | 100 | 13.61 | <b>11.28</b> | 27.21 | <b>27.21</b> | 13.61
""",
    "fedelasticnet-table3": r"""
 | Dataset | Rounds | FedProx | Algorithm 1 | SCAFFOLD | Algorithm 2 | FedDyn | Algorithm 3
IID | CIFAR-10 | 200 | 586.42 | <b>232.77</b> | 685.17 | <b>236.76</b> | 639.59 (221.64) | <b>140.71</b>
 | CIFAR-100 | 500 | 1712.84 | <b>470.78</b> | 2225.98 | <b>1173.01</b> | 1964.63 (511.14) | <b>423.53</b>
 | MNIST | 100 | 266.26 | <b>47.29</b> | 286.88 | <b>83.51</b> | 308.27 (27.76) | <b>24.76</b>
 | EMNIST-L | 200 | 657.64 | <b>166.07</b> | 764.39 | <b>344.94</b> | 704.57 (132.50) | <b>96.37</b>
 | Shakespeare | 100 | 646.33 | <b>403.63</b> | 520.60 | <b>226.68</b> | 576.17 (348.11) | <b>225.44</b>
Dirichlet (.6) | CIFAR-10 | 200 | 564.57 | <b>203.61</b> | 663.23 | <b>198.53</b> | 616.69 (197.62) | <b>121.97</b>
 | CIFAR-100 | 500 | 1709.33 | <b>449.59</b> | 2202.61 | <b>1119.91</b> | 1951.06 (478.60) | <b>398.87</b>
 | MNIST | 100 | 249.63 | <b>45.51</b> | 293.22 | <b>75.57</b> | 304.00 (26.75) | <b>21.24</b>
 | EMNIST-L | 200 | 646.14 | <b>163.24</b> | 755.75 | <b>347.31</b> | 704.63 (134.31) | <b>89.92</b>
 | CIFAR-10 | 200 | 550.15 | <b>187.01</b> | 636.90 | <b>115.26</b> | 602.80 (180.29) | <b>108.69</b>
Dirichlet (.3) | CIFAR-100 | 500 | 1696.47 | <b>428.77</b> | 2170.14 | <b>1078.97</b> | 1937.09 (463.67) | <b>382.44</b>
 | MNIST | 100 | 244.49 | <b>45.24</b> | 291.88 | <b>73.12</b> | 300.76 (26.71) | <b>19.03</b>
 | EMNIST-L | 200 | 636.21 | <b>162.57</b> | 747.72 | <b>328.21</b> | 700.38 (128.34) | <b>91.55</b>
 | Non-IID | Shakespeare | 100 | 593.21 | <b>440.97</b> | 628.32 | <b>470.22</b> | 609.11 (348.11)
""",
    "fedelasticnet-table4": r"""
 | Dataset | Rounds | FedProx | Algorithm 1 | SCAFFOLD | Algorithm 2 | FedDyn | Algorithm 3
<b>IID</b> | CIFAR-10 | 200 | 595.16 | <b>151.28</b> | 873.24 | <b>252.33</b> | 680.70 (259.31) | <b>57.70</b>
 | CIFAR-100 | 500 | 1721.53 | <b>466.21</b> | 2774.60 | <b>1068.47</b> | 2038.07 (689.24) | <b>447.18</b>
 | MNIST | 100 | 325.86 | <b>39.55</b> | 389.52 | <b>71.57</b> | 324.88 (20.47) | <b>12.33</b>
 | EMNIST-L | 200 | 728.34 | <b>123.74</b> | 1018.11 | <b>263.95</b> | 797.39 (55.46) | <b>40.71</b>
 | Shakespeare | 100 | 640.69 | <b>279.51</b> | 529.05 | <b>476.81</b> | 343.32 (298.58) | <b>277.21</b>
<b>Dirichlet (.6)</b> | CIFAR-10 | 200 | 577.74 | <b>127.14</b> | 839.41 | <b>236.48</b> | 656.48 (223.46) | <b>47.52</b>
 | CIFAR-100 | 500 | 1697.18 | <b>453.87</b> | 2682.15 | <b>1038.21</b> | 1974.65 (651.78) | <b>431.54</b>
 | MNIST | 100 | 298.99 | <b>30.94</b> | 530.72 | <b>106.08</b> | 314.64 (20.29) | <b>11.67</b>
 | EMNIST-L | 200 | 721.49 | <b>121.76</b> | 1020.32 | <b>251.65</b> | 779.44 (286.11) | <b>40.71</b>
<b>Dirichlet (.3)</b> | CIFAR-10 | 200 | 563.15 | <b>105.89</b> | 806.73 | <b>214.31</b> | 635.78 (215.83) | <b>39.58</b>
 | CIFAR-100 | 500 | 1685.30 | <b>444.32</b> | 2743.43 | <b>1060.83</b> | 1934.49 (627.56) | <b>422.46</b>
 | MNIST | 100 | 295.80 | <b>42.94</b> | 466.65 | <b>85.06</b> | 314.96 (19.98) | <b>12.35</b>
 | EMNIST-L | 200 | 716.12 | <b>116.88</b> | 1014.08 | <b>249.68</b> | 771.90 (283.40) | <b>40.70</b>
<b>Non-IID</b> | Shakespeare | 100 | 595.69 | <b>409.60</b> | <b>684.79</b> | 897.67 | 560.87 (316.64) | <b>318.92</b>
""",
    "fedelasticnet-table5": r"""
Dataset | Algorithm | $\lambda_1$ | $\lambda_2$ | $\epsilon$
CIFAR-10 | FedProx | - | $10^{-4}$ | -
 | Algorithm 1 | $10^{-6}$ | $10^{-4}$ | $10^{-3}$
 | Algorithm 2 | $10^{-4}$ | 0 | $10^{-4}$
 | FedDyn | - | $10^{-2}$ | -
 | Algorithm 3 | $10^{-4}$ | $10^{-2}$ | $5 \times 10^{-3}$
CIFAR-100 | FedProx | - | $10^{-4}$ | -
 | Algorithm 1 | $10^{-6}$ | $10^{-4}$ | $10^{-3}$
 | Algorithm 2 | $10^{-4}$ | 0 | $10^{-4}$
 | FedDyn | - | $10^{-2}$ | -
 | Algorithm 3 | $10^{-4}$ | $10^{-2}$ | $10^{-3}$
MNIST | FedProx | - | $10^{-4}$ | -
 | Algorithm 1 | $10^{-6}$ | $10^{-6}$ | $10^{-3}$
 | Algorithm 2 | $10^{-4}$ | 0 | $10^{-4}$
 | FedDyn | - | $5 \times 10^{-2}$ | -
 | Algorithm 3 | $10^{-4}$ | $5 \times 10^{-2}$ | $5 \times 10^{-3}$
EMNIST-L | FedProx | - | $10^{-4}$ | -
 | Algorithm 1 | $10^{-6}$ | $10^{-6}$ | $10^{-3}$
 | Algorithm 2 | $10^{-4}$ | 0 | $10^{-4}$
 | FedDyn | - | $4 \times 10^{-2}$ | -
 | Algorithm 3 | $10^{-4}$ | $4 \times 10^{-2}$ | $2 \times 10^{-3}$
Shakespeare | FedProx | - | $10^{-4}$ | -
 | Algorithm 1 | $10^{-6}$ | $10^{-6}$ | $9 \times 10^{-3}$
 | Algorithm 2 | $10^{-6}$ | 0 | $9 \times 10^{-4}$
 | FedDyn | - | $10^{-2}$ | -
 | Algorithm 3 | $10^{-6}$ | $10^{-2}$ | $10^{-2}$
""",
    "efl-table2": r"""
Methods MNIST CIFAR100 Sent140 Shakes.
FedAvg 98.3098.3098.30 2.272.272.27 59.1459.1459.14 51.3551.3551.35
FedGATE 99.15 80.9480.9480.94 68.8468.8468.84 54.7154.7154.71
VRL-SGD 98.8698.8698.86 2.812.812.81 68.6268.6268.62 52.3352.3352.33
APFL 98.4998.4998.49 77.1977.1977.19 68.8168.8168.81 55.2755.2755.27
FedAMP 99.0699.0699.06 81.1781.1781.17 69.01 58.4258.4258.42
EFL 99.1099.1099.10 81.38 68.9568.9568.95 60.49
""",
    "elastic-table": r"""
Dataset | Rounds(Epochs) | Total | Sampled | Batch | Init. LR | Model | Naïve(%) | Elastic(%)
Balanced data across clients |  |  |  |  |  |  |  |
CIFAR-100 | 4000(~80) | 500 | 10 | 10 | 0.05 | ResNet-20 | 32.31 | 56.64
Unbalanced data across clients |  |  |  |  |  |  |  |
MNIST | 20(~2) | 1000 | 100 | 100 | 0.1 | Logistic Regression | 70.14 | 73.64
EMNIST | 1000(~2.5) | 3400 | 10 | 100 | 0.1 | 2Conv+2Linear | 88.71 | 89.82
CIFAR-10 | 4000(~40) | 1000 | 10 | 10 | 0.05 | ResNet-20 | 66.84 | 68.74
CINIC-10 | 200(~20) | 1000 | 100 | 10 | 0.05 | ResNet-20 | 35.81 | 36.29
CINIC-10 | 4000(~40) | 1000 | 10 | 10 | 0.05 | ResNet-20 | 68.68 | 69.25
""",
}
METHODS = {
    "FedProx": "fedprox",
    "Algorithm 1": "algorithm-1",
    "SCAFFOLD": "scaffold",
    "Algorithm 2": "algorithm-2",
    "FedDyn": "feddyn",
    "Algorithm 3": "algorithm-3",
}
SPLITS = {"IID": "iid", "Dirichlet (.6)": "dirichlet-0.6", "Dirichlet (.3)": "dirichlet-0.3", "Non-IID": "non-iid"}


def lines(name: str) -> list[list[str]]:
    """The cells of every line, without bold."""
    return [[c.strip() for c in re.sub("</?b>", "", line).split("|")] for line in TEXT[name].strip("\n").split("\n")]


def dataset(name: str) -> str:
    """CIFAR-10 is cifar10, EMNIST-L emnist-l."""
    return re.sub("(cifar|cinic)-", r"\1", name.lower())


def cell(text: str) -> Cell:
    """A number, or two of which one stands in brackets."""
    two = re.fullmatch(r"(\S+) \((\S+)\)", text)
    return (two[1], two[2]) if two else text


def tables_2_to_4(number: int) -> tuple[dict[tuple[str, str, str], Cell], dict[tuple[str, str], int]]:
    """FedElasticNet's Table: (split, dataset, method) -> printed, and (split, dataset) -> rounds.

    A group starts with each CIFAR-10 and its label stands on one of its lines; the last line,
    non-IID Shakespeare, is a group of its own. Where that line is shifted, its last number is lost.
    """
    (_, _, _, *methods), *rows = lines(f"fedelasticnet-table{number}")
    groups: list[list[list[str]]] = []
    for row in rows:
        if row[0] == "" and row[1] == "Non-IID":
            row = row[1:]
        if row[1] == "CIFAR-10" or row[0] == "Non-IID":
            groups.append([])
        groups[-1].append(row)
    cells: dict[tuple[str, str, str], Cell] = {}
    rounds = {}
    for group in groups:
        [label] = {row[0] for row in group} - {""}
        for _, name, printed, *values in group:
            row_of = SPLITS[label], dataset(name)
            rounds[row_of] = int(printed)
            for i, method in enumerate(methods):
                cells[*row_of, METHODS[method]] = cell(values[i]) if i < len(values) else None
    return cells, rounds


def power(text: str) -> float | None:
    """'$5 \\times 10^{-3}$' is 5e-3, and '-' none."""
    if text in ("-", "0"):
        return None if text == "-" else 0.0
    found = re.fullmatch(r"\$(?:(\d) \\times )?10\^\{-(\d)\}\$", text)
    if found is None:
        raise ValueError(f"{text!r} is no power of ten")
    return float(f"{found[1] or 1}e-{found[2]}")


def hyperparameters() -> dict[tuple[str, str], tuple[float | None, ...]]:
    """FedElasticNet's Table 5: (dataset, method) -> lambda_1, lambda_2, epsilon."""
    out, name = {}, ""
    for first, method, *values in lines("fedelasticnet-table5")[1:]:
        name = first or name
        out[dataset(name), METHODS[method]] = tuple(power(v) for v in values)
    return out


def accuracies() -> dict[tuple[str, str], str]:
    """EFL's Table 2: (dataset, method) -> per cent; a number that is not bold stands three
    times."""
    (_, *names), *rows = [row[0].split() for row in lines("efl-table2")]
    known = {"MNIST": "mnist", "CIFAR100": "cifar100", "Sent140": "sent140", "Shakes.": "shakespeare"}
    out = {}
    for method, *values in rows:
        for name, value in zip(names, values, strict=True):
            out[known[name], method.lower()] = re.sub(r"^(\d+\.\d\d)\1\1$", r"\1", value)
    return out


def poster() -> dict[tuple[str, str], dict[str, Any]]:
    """Elastic Aggregation's table: (split, dataset) -> its settings and both accuracies."""
    out, split = {}, ""
    for row in lines("elastic-table")[1:]:
        if not any(row[1:]):
            split = row[0].split()[0].lower()
            continue
        name, rounds, total, sampled, batch, rate, _, naive, elastic = row
        number = int(rounds.split("(")[0])
        key = split, dataset(name) + ("-200" if name == "CINIC-10" and number == 200 else "")
        settings = {"rounds": number, "clients": int(total), "cohort": int(sampled), "batch_size": int(batch)}
        out[key] = {**settings, "lr": float(rate), "naive": naive, "elastic": elastic}
    return out
