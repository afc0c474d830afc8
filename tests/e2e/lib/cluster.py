"""A control plane and its agents for a test: started on free addresses and ports in a temporary folder, stopped, killed
and restarted, and gone at the end.

The programs are those of SPILLWAY_BUILD (default build). A test's programs listen on 127.0.0.0/8 only; every cluster has
a /24 of its own there, so that suites may run side by side.
"""
import contextlib
import http.client
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from lib import arm, nfs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.join(ROOT, os.environ.get("SPILLWAY_BUILD", "build"))
START_TIMEOUT = 30 * (4 if "san" in os.path.basename(BUILD) else 1)
MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40

_networks = itertools.count()


def free_port(address="127.0.0.1"):
    """A port that nobody listens on now, above the ephemeral ones' usual use."""
    with socket.socket() as s:
        s.bind((address, 0))
        return s.getsockname()[1]


def free_network():
    """A /24 of 127.0.0.0/8 that no other cluster uses: by this process's id and a count."""
    number = (os.getpid() * 16 + next(_networks) % 16) % (100 * 250)
    return f"127.{100 + number // 250}.{1 + number % 250}.0/24"


def await_true(what, condition, timeout=20, pause=0.02):
    """Waits until `condition()` is true; its value."""
    until = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(pause)


class Program:
    """One of the two programs as a child process. Its output is in `log`."""

    def __init__(self, name, arguments, log):
        self.name, self.arguments, self.log = name, arguments, log
        self.child = None

    @property
    def running(self):
        return self.child is not None and self.child.poll() is None

    def spawn(self):
        assert not self.running, f"{self.name} runs already"
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(self.arguments, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def await_ready(self, healthy, timeout=START_TIMEOUT):
        until = time.monotonic() + timeout
        while not healthy():
            if not self.running:
                raise RuntimeError(f"{self.name} ended with {self.child.returncode}:\n{self.output()[-3000:]}")
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name} is not ready after {timeout} s:\n{self.output()[-3000:]}")
            time.sleep(0.02)

    def kill(self):
        """kill -9."""
        if self.running:
            self.child.kill()
        if self.child:
            self.child.wait()

    def stop(self, timeout=15 * (3 if "san" in os.path.basename(BUILD) else 1)):
        """SIGTERM; the exit status."""
        if not self.child:
            return 0
        if self.running:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} did not stop:\n{self.output()[-3000:]}") from None

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as f:
            return int(re.search(r"^VmRSS:\s+(\d+) kB", f.read(), re.M).group(1)) * 1024


class Control(Program):
    def __init__(self, folder, extra=()):
        self.state = os.path.join(folder, "control")
        self.port = free_port()
        self.endpoint = f"https://127.0.0.1:{self.port}"
        self.cacert = os.path.join(self.state, "tls-cert.pem")
        super().__init__("spillwayd", [os.path.join(BUILD, "spillwayd"), "--listen", f"127.0.0.1:{self.port}",
                                       "--state", self.state, *extra], os.path.join(folder, "spillwayd.log"))

    def start(self):
        self.spawn()
        self.await_ready(self.healthy)

    def healthy(self):
        if not os.path.exists(self.cacert):
            return False
        try:
            client = arm.Arm(self.endpoint, cacert=self.cacert, timeout=5)
            status = client.get("/healthz", api_version=None).status
            client.close()
            return status == 200
        except (OSError, http.client.HTTPException):
            return False

    @property
    def token(self):
        with open(os.path.join(self.state, "token"), encoding="ascii") as f:
            return f.read().strip()


class Agent(Program):
    def __init__(self, folder, name, control, token_file, network, extra=()):
        self.folder = os.path.join(folder, name)
        self.state, self.store = os.path.join(self.folder, "state"), os.path.join(self.folder, "store")
        os.makedirs(self.folder, exist_ok=True)
        self.network = network
        self.nfs_port, self.status_port = free_port(), free_port()
        arguments = [os.path.join(BUILD, "spillway-agent"), "--control", control.endpoint, "--cacert", control.cacert,
                     "--state", self.state, "--store", self.store, "--endpoints", network, "--nfs-port",
                     str(self.nfs_port), "--status", f"127.0.0.1:{self.status_port}", "--name", name, *extra]
        if token_file:
            arguments += ["--enroll-token", token_file]
        super().__init__(name, arguments, os.path.join(folder, name + ".log"))

    def start(self):
        self.spawn()
        self.await_ready(self.healthy)

    def page(self, path):
        """(status, text) of the status port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.status_port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def healthy(self):
        try:
            return self.page("/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def metric(self, name, **labels):
        """A sample of /metrics; the sum where several have these labels, None for none."""
        return metric_of(self.page("/metrics")[1], name, **labels)


def metric_of(text, name, **labels):
    found = None
    for line in text.splitlines():
        match = re.match(r"([a-z_:]+)(?:\{(.*)\})? (\S+)$", line)
        if not match or match.group(1) != name:
            continue
        present = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
        if all(present.get(key) == value for key, value in labels.items()):
            found = (found or 0) + float(match.group(3))
    return found


class Cluster:
    """A control plane with agents. Use as a context, or close() it."""

    def __init__(self, agents=1, control_args=(), agent_args=(), start=True):
        self.folder = tempfile.mkdtemp(prefix="spillway-e2e-")
        self.agents = []
        try:
            self.control = Control(self.folder, control_args)
            self.agent_args = list(agent_args)
            if start:
                self.control.start()
                self.arm = self.client()
                for _ in range(agents):
                    self.add_agent().start()
        except BaseException:
            self.close()
            raise

    def client(self, token=Ellipsis):
        return arm.Arm(self.control.endpoint, self.control.token if token is Ellipsis else token, self.control.cacert)

    def enroll_token(self):
        answer = self.arm.post("/admin/v1/enrollTokens", {}, api_version=None).expect(200, 201)
        return answer.json["token"]

    def add_agent(self, name=None, extra=()):
        name = name or f"agent{len(self.agents) + 1}"
        path = os.path.join(self.folder, name + ".token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(self.enroll_token())
        agent = Agent(self.folder, name, self.control, path, free_network(), [*self.agent_args, *extra])
        self.agents.append(agent)
        return agent

    @property
    def agent(self):
        return self.agents[0]

    def close(self):
        """Ends everything; programs that a test did not stop itself are stopped as an operator would."""
        failures = []
        for program in [*self.agents, getattr(self, "control", None)]:
            if program is None or program.child is None:
                continue
            was_running = program.running
            try:
                status = program.stop()
                if was_running and status != 0:
                    failures.append(f"{program.name} ended with {status}:\n{program.output()[-3000:]}")
            except RuntimeError as error:
                failures.append(str(error))
        if hasattr(self, "arm"):
            self.arm.close()
        if os.environ.get("SPILLWAY_KEEP"):
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        assert not failures, "\n".join(failures)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- shorthand for the resources that most tests need ----

    def make_account(self, account="eda", **kw):
        self.arm.finish(self.arm.put(arm.account_path(account), arm.account_body(**kw)))

    def make_pool(self, account="eda", pool="pool", **kw):
        self.arm.finish(self.arm.put(arm.pool_path(account, pool), arm.pool_body(**kw)))

    def make_volume(self, name, account="eda", pool="pool", token=None, **kw):
        """A volume, ready; its document."""
        path = arm.volume_path(account, pool, name)
        self.arm.finish(self.arm.put(path, arm.volume_body(token or name, **kw)))
        return self.arm.get(path).expect(200).json

    def mount(self, volume, address=0, **kw):
        """An nfs.Volume of a volume's document, at one of its addresses."""
        properties = volume["properties"]
        target = properties["mountTargets"][address]["ipAddress"]
        return nfs.Volume(target, self.agent.nfs_port, "/" + properties["creationToken"], **kw)


def addresses(volume):
    return [t["ipAddress"] for t in volume["properties"]["mountTargets"]]


class ClusterCase(unittest.TestCase):
    """Tests that share one cluster, made once for the class. `agents`, `control_args` and `agent_args` say which."""

    agents, control_args, agent_args = 1, (), ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = Cluster(cls.agents, cls.control_args, cls.agent_args)
        cls.addClassCleanup(cls.cluster.close)
        cls.arm = cls.cluster.arm

    @contextlib.contextmanager
    def refused(self, status):
        """The block must end in an NfsError of this status."""
        with self.assertRaises(nfs.NfsError) as caught:
            yield
        self.assertEqual(caught.exception.status, status)
