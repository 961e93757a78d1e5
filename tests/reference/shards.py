"""Compares shards of runtime/train/shards.c with NumPy's, in float64: the same distribution, from other random
numbers. python3 shards.py FILE. The file has, for each case: by_class, alpha; the rows of each class; the rows of
each worker; the number of splits; and each split's rows by worker and class. Prints "equal", or what differs."""
import sys

import numpy as np

BOUND = 4.5  # standard errors; the random numbers are the same in every run of the test
TINY = 1e-300


def log_gamma_numbers(rng, a, shape):
    """Logarithms of Gamma(a) numbers, which may be too small for a float64."""
    return np.log(rng.gamma(a + 1, size=shape)) + np.log(1 - rng.random(shape)) / a


def draw(rng, log_q, room):
    """One column for each row, in proportion to exp(log_q) among those with room."""
    log_q = np.where(room > 0, log_q, -np.inf)
    w = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    edge = np.cumsum(w, axis=1)
    return (edge <= rng.random((len(w), 1)) * edge[:, -1:]).sum(axis=1)


def by_worker(rng, alpha, of_class, sizes, n):
    """Hsu, Qi, Brown, arXiv 1909.06335: each worker draws its rows by its own q from Dirichlet(alpha p)."""
    count, left, every = np.zeros((n, len(sizes), len(of_class))), np.tile(of_class, (n, 1)), np.arange(n)
    for k, size in enumerate(sizes):
        log_q = log_gamma_numbers(rng, alpha * of_class / of_class.sum(), left.shape)
        for _ in range(size):
            c = draw(rng, log_q, left)
            left[every, c] -= 1
            count[every, k, c] += 1
    return count


def by_class(rng, alpha, of_class, sizes, n):
    """Each class has its shares of the workers, from a symmetric Dirichlet(alpha); rows come at random."""
    count, room, every = np.zeros((n, len(sizes), len(of_class))), np.tile(sizes, (n, 1)), np.arange(n)
    log_q = log_gamma_numbers(rng, alpha, (n, len(of_class), len(sizes)))
    label = rng.permuted(np.tile(np.repeat(np.arange(len(of_class)), of_class), (n, 1)), axis=1)
    for c in label.T:
        k = draw(rng, log_q[every, c], room)
        room[every, k] -= 1
        count[every, k, c] += 1
    return count


def statistics(count, of_class):
    f = count / count.sum(axis=2, keepdims=True)
    distance = np.abs(f - of_class / of_class.sum()).sum(axis=2) / 2
    return {
        "distance": distance.mean(axis=1),
        "distance of the first": distance[:, 0],
        "distance of the last": distance[:, -1],
        "squared distance": (distance ** 2).mean(axis=1),
        "classes": (1 / (f ** 2).sum(axis=2)).mean(axis=1),
        "largest share": f.max(axis=2).mean(axis=1),
        "first class of the first": f[:, 0, 0],
        "its square": f[:, 0, 0] ** 2,
        "last class of the last": f[:, -1, -1],
        "workers of a class": (count > 0).sum(axis=1).mean(axis=1),
    }


def numbers(lines, kind=int):
    return np.array([kind(x) for x in next(lines).split()])


def main():
    rng, lines, apart = np.random.default_rng(1), iter(open(sys.argv[1])), []
    while head := next(lines, None):
        of_workers, alpha = int(head.split()[0]) == 0, float(head.split()[1])
        of_class, sizes, n = numbers(lines), numbers(lines), int(next(lines))
        ours = np.array([numbers(lines) for _ in range(n)]).reshape(n, len(sizes), len(of_class))
        theirs = (by_worker if of_workers else by_class)(rng, alpha, of_class, sizes, n)
        a, b = statistics(ours, of_class), statistics(theirs, of_class)
        for name in a:
            error = np.sqrt((a[name].var() + b[name].var()) / n) + TINY
            if abs(a[name].mean() - b[name].mean()) > BOUND * error + 1e-12:
                apart.append(f"{head.strip()}: {name}: {a[name].mean():.4g}, NumPy {b[name].mean():.4g} +- {error:.2g}")
    print("\n".join(apart) or "equal")


main()
