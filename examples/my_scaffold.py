import numpy as np


def mine(state, clients, cohort, learning_rate, local_steps):
    x, c, c_k = state["x"], state["c"], state["c_k"].copy()
    moves, changes = [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y -= learning_rate * (clients[k].gradient(y) - c_k[k] + c)
        new = c_k[k] - c + (x - y) / (local_steps * learning_rate)
        moves.append(y - x)
        changes.append(new - c_k[k])
        c_k[k] = new
    return {"x": x + np.mean(moves, axis=0), "c": c + np.mean(changes, axis=0), "c_k": c_k}
