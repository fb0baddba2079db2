"""The app in examples/flower on a real SuperLink with real SuperNodes, against the local driver.

Flower starts many processes, and one more for every question to every party: here one party is
asked once, and `make test-long` has the rest.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from unpooled.data.parties import Parties
from unpooled.privacy.policy import DEPLOYMENT
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.simulate import Options, run_star

APP = Path(__file__).parents[2] / "examples" / "flower"
NAMES = ("North", "South", "West")
RNG = np.random.default_rng(0)
TABLES = [
    np.concatenate([RNG.normal(corner, 3.0, size=(100, 2)) for corner in corners])
    for corners in (
        [(60, 120), (80, 140), (40, 100)],
        [(60, 120), (80, 140)],
        [(80, 140), (40, 100)],
    )
]


class Federation:
    """A SuperLink and one SuperNode for each party, on free ports of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parties = Parties.of(TABLES, names=NAMES)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._env = {
            **os.environ,
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def start(self) -> None:
        link, *nodes = _free_ports(1 + len(self.parties))
        (self.folder / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n'
            f'[superlink.test]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
        )
        self._start(
            "flower-superlink", "--port", str(link), "--disable-runtime-dependency-installation"
        )
        _wait_for(link)
        for number, (name, port) in enumerate(zip(self.parties.names, nodes, strict=True)):
            data = self.folder / f"{name}.csv"
            _write(data, TABLES[number])
            config = f'partition-id={number} name="{name}" data="{data}" memory="{data}.memory"'
            place = ["--superlink", f"127.0.0.1:{link}", "--port", str(port)]
            self._start("flower-supernode", *place, "--node-config", config)

    def _start(self, *command: str) -> None:
        with self.folder.joinpath(f"{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--insecure"],
                    env=self._env,
                    cwd=self.folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def run(self, config: str) -> str:
        """What the coordinator printed in a run of the app with this run config."""
        command = ["flwr", "run", str(APP), "--stream", "--run-config", config]
        done = subprocess.run(
            command, env=self._env, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        return done.stdout + done.stderr

    def stop(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    @property
    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for own in sockets:
            own.bind(("127.0.0.1", 0))
        return [own.getsockname()[1] for own in sockets]


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("The SuperLink did not come up.")


def _write(path: Path, rows: np.ndarray) -> None:
    """A csv file with a column that nobody asked for, and the others in another order."""
    lines = [f"{b!r},{i},{a!r}" for i, (a, b) in enumerate(rows.tolist())]
    path.write_text("\n".join(["pressure,patient,age", *lines]))


PROTOCOLS: dict[str, StarProtocol] = {
    "feca": FeCA(3, 3),
    "one-shot": OneShotKMeans(3, 3),
    "federated": FederatedKMeans(OneShotKMeans(3, 3), max_rounds=2),
}


@pytest.mark.long
def test_the_result_is_the_local_one_bit_for_bit(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    try:
        federation.start()
        for method in PROTOCOLS:
            same_as_local(federation, method)
    finally:
        federation.stop()


def same_as_local(federation: Federation, method: str) -> None:
    parties = federation.parties
    local = run_star(PROTOCOLS[method], parties, seed=5, options=Options(policy=DEPLOYMENT))
    output = federation.folder / f"{method}.csv"
    printed = federation.run(
        f'method="{method}" seed=5 max-rounds=2 n-parties={len(parties)} '
        f'columns="age,pressure" output="{output}"'
    )
    assert output.exists(), printed + federation.logs
    centers = np.loadtxt(output, delimiter=",", skiprows=1, ndmin=2)
    assert np.array_equal(centers, local.result["centers"])
    assert len(centers) == 3
    assert str(local.traffic) in printed
    assert f"centroids 0: answered by {', '.join(parties.names)}" in printed
