"""Workers in processes of their own: what they compute, and what each failure says."""

import hashlib
import os
import pickle
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rankgrove.distributed import (
    DisconnectedError,
    NoConnectionError,
    NoPortError,
    StoppedError,
    StrangeBytesError,
    WorkerFailedError,
    WorkerLostError,
    WrongTokenError,
    WrongVersionError,
    connect,
    handshake,
    listen,
    new_token,
)
from rankgrove.distributed.collectives import even_bounds
from rankgrove.distributed.wire import Header, NumberType, Operation
from rankgrove.errors import ParameterError, RankgroveError
from socket_workers import LIMIT, Team, Worker, run_command

HISTOGRAM = 36_864  # numbers: 294,912 bytes


def numbers_of(rank, length):
    return np.random.default_rng([rank, length]).integers(-(2**62), 2**62, length)


def digest(numbers):
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def naive_sum(size, length):
    with np.errstate(over="ignore"):
        return sum(numbers_of(rank, length) for rank in range(size))


@pytest.fixture
def teams():
    """Makes teams of worker processes, and ends them."""
    made = []

    def make(size, **options):
        made.append(Team(size, **options))
        return made[-1]

    yield make
    for team in made:
        team.end()


@pytest.fixture
def connected(teams):
    """Makes teams whose workers are connected."""

    def make(size, **options):
        team = teams(size)
        answers = team.connect(**options)
        assert not any("error" in answer for answer in answers), answers
        return team

    return make


def named(answer, rank, team, kind):
    """Whether an answer is an error of a kind about a worker, which it names."""
    assert answer.get("error") == kind, answer
    assert (answer["rank"], answer["address"]) == (rank, team.addresses[rank])
    assert f"worker {rank} at {team.addresses[rank]}" in answer["message"]
    return True


@pytest.mark.parametrize("size", [2, 3, 4])
def test_processes_compute_what_one_would(connected, size):
    team = connected(size)
    for length in (0, 1, HISTOGRAM, 200_000):
        total = naive_sum(size, length)
        assert team.ask("sum", length=length) == [digest(total)] * size
        bounds = even_bounds(length, size)
        parts = [
            (total - numbers_of(rank, length))[bounds[rank] : bounds[rank + 1]]
            for rank in range(size)
        ]
        answers = team.ask("reduce_scatter", length=length, bounds=bounds)
        assert answers == [digest(part) for part in parts]
        messages = [digest(numbers_of(rank, length)) for rank in range(size)]
        assert team.ask("gather", length=length) == [messages] * size
        assert team.ask("broadcast", length=length, root=size - 1) == [messages[-1]] * size
    assert len(set(team.ask("max", length=1000))) == 1
    team.ask("sum", length=100, times=200)


def test_nothing_is_left_open(connected):
    team = connected(3)
    ports = [address.rpartition(":")[2] for address in team.addresses]
    opened = team.ask("open_things")
    # Two for each other worker; the port is closed as soon as all are connected.
    assert opened == [{"sockets": 4, "selectors": 0, "threads": 1}] * 3
    team.ask("sum", length=HISTOGRAM)
    team.ask("close")
    assert team.ask("open_things") == [{"sockets": 0, "selectors": 0, "threads": 1}] * 3
    for port in ports:
        listen(ports=port).close()


def test_calls_after_closing_are_refused(connected):
    team = connected(2)
    team.ask("close")
    team.tell("sum", length=1)
    for answer in team.answers():
        assert answer["error"] == DisconnectedError.__name__
        assert "is no longer connected" in answer["message"]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("length", [1, 1_000_000])
def test_killed_worker_is_named_by_all(connected, victim, length):
    team = connected(4)
    team.tell("sum_forever", length=length)
    time.sleep(0.3)
    os.kill(team.workers[victim].pid, signal.SIGKILL)
    others = [worker for rank, worker in enumerate(team.workers) if rank != victim]
    for answer in team.answers(others):
        assert named(answer, victim, team, WorkerLostError.__name__)
        assert "is gone" in answer["message"]
    for worker in others:
        worker.ask("close")
        assert worker.ask("open_things")["sockets"] == 0


def test_killed_worker_is_noticed_while_all_wait_for_another(connected):
    team = connected(4)
    for rank in (0, 1):
        team.workers[rank].tell("sum", length=HISTOGRAM)
    time.sleep(0.3)
    os.kill(team.workers[2].pid, signal.SIGKILL)
    for answer in team.answers(team.workers[:2]):
        assert named(answer, 2, team, WorkerLostError.__name__)
    # Worker 3 has been busy, and hears of it when it comes.
    team.workers[3].tell("sum", length=HISTOGRAM)
    assert named(team.workers[3].answer(), 2, team, WorkerLostError.__name__)


def test_failed_worker_cannot_go_on(connected):
    team = connected(2)
    team.workers[1].end()
    for error in (WorkerLostError, DisconnectedError):
        team.workers[0].tell("sum", length=1)
        answer = team.workers[0].answer()
        assert answer["error"] == error.__name__
        assert "worker 1" in answer["message"]


def test_stopped_process_ends_waiting_by_the_flag_only(connected, tmp_path):
    flag = tmp_path / "stop"
    team = connected(3, stop_file=str(flag), line=1.5)
    os.kill(team.workers[1].pid, signal.SIGSTOP)
    for rank in (0, 2):
        team.workers[rank].tell("sum", length=500_000)
    time.sleep(3.5)
    assert team.workers[0].is_busy()
    assert team.workers[2].is_busy()
    flag.touch()
    answers = team.answers([team.workers[0], team.workers[2]])
    assert StoppedError.__name__ in {answer["error"] for answer in answers}
    for answer in answers:
        assert f"worker 1 at {team.addresses[1]}" in answer["message"]
        assert "was stopped from outside after" in answer["message"]
    lines = team.workers[0].ask("waiting_lines")
    words = f"waiting for worker 1 at {team.addresses[1]} for "
    assert any(line.startswith(words) for line in lines), lines


def test_busy_worker_is_not_taken_for_dead_whatever_is_sent_to_it(connected):
    # The kernel would end a connection that it watches over and whose other side does not read.
    team = connected(2, silence=1.0)
    team.workers[0].tell("sum", length=2_000_000)
    team.workers[1].ask("sleep", seconds=4)
    team.workers[1].tell("sum", length=2_000_000)
    assert {answer["value"] for answer in team.answers()} == {digest(naive_sum(2, 2_000_000))}


def test_error_of_one_worker_is_raised_by_all(connected):
    team = connected(4)
    for rank in (0, 2, 3):
        team.workers[rank].tell("sum", length=1_000_000)
    team.workers[1].ask("abort", message="part-003.parquet, row 17: label must be a number")
    for rank in (0, 2, 3):
        answer = team.workers[rank].answer()
        assert named(answer, 1, team, "WorkerFailedError")
        assert "part-003.parquet, row 17" in answer["message"]
        assert answer["message"].count("has failed") == 1


def test_error_inside_the_with_statement_is_told_to_all(connected):
    team = connected(3)
    for rank in (0, 1):
        team.workers[rank].tell("gather", length=10)
    team.workers[2].tell("raise_inside", message="no memory left")
    assert team.workers[2].answer()["message"] == "no memory left"
    for answer in team.answers(team.workers[:2]):
        assert named(answer, 2, team, "WorkerFailedError")
        assert answer["message"].endswith("has failed: ValueError: no memory left")


def test_busy_worker_hears_of_an_earlier_error_when_it_sends(connected):
    team = connected(2)
    team.workers[1].ask("abort", message="disk full")
    team.workers[1].ask("close")
    team.workers[0].tell("sum", length=1_000_000)
    answer = team.workers[0].answer()
    assert named(answer, 1, team, "WorkerFailedError")
    assert "disk full" in answer["message"]


def test_interrupt_of_one_worker_is_told_to_all():
    def interrupt():
        raise KeyboardInterrupt

    pair = Pair()
    thread = threading.Thread(target=pair.run, args=(1,), kwargs={"seconds": 3})
    thread.start()
    with (
        pytest.raises(KeyboardInterrupt),
        connect(
            pair.listeners[0], 0, pair.addresses, pair.tokens[0], should_stop=interrupt
        ) as peers,
    ):
        peers.gather(b"")
    thread.join(LIMIT)
    assert isinstance(pair.results[1], WorkerFailedError)
    assert str(pair.results[1]).endswith("has failed: KeyboardInterrupt")


@pytest.mark.parametrize("length", [10, 100_000])
def test_wrong_length_names_both_lengths(connected, length):
    team = connected(2)
    team.workers[0].tell("sum", length=length)
    team.workers[1].tell("sum", length=length + 1)
    first, second = team.answers()
    assert named(first, 1, team, "WrongLengthError")
    assert f"must send {8 * length} bytes in call 1, sum of int64" in first["message"]
    assert f"Got {8 * length + 8}" in first["message"]
    # The second has seen it too, or has been told by the first.
    assert second["error"] in ("WrongLengthError", "WorkerFailedError")
    assert str(8 * length) in second["message"]


def test_lost_step_names_both_calls(connected):
    team = connected(3)
    team.workers[0].tell("sum", length=10)
    team.workers[1].tell("max", length=10)
    team.workers[2].tell("sum", length=10)
    messages = [answer["message"] for answer in team.answers()]
    assert any(
        f"worker 1 at {team.addresses[1]} has lost step: it is at call 1, max of float64, step 0, "
        "this worker is at call 1, sum of int64, step 0." in message
        for message in messages
    )
    assert all("has lost step" in message for message in messages)


def test_worker_that_has_ended_its_work_has_lost_step(connected):
    team = connected(2)
    team.ask("sum", length=10)
    team.workers[1].ask("close")
    team.workers[0].tell("sum", length=10)
    answer = team.workers[0].answer()
    assert named(answer, 1, team, "LostStepError")
    assert "it has ended its work, this worker is at call 2" in answer["message"]


def test_worker_may_end_its_work_before_others(connected):
    team = connected(3)
    # Both messages of worker 2 are there before the others call.
    team.tell("broadcast", length=5, root=0)
    team.answers()
    team.workers[2].ask("close")
    for rank in (0, 1):
        team.workers[rank].ask("close")


@pytest.mark.parametrize("channel", ["numbers", "words"])
def test_closed_connection_is_a_lost_worker_on_the_other_side(connected, channel):
    team = connected(2)
    team.workers[0].ask("shut", rank=1, channel=channel)
    team.workers[1].tell("sum", length=10)
    assert named(team.workers[1].answer(), 0, team, WorkerLostError.__name__)


@pytest.mark.parametrize("channel", ["numbers", "words"])
def test_bytes_that_are_no_message_are_named(connected, channel):
    team = connected(2)
    team.workers[0].ask("send_raw", rank=1, text="00" * 24, channel=channel)
    team.workers[1].tell("sum", length=10)
    answer = team.workers[1].answer()
    assert named(answer, 0, team, StrangeBytesError.__name__)


def test_impossible_length_is_refused(connected):
    team = connected(2)
    header = Header(int(Operation.GATHER), int(NumberType.BYTES), 0, 1, 1 << 60)
    team.workers[0].ask("send_raw", rank=1, text=header.pack().hex())
    team.workers[1].tell("gather", length=10)
    assert named(team.workers[1].answer(), 0, team, StrangeBytesError.__name__)


class Pair:
    """Two workers of this process that are about to connect, the second in a thread."""

    def __init__(self, token=None, timeout=LIMIT):
        self.listeners = [listen(), listen()]
        self.addresses = [listener.address for listener in self.listeners]
        self.tokens = [new_token(), token]
        self.tokens[1] = self.tokens[0] if token is None else token
        self.timeout = timeout
        self.results = [None, None]

    def run(self, rank, seconds=0):
        """Connect, and gather twice after some seconds."""
        try:
            token = self.tokens[rank]
            with connect(
                self.listeners[rank], rank, self.addresses, token, timeout=self.timeout
            ) as peers:
                time.sleep(seconds)
                peers.gather(b"")
                self.results[rank] = peers.gather(b"%d" % rank)
        except RankgroveError as error:
            self.results[rank] = error

    def finish(self):
        threads = [threading.Thread(target=self.run, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        return self.results


def address_of(pair, rank):
    host, _, port = pair.addresses[rank].rpartition(":")
    return host, int(port)


def test_wrong_token_is_refused_on_both_sides():
    pair = Pair(token=new_token(), timeout=4)
    first, second = pair.finish()
    assert isinstance(second, WrongTokenError)
    assert str(second) == (
        f"worker 0 at {pair.addresses[0]} has another token: pass the same one to all workers."
    )
    assert isinstance(first, NoConnectionError)
    assert "it has another token" in str(first)


def test_token_is_never_sent(monkeypatch):
    heard = []
    real = handshake.Identity.greeting
    monkeypatch.setattr(
        handshake.Identity, "greeting", lambda *args: heard.append(real(*args)) or heard[-1]
    )
    pair = Pair()
    assert pair.finish() == [[b"0", b"1"]] * 2
    # Two connections, two sides.
    assert len(heard) == len(set(heard)) == 4
    assert all(pair.tokens[0].encode() not in greeting for greeting in heard)


@pytest.mark.parametrize(
    "words",
    [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(200), os.urandom(500), b"RANKGROV" + bytes(100)],
)
def test_strangers_do_no_harm(words):
    pair = Pair()
    strangers = [socket.create_connection(address_of(pair, rank)) for rank in (0, 1)]
    for stranger in strangers:
        stranger.sendall(words)
    assert pair.finish() == [[b"0", b"1"]] * 2
    for stranger in strangers:
        stranger.close()


def test_stranger_with_a_recorded_proof_is_refused():
    """What was heard on the wire opens no second connection: numbers are new each time."""
    pair = Pair(timeout=4)
    thread = threading.Thread(target=pair.run, args=(0,))
    thread.start()
    with socket.create_connection(address_of(pair, 0)) as stranger:
        stranger.settimeout(LIMIT)
        me = handshake.Identity(1, 2, b"another token, long enough")
        greeting = me.greeting(0, handshake.WORDS)
        stranger.sendall(greeting)
        answer = stranger.recv(len(greeting), socket.MSG_WAITALL)
        # The proof of the other side for the same greetings does not serve either.
        right = handshake.Identity(0, 2, pair.tokens[0].encode())
        stranger.sendall(right.proof(b"accept", greeting, answer))
        assert stranger.recv(33, socket.MSG_WAITALL) == b"\x01" + bytes(32)
    thread.join(LIMIT)
    pair.listeners[1].close()
    assert isinstance(pair.results[0], NoConnectionError)


def test_other_version_is_named():
    pair = Pair(timeout=LIMIT)

    def answer():
        pair.listeners[0].socket.setblocking(True)
        connection, _ = pair.listeners[0].socket.accept()
        with connection:
            greeting = connection.recv(56, socket.MSG_WAITALL)
            connection.sendall(greeting[:8] + struct.pack("<H", 7) + greeting[10:])
            connection.recv(1)

    thread = threading.Thread(target=answer)
    thread.start()
    pair.run(1)
    thread.join(LIMIT)
    pair.listeners[0].close()
    assert isinstance(pair.results[1], WrongVersionError)
    assert str(pair.results[1]) == (
        f"worker 0 at {pair.addresses[0]} must speak version 1 of the protocol. Got 7: install "
        "the same Rankgrove on all workers."
    )


def test_something_else_at_the_address_is_named():
    pair = Pair()

    def answer():
        pair.listeners[0].socket.setblocking(True)
        connection, _ = pair.listeners[0].socket.accept()
        with connection:
            connection.sendall(b"220 mail.example.com ESMTP ready, what can I do for you today?")
            connection.recv(100)

    thread = threading.Thread(target=answer)
    thread.start()
    pair.run(1)
    thread.join(LIMIT)
    pair.listeners[0].close()
    assert isinstance(pair.results[1], StrangeBytesError)
    assert f"what answers for worker 0 at {pair.addresses[0]} is no worker" in str(pair.results[1])


def test_address_where_nobody_listens_is_a_lost_worker():
    pair = Pair()
    pair.listeners[0].close()
    pair.run(1)
    assert isinstance(pair.results[1], WorkerLostError)
    assert "nobody listens there" in str(pair.results[1])


def test_workers_with_other_addresses_are_told_so(teams):
    team = teams(3)
    swapped = [team.addresses[1], team.addresses[0], team.addresses[2]]
    for rank in (0, 1):
        team.tell_to_connect(team.workers[rank], rank, timeout=3)
    team.tell_to_connect(team.workers[2], 2, addresses=swapped)
    answers = team.answers()
    assert "of 3 workers. Got number" in answers[2]["message"]
    assert "pass the same addresses to all workers" in answers[2]["message"]
    assert all("error" in answer for answer in answers)


def test_worker_that_is_killed_before_all_are_connected_is_named(teams):
    team = teams(3)
    for rank in (0, 1):
        team.tell_to_connect(team.workers[rank], rank)
    while open_sockets(team.workers[0].pid) < 3:
        time.sleep(0.1)  # its port, and two connections of worker 1
    time.sleep(1)
    os.kill(team.workers[1].pid, signal.SIGKILL)
    assert named(team.workers[0].answer(), 1, team, WorkerLostError.__name__)


def open_sockets(pid):
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(link.startswith("socket:") for link in links)


def test_setting_up_stops_by_the_flag():
    begun = threading.Event()

    def should_stop():
        begun.set()
        return True

    listener, other = listen(), listen()
    with other, pytest.raises(StoppedError, match=r"waiting for worker 1 at .* was stopped"):
        connect(
            listener, 0, [listener.address, other.address], new_token(), should_stop=should_stop
        )
    assert begun.is_set()
    assert listener.socket.fileno() == -1


def test_first_free_port_of_a_range_is_taken():
    with listen() as first:
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(NoPortError, match=f"Got '{port}', 1 of them"):
            listen(ports=str(port))
        with listen(ports=f"{port}-{min(port + 50, 65535)}") as second:
            other = int(second.address.rpartition(":")[2])
            assert port < other <= port + 50
    # A port that was in use a moment ago is free.
    with listen(ports=str(port)) as again:
        assert again.address == first.address


@pytest.mark.parametrize(
    ("host", "ports", "message"),
    [
        ("0.0.0.0", None, "host must be the address of one interface"),
        ("192.0.2.1", None, "host must be an address of this machine. Got '192.0.2.1'"),
        ("127.0.0.1", "9100-9000", "ports must be a port from 1 to 65535, or a range"),
        ("127.0.0.1", "many", "ports must be a port"),
        ("127.0.0.1", "0", "ports must be a port"),
    ],
)
def test_places_where_nobody_can_listen_are_refused(host, ports, message):
    with pytest.raises(ParameterError, match=message):
        listen(host, ports)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 2}, "rank must be from 0 to 1, one per address. Got 2"),
        ({"addresses": []}, "addresses must be one per worker. Got none"),
        ({"token": "short"}, r"token must be 16 bytes or more. Got 5: use new_token\(\)"),
        ({"rank": 1, "addresses": ["nowhere", "127.0.0.1:5"]}, "addresses must be like"),
    ],
)
def test_arguments_that_connect_nobody_are_refused(changes, message):
    arguments = {"rank": 0, "addresses": ["127.0.0.1:1", "127.0.0.1:2"], "token": new_token()}
    listener = listen()
    with pytest.raises(ParameterError, match=message):
        connect(listener, **{**arguments, **changes})
    assert listener.socket.fileno() == -1


def test_workers_connect_over_ip_version_6():
    try:
        listeners = [listen("::1"), listen("::1")]
    except ParameterError:
        pytest.skip("no IPv6 here")
    pair = Pair()
    for listener in pair.listeners:
        listener.close()
    pair.listeners, pair.addresses = listeners, [listener.address for listener in listeners]
    assert pair.finish() == [[b"0", b"1"]] * 2


def test_errors_keep_the_worker_after_pickling():
    error = WorkerLostError("worker 2 at 10.0.0.7:41233 is gone.", 2, "10.0.0.7:41233")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_connections_are_encrypted_on_request(connected, certificate):
    team = connected(3, tls=certificate)
    assert team.ask("sum", length=1_000_000) == [digest(naive_sum(3, 1_000_000))] * 3
    team.ask("sum", length=100, times=100)
    os.kill(team.workers[1].pid, signal.SIGKILL)
    for rank in (0, 2):
        team.workers[rank].tell("sum", length=HISTOGRAM)
        assert named(team.workers[rank].answer(), 1, team, WorkerLostError.__name__)


def test_worker_without_a_certificate_is_refused(teams, certificate):
    team = teams(2)
    team.tell_to_connect(team.workers[0], 0, tls=certificate, timeout=3)
    team.tell_to_connect(team.workers[1], 1)
    first, second = team.answers()
    assert first["error"] == NoConnectionError.__name__
    assert second["error"] == WorkerLostError.__name__


def team_on(teams, names):
    prefixes = [("ip", "netns", "exec", name) for name in names]
    return teams(2, prefixes=prefixes, hosts=["10.77.0.1", "10.77.0.2"])


def test_cut_cable_is_a_lost_worker(teams, hosts):
    names, cables = hosts
    team = team_on(teams, names)
    assert not any("error" in answer for answer in team.connect(silence=3.0))
    team.ask("sum", length=HISTOGRAM)
    assert run_command("ip", "-n", names[1], "link", "set", cables[1], "down").returncode == 0
    team.tell("sum", length=HISTOGRAM)
    for rank, answer in enumerate(team.answers()):
        assert named(answer, 1 - rank, team, WorkerLostError.__name__)
        assert "has not answered for 3 s, or the network is down" in answer["message"]


def test_cut_cable_is_noticed_while_nothing_is_sent(teams, hosts):
    names, cables = hosts
    team = team_on(teams, names)
    assert not any("error" in answer for answer in team.connect(silence=3.0))
    team.workers[0].tell("sum", length=1)
    time.sleep(0.5)
    assert run_command("ip", "-n", names[1], "link", "set", cables[1], "down").returncode == 0
    assert named(team.workers[0].answer(), 1, team, WorkerLostError.__name__)


def test_slow_cable_is_not_a_lost_worker(teams, hosts):
    names, cables = hosts
    for name, cable in zip(names, cables, strict=True):
        slow = ["rate", "8mbit", "burst", "32kb", "latency", "200ms"]
        done = run_command("tc", "-n", name, "qdisc", "add", "dev", cable, "root", "tbf", *slow)
        if done.returncode:
            pytest.skip(f"needs tc with tbf: {done.stderr.strip()}")
    team = team_on(teams, names)
    # 3.2 MB at 1 MB per second, three times the silence that is allowed.
    assert not any("error" in answer for answer in team.connect(silence=1.0))
    assert team.ask("sum", length=400_000) == [digest(naive_sum(2, 400_000))] * 2


def test_closed_port_is_a_lost_worker(teams, hosts):
    names, _ = hosts
    team = team_on(teams, names)
    team.workers[0].end()
    team.tell_to_connect(team.workers[1], 1)
    answer = team.workers[1].answer()
    assert named(answer, 0, team, WorkerLostError.__name__)
    assert "nobody listens there, or a firewall has closed the port" in answer["message"]


def test_worker_process_ends_with_its_input():
    worker = Worker()
    worker.ask("listen")
    worker.process.stdin.close()
    assert worker.process.wait(LIMIT) == 0
    worker.end()
