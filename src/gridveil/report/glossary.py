"""What the terms of the pages mean, shown where a reader points at one."""

from __future__ import annotations

GLOSSARY = {
    "ε": "Epsilon: how well a value is hidden. The odds of telling two values apart are at most e to the power ε. Smaller "
    "values hide more.",
    "α": "Alpha: the size of a change in one value that is hidden. Two values this far apart are told apart by odds of at "
    "most e to the power ε; twice as far apart, by their square.",
    "β": "Beta: how far the optimal cost may lie from its target.",
    "band": "The target cost plus and minus β. A release is published only if its optimal cost lies there.",
    "odds": "How much more likely the release makes one of two values than the other, for somebody who knows everything "
    "else. Before the release they are even.",
    "noise": "The size of the random change that was added to each value: the root of its mean square.",
    "high point": "The demands nearest to the noisy ones at which some operating point costs as much as the target: the first "
    "step of the search.",
    "certificate": "What is proved about a release by a convex relaxation, and so for every solver.",
    "budget": "All draws from one data set add up. The ledger holds their sum and refuses what would exceed its cap.",
    "optimal flow": "The cheapest operation of the network that serves all demands within all limits.",
    "distance": "Root of the sum of squared differences, over that of the true values.",
    "lattice": "Noise is drawn exactly on a grid of numbers, because rounding of computer numbers can give noise away.",
}
