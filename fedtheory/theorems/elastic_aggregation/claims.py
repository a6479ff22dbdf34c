"""Elastic Aggregation, poster and conference abstract: claims about experiments on networks."""

from fedtheory.theorems.elastic_aggregation.paper import paper

paper.claim(
    "claim-table", "test accuracy on six benchmarks",
    r"\text{test accuracy, elastic }\ge\text{ naive, "
    r"on MNIST, EMNIST, CIFAR-10, CIFAR-100 and CINIC-10}",
    source="poster, table of test accuracies",
    note="an experiment on networks, not a statement about the algorithm. The command trains the "
    "rows with the printed settings; --quick does so in little on scikit-learn's digits, and needs "
    "no data",
    shown_by="fedtheory bench elastic-table --quick",
)

paper.claim(
    "claim-settings", "improvements across partitions, participation and local epochs",
    r"\text{accuracy, elastic }\ge\text{ naive, for all partitions, participation rates and }E",
    source="poster, figure on the left",
    note="an experiment on networks; the figure's settings are not printed. On quadratics "
    "sampled-bias says where fewer clients and more local steps end farther from the optimum than "
    "FedAvg",
    shown_by="fedtheory verify elastic-aggregation/sampled-bias --problem diabetes --clients 3 "
    "--held-out 0.3 --participants 2",
)

paper.claim(
    "claim-non-convex", "efficient training in non-convex settings",
    r"\text{rounds to a given accuracy of a network, elastic }\le\text{ naive}",
    source="conference abstract, and the poster's introduction",
    note="an experiment on networks: no rate is stated. For quadratics elastic-aggregation/speed "
    "says when it is faster and when slower",
    shown_by="fedtheory bench elastic-table --quick",
)

paper.claim(
    "claim-theory", "experiments that validate the theoretical analysis",
    r"\text{'validate the theoretical analysis'}",
    source="poster, conclusion",
    note="the poster states no theorem. What is proved here instead: full-participation, "
    "stability, sampled-fixed-point, sampled-attraction. The command judges one of them on a data "
    "set",
    shown_by="fedtheory verify elastic-aggregation/sampled-fixed-point --problem diabetes "
    "--clients 3 --held-out 0.3 --participants 2",
)
