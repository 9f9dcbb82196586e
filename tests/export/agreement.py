"""What a format states of the scores of its consumers, held against scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankgrove.export.format import Exportable, Rows


def documents_held(written, model, features, base=None, **options):
    """A mask over documents: those that the format says it scores alike."""
    rows = Rows(features, base, model.feature_names)
    masks = written.outside(Exportable.of(model), written.checked_options(options), rows).values()
    return ~np.logical_or.reduce([np.zeros(len(features), dtype=bool), *masks])


def assert_agrees(written, model, there, here, about, **options):
    """The scores of a consumer are those of Rankgrove, as near as the format states."""
    agreement = written.agreement(written.checked_options(options))
    if agreement.words:
        np.testing.assert_array_equal(there, agreement.rounded(here), about)
    else:
        bound = agreement.bound(Exportable.of(model))
        np.testing.assert_allclose(there, here, rtol=0, atol=bound, err_msg=about)


def with_numbered_leaves(model):
    """The same tree whose score is the number of the leaf."""
    numbers = np.arange(len(model.ensemble.value), dtype=np.float64)
    return replace(model, ensemble=replace(model.ensemble, value=numbers))
