"""The tables of Lyzhin et al. made again: cells, runs, peers, figures."""
