"""Forces of a network: those of the pairwise objective that trained it."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove import LambdaRank, RankNet, forces_at, forces_over_trees, make_web_search
from rankgrove.errors import ParameterError


@pytest.mark.parametrize(("kind", "objective"), [(RankNet, "rankmart"), (LambdaRank, "lambdamart")])
def test_a_network_has_the_forces_of_its_objective_at_its_scores(kind, objective):
    data = make_web_search(12, 16, mean_documents=9)
    ranker = kind(hidden=(4,), max_epochs=2).fit(data)
    found = ranker.forces(data)
    assert (found.objective.name, found.tree) == (objective, None)
    expected = forces_at(data, ranker.predict(data), found.objective)
    np.testing.assert_array_equal(found.forces, expected.forces)


def test_a_network_has_no_trees():
    data = make_web_search(12, 16, mean_documents=9)
    ranker = RankNet(hidden=(4,), max_epochs=1).fit(data)
    with pytest.raises(ParameterError, match="tree must be left out for a network"):
        ranker.forces(data, tree=1)
    with pytest.raises(ParameterError, match=r"model must be one of trees.*Got a network"):
        forces_over_trees(ranker, data)
