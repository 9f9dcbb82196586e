"""The first worker tells its trees to whoever started it, over a connection of its own."""

import queue

import numpy as np
import pytest

from rankgrove import Ranker, make_web_search
from rankgrove.distributed import WorkersError
from rankgrove.distributed.following import SetSize, Start, Step
from rankgrove.distributed.news import Hearing, NoDriverError, Teller, pack_news, unpack_news


@pytest.fixture(scope="module")
def model():
    data = make_web_search(20, 16)
    return Ranker(n_estimators=2).fit(data, valid=data).model_


def assert_same(told, news):
    assert type(told) is type(news)
    if isinstance(news, Start):
        assert told.sizes == news.sizes
        assert told.model._to_file()[0] == news.model._to_file()[0]
        pairs = zip(*(each.model.ensemble.trees() for each in (told, news)), strict=True)
    else:
        assert (told.number, told.values) == (news.number, news.values)
        pairs = [(told.tree, news.tree)]
    for one, other in pairs:
        for name, array in vars(other).items():
            np.testing.assert_array_equal(getattr(one, name), array, strict=True)


def test_news_come_as_they_were_sent(model):
    events = queue.Queue()
    hearing = Hearing("127.0.0.1", events.put)
    address, token = hearing.open(None)
    steps = [
        Step(number, tree, [[0.1, float("inf")], []])
        for number, tree in enumerate(model.ensemble.trees(), start=1)
    ]
    everything = [Start(model, {"": SetSize(7, 3, 2)}), *steps]
    with Teller(address, token) as teller:
        teller.tell(["10.0.0.7:1", "10.0.0.8:2"])
        for news in everything:
            teller.tell(news)
    assert events.get(timeout=60) == ["10.0.0.7:1", "10.0.0.8:2"]
    for news in everything:
        assert_same(events.get(timeout=60), news)
    hearing.close()
    assert hearing.has_begun
    assert events.empty()


def test_a_teller_that_fails_is_heard_of():
    events = queue.Queue()
    hearing = Hearing("127.0.0.1", events.put)
    with pytest.raises(KeyError), Teller(*hearing.open(None)):
        raise KeyError("wurst")
    assert "wurst" in str(events.get(timeout=60))
    hearing.close()


def test_whoever_hangs_up_ends_the_telling(model):
    hearing = Hearing("127.0.0.1", lambda _: None)
    teller = Teller(*hearing.open(None))
    hearing.close()
    with pytest.raises(WorkersError), teller:
        teller.tell(Start(model, {}))


def test_nobody_at_the_address_is_an_error_with_it():
    hearing = Hearing("127.0.0.1", lambda _: None)
    address, token = hearing.open(None)
    hearing.close()
    with pytest.raises(NoDriverError, match=rf"must reach the driver at {address}"):
        Teller(address, token)


def test_what_is_sent_runs_no_code(model):
    message = pack_news(Step(1, model.ensemble.trees()[0], []))
    assert b"pickle" not in message
    assert_same(unpack_news(message), Step(1, model.ensemble.trees()[0], []))
