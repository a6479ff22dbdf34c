"""A small Transformer, trained by clients who each write words of one length.

A text repeats one random word, "cab cab cab ca": after the first space every letter is determined,
so that the best possible accuracy is 1. Client k writes words of its own length only, and can copy
them by looking back a fixed number of places. The server's model has to serve all lengths, which
takes attention to what stands in the text. FedAvg and FedDyn train it on these clients, and
FedAvg on the same texts dealt at random.

python examples/transformer.py [PICTURE]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from fedtheory import algorithms, local, neural

# of the alphabet; of a text; a letter that is not asked for
LETTERS, SPACE, LENGTH, IGNORED = 8, 8, 16, -100
WORDS = (2, 3, 4, 5, 6)  # the clients' lengths of words


class Transformer(nn.Module):
    def __init__(self, width=32, layers=2, dropout=0.1):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS + 1, width), nn.Embedding(LENGTH, width)
        made = {"dropout": dropout, "norm_first": True, "batch_first": True}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 2 * width, **made) for _ in range(layers)
        )
        self.norm, self.next = nn.LayerNorm(width), nn.Linear(width, LETTERS + 1)
        self.register_buffer("later", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    # (b, length) each -> (b, letters, length), as CrossEntropyLoss takes it
    def forward(self, texts, padding):
        x = self.letters(texts) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.later, src_key_padding_mask=padding)
        return self.next(self.norm(x)).transpose(1, 2)


def texts(rng, number, word):
    """Texts of 12 to 16 letters and what is padding, (number, length), and the next letter where it
    is determined."""
    words = np.hstack([rng.integers(LETTERS, size=(number, word)), np.full((number, 1), SPACE)])
    whole = np.tile(words, LENGTH)[:, : LENGTH + 1]
    following = whole[:, 1:].copy()
    padding = np.arange(LENGTH) >= rng.integers(12, LENGTH + 1, size=(number, 1))
    following[padding] = following[:, :word] = IGNORED
    return np.where(padding, SPACE, whole[:, :-1]), padding, following


def of_all(rng, number):
    given, padding, following = map(
        np.concatenate, zip(*(texts(rng, number, word) for word in WORDS))
    )
    return {"texts": given, "padding": padding}, following


def of_each_length(outputs, following):
    """The share of right letters at each length of words."""
    right, asked = outputs.argmax(dim=1) == following, following != IGNORED
    each = zip(right.chunk(len(WORDS)), asked.chunk(len(WORDS)))
    return np.array([float(r[a].float().mean()) for r, a in each])


def train(rounds=18, seed=0):
    """Name -> accuracies (rounds + 1, 5)."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    module, (inputs, targets), test = Transformer(), of_all(rng, 200), of_all(rng, 40)
    writers = np.arange(len(targets)).reshape(len(WORDS), -1)
    mixed = rng.permutation(len(targets)).reshape(writers.shape)
    solver, found = local.Adam(20, 0.005, steps=10), {}
    for name, clients, method in (
        ("FedAvg", writers, algorithms.FedAvg()),
        ("FedDyn", writers, algorithms.FedDyn(alpha=0.1)),
        ("FedAvg, texts mixed", mixed, algorithms.FedAvg()),
    ):
        problem = neural.NeuralProblem(
            module, inputs, targets, clients, nn.CrossEntropyLoss(), test=test
        )
        metrics = {"lengths": of_each_length}
        run = neural.train(
            problem, method, rounds, None, solver, seed, ["test_accuracy"], metrics=metrics,
            label=name,
        )
        found[name] = run.metrics["lengths"][:, 0]
    return found


def finding(found):
    wrong = {name: 1 - accuracy[-1] for name, accuracy in found.items()}
    worst = int(wrong["FedAvg"].argmax())
    all_lengths = ", ".join(f"{w.mean():.1%} with {name}" for name, w in wrong.items())
    return (
        f"Of the letters that the text determines are wrong: {all_lengths}; of those in words of "
        f"{WORDS[worst]}, {wrong['FedAvg'][worst]:.1%} with FedAvg and "
        f"{wrong['FedDyn'][worst]:.1%} with FedDyn."
    )


def draw(found, file):
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for (name, accuracy), line in zip(found.items(), ("C1-", "C0-", "C1:")):
        ax.plot(accuracy.mean(axis=1), line, label=name)
    ax.set(xlabel="round", ylabel="accuracy on the determined letters")
    ax.legend()
    figure.savefig(file, dpi=150)
    return file


if __name__ == "__main__":
    found = train()
    print("accuracy at words of".ljust(22), *(f"{word:>6}" for word in WORDS), "  all")
    for name, accuracy in found.items():
        print(name.ljust(22), *(f"{a:6.3f}" for a in (*accuracy[-1], accuracy[-1].mean())))
    print(finding(found))
    print("wrote", draw(found, sys.argv[1] if len(sys.argv) > 1 else "transformer.png"))
