"""The warning of an objective that counts few pairs."""

import pytest

from boosting.samples import make_data, train

MRR = "mrr(relevant>=2)"


def test_lambdamart_for_mrr_warns_once_and_names_what_to_use():
    with pytest.warns(
        UserWarning, match=r"lambdamart with mrr\(relevant>=2\).*use yetiloss"
    ) as told:
        train(make_data(), objective="lambdamart", metric=MRR, n_estimators=2)
    assert len(told) == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "yetiloss", "metric": MRR},
        {"objective": "lambdamart", "metric": MRR, "noise": "logistic"},
        {"objective": "lambdamart", "metric": "err", "eval_metric": MRR},
    ],
    ids=str,
)
def test_what_smooths_the_metric_or_has_another_does_not_warn(parameters):
    # (A warning is an error here.)
    assert len(train(make_data(), n_estimators=2, **parameters).trees) == 2
