"""What workers compute together is what one would compute from all numbers."""

import select
import threading
import time

import numpy as np
import pytest

from rankgrove.distributed import connect, listen, new_token
from rankgrove.distributed.collectives import (
    MOST_DIRECT,
    SMALL,
    even_bounds,
    max_keys,
    values_of_keys,
)
from rankgrove.distributed.failures import WorkersError
from rankgrove.errors import ParameterError

SIZES = [1, 2, 3, 4, 7, 8, 9, 11, 16]
# None, one, fewer than workers, what is copied behind its header and what is not, more than is
# sent as it is.
LENGTHS = [0, 1, 5, 128, 129, 4_096, SMALL // 8 + 3, 40_001]


def run(size, work):
    """What `work(peers)` gives on each of several workers, each in a thread of its own."""
    listeners = [listen() for _ in range(size)]
    addresses, token = [listener.address for listener in listeners], new_token()
    results = [None] * size

    def go(rank):
        try:
            with connect(listeners[rank], rank, addresses, token) as peers:
                results[rank] = work(peers)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=go, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def numbers_of(rank, length):
    return np.random.default_rng([rank, length]).integers(-(2**60), 2**60, length)


def naive_sum(size, length):
    """Sums as Python adds, in 64 bits at the end."""
    rows = [numbers_of(rank, length).tolist() for rank in range(size)]
    return [as_int64(sum(column)) for column in zip(*rows, strict=True)]


def as_int64(total):
    """A whole number as it is in 64 bits."""
    return (total + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("size", SIZES)
def test_sums_are_those_of_all_numbers_on_every_worker(size):
    def work(peers):
        sums = []
        for length in LENGTHS:
            numbers = numbers_of(peers.rank, length)
            peers.sum(numbers)
            sums.append(numbers)
        return sums

    expected = {length: sum(numbers_of(rank, length) for rank in range(size)) for length in LENGTHS}
    for sums in run(size, work):
        for length, numbers in zip(LENGTHS, sums, strict=True):
            np.testing.assert_array_equal(numbers, expected[length])


def test_sums_wrap_around():
    def work(peers):
        numbers = np.full(3, 2**62)
        peers.sum(numbers)
        return numbers.tolist()

    assert run(3, work) == [[as_int64(3 * 2**62)] * 3] * 3


@pytest.mark.parametrize("size", [2, 4, 9])
def test_sums_keep_shape_and_byte_order(size):
    def work(peers):
        numbers = np.arange(12).reshape(3, 4).astype(">i8")
        peers.sum(numbers)
        return numbers

    for numbers in run(size, work):
        assert numbers.dtype == np.dtype(">i8")
        np.testing.assert_array_equal(numbers, size * np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("size", SIZES)
def test_maxima_are_those_of_all_values_whatever_the_sign_of_zero(size):
    def values_of(rank):
        values = np.random.default_rng(rank).normal(size=50)
        values[0] = -0.0
        values[1] = 0.0 if rank == size - 1 else -0.0
        values[2] = np.nan if rank == size // 2 else np.inf
        values[3] = -np.inf
        values[4] = -1e-310 * (rank + 1)
        return values

    def work(peers):
        values = values_of(peers.rank)
        peers.max(values)
        return values

    expected = np.max([values_of(rank) for rank in range(size)], axis=0)
    for values in run(size, work):
        np.testing.assert_array_equal(values, expected)
        assert np.signbit(values[:2]).tolist() == [True, False]


def test_keys_have_the_order_of_floats():
    values = np.array([-np.inf, -1.5, -1e-310, -0.0, 0.0, 1e-310, 2.0, np.inf, np.nan])
    keys = max_keys(values)
    assert keys.tolist() == sorted(set(keys.tolist()))
    np.testing.assert_array_equal(values_of_keys(keys), values)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_bits_of_any_worker_are_set(size):
    def work(peers):
        numbers = np.array([1 << peers.rank, 0, -1 if peers.rank == 0 else 0])
        peers.bitwise_or(numbers)
        return numbers.tolist()

    assert run(size, work) == [[2**size - 1, 0, -1]] * size


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter_gives_each_worker_the_sums_of_all_others_for_its_part(size):
    length = 20_011
    uneven = sorted(np.random.default_rng(size).integers(0, length, size - 1).tolist())
    every_bounds = [
        even_bounds(length, size), [0, *uneven, length], [0] * size + [length],
        [0] + [length] * size,
    ]  # fmt: skip

    def work(peers):
        return [peers.reduce_scatter(numbers_of(peers.rank, length), b) for b in every_bounds]

    total = sum(numbers_of(rank, length) for rank in range(size))
    for rank, parts in enumerate(run(size, work)):
        expected = total - numbers_of(rank, length)
        for bounds, numbers in zip(every_bounds, parts, strict=True):
            np.testing.assert_array_equal(numbers, expected[bounds[rank] : bounds[rank + 1]])


@pytest.mark.parametrize("size", SIZES)
def test_every_worker_gets_what_each_other_one_has_for_it(size):
    def numbers_for(sender, receiver):
        return np.arange(sender * 30_000 * (receiver % 3)) + 100 * receiver + sender

    def work(peers):
        messages = [numbers_for(peers.rank, rank) for rank in range(size)]
        received = [each.tolist() for each in peers.scatter(messages)]
        # The memory of a call is that of the next one, which may be longer or shorter.
        again = [each.tolist() for each in peers.scatter([np.arange(peers.rank)] * size)]
        return received, again

    for rank, (received, again) in enumerate(run(size, work)):
        others = [other for other in range(size) if other != rank]
        assert received == [numbers_for(other, rank).tolist() for other in others]
        assert again == [list(range(other)) for other in others]


@pytest.mark.parametrize("size", SIZES)
def test_messages_of_all_are_gathered_in_the_order_of_ranks(size):
    def message_of(rank):
        return bytes([rank]) * (rank * 20_000)

    every = [message_of(rank) for rank in range(size)]
    lengths = [len(each) for each in every]

    def work(peers):
        message = message_of(peers.rank)
        return peers.gather(message), peers.gather(message, lengths)

    assert run(size, work) == [(every, every)] * size


def test_a_message_of_another_length_than_all_know_is_an_error():
    def work(peers):
        return peers.gather(b"abc", [3, 3] if peers.rank else [3, 4])

    with pytest.raises(WorkersError, match=r"must send 4 bytes .* Got 3"):
        run(2, work)


@pytest.mark.parametrize("size", [2, 4, 9])
def test_workers_talk_where_there_is_no_poll(size, monkeypatch):
    monkeypatch.delattr(select, "poll")
    every = [bytes([rank]) * 300_000 for rank in range(size)]
    assert run(size, lambda peers: peers.gather(every[peers.rank])) == [every] * size


@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_any_worker_gets_to_all(size):
    def work(peers):
        return [
            peers.broadcast(bytes([root]) * 50_000 if peers.rank == root else None, root)
            for root in range(size)
        ]

    assert run(size, work) == [[bytes([root]) * 50_000 for root in range(size)]] * size


def test_sixty_four_workers_agree():
    resource = pytest.importorskip("resource", reason="needs to allow many open connections")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most[1] != resource.RLIM_INFINITY and most[1] < 10_000:
        pytest.skip("needs 10,000 open connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most[0], 10_000), most[1]))

    def work(peers):
        results = []
        for length in (1, 3_000):
            numbers = numbers_of(peers.rank, length)
            peers.sum(numbers)
            results.append(numbers.tolist())
        part = peers.reduce_scatter(numbers_of(peers.rank, 640), even_bounds(640, 64))
        part += numbers_of(peers.rank, 640)[10 * peers.rank : 10 * (peers.rank + 1)]
        results.append(b"".join(peers.gather(part.tobytes())))
        results.append(peers.broadcast(b"root" if peers.rank == 5 else None, 5))
        return results

    expected = [
        naive_sum(64, 1),
        naive_sum(64, 3_000),
        np.array(naive_sum(64, 640)).tobytes(),
        b"root",
    ]
    assert run(64, work) == [expected] * 64


def message_bytes(length):
    """A message of some numbers on the wire."""
    return 8 * length + 24


def sent_by(size, operation):
    """Bytes that each worker sent, and received, in one operation."""

    def work(peers):
        operation(peers)
        return peers.traffic.bytes_sent, peers.traffic.bytes_received, peers.traffic.exchanges

    results = run(size, work)
    assert {exchanges for *_, exchanges in results} == {1}
    assert sum(sent for sent, *_ in results) == sum(received for _, received, _ in results)
    return [sent for sent, *_ in results]


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("length", [1, 1_000])
def test_small_sums_send_the_array_to_every_other_worker(size, length):
    sent = sent_by(size, lambda peers: peers.sum(np.zeros(length, np.int64)))
    assert sent == [(size - 1) * message_bytes(length)] * size


@pytest.mark.parametrize("size", [3, 4, 8])
def test_large_sums_send_each_part_once_to_its_worker_and_once_to_all(size):
    length = 36_864 + 5
    parts = np.diff(even_bounds(length, size))
    sent = sent_by(size, lambda peers: peers.sum(np.zeros(length, np.int64)))
    assert sent == [
        sum(message_bytes(part) for r, part in enumerate(parts) if r != rank)
        + (size - 1) * message_bytes(parts[rank])
        for rank in range(size)
    ]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_reduce_scatter_sends_each_part_once(size):
    bounds = even_bounds(36_864, size)
    sent = sent_by(size, lambda peers: peers.reduce_scatter(np.zeros(36_864, np.int64), bounds))
    assert sent == [(size - 1) * message_bytes(36_864 // size)] * size


@pytest.mark.parametrize("size", [16, 32])
def test_halving_sends_half_the_array_then_a_quarter_and_so_on(size):
    length = 36_864
    halves = sum(message_bytes(length >> step) for step in range(1, size.bit_length()))
    bounds = even_bounds(length, size)
    sent = sent_by(size, lambda peers: peers.reduce_scatter(np.zeros(length, np.int64), bounds))
    assert sent == [halves] * size
    sent = sent_by(size, lambda peers: peers.sum(np.zeros(length, np.int64)))
    assert sent == [2 * halves] * size
    sent = sent_by(size, lambda peers: peers.sum(np.zeros(2, np.int64)))
    assert sent == [(size.bit_length() - 1) * message_bytes(2)] * size


def test_workers_beyond_a_power_of_two_hand_their_numbers_to_a_neighbour():
    size, length = 11, 8 * 4_000  # 8 take part, for 3 pairs and 5 single ones
    halves = sum(message_bytes(length >> step) for step in (1, 2, 3))
    sent = sent_by(size, lambda peers: peers.sum(np.zeros(length, np.int64)))
    stands_for_two = message_bytes(0) + 2 * halves + message_bytes(length)
    folded = message_bytes(length) + message_bytes(0)
    assert sent == [stands_for_two, folded] * 3 + [2 * halves] * 5


def test_traffic_counts_calls_and_seconds():
    def work(peers):
        time.sleep(peers.rank)  # so that the first has to wait
        for _ in range(3):
            peers.sum(np.zeros(1000, np.int64))
        peers.gather(b"")
        return peers.traffic

    first, second = run(2, work)
    assert first.exchanges == second.exchanges == 4
    assert min(first.processor_seconds, second.processor_seconds) > 0
    assert first.seconds_waiting > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda peers: peers.sum(np.zeros(3)), "numbers must be an array of int64. Got float64"),
        (lambda peers: peers.sum([1]), "numbers must be an array of int64. Got list"),
        (lambda peers: peers.sum(np.zeros((4, 4), np.int64)[:, 1]), "contiguous and writeable"),
        (lambda peers: peers.max(np.zeros(3, np.int64)), "values must be an array of float64"),
        (lambda peers: peers.scatter([]), "messages must be 1, one for each worker. Got 0"),
        (lambda peers: peers.broadcast(b"", 1), "root must be a rank from 0 to 0. Got 1"),
        (lambda peers: peers.broadcast(None, 0), "message must be bytes"),
        (
            lambda peers: peers.reduce_scatter(np.zeros(3, np.int64), [0, 2]),
            "bounds must be 2 rising places from 0 to 3",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(call, message):
    def work(peers):
        with pytest.raises(ParameterError, match=message):
            call(peers)
        return peers.traffic.exchanges

    assert run(1, work) == [0]


def test_no_thread_is_left():
    before = set(threading.enumerate())
    run(MOST_DIRECT + 1, lambda peers: peers.gather(b"x"))
    assert set(threading.enumerate()) == before
