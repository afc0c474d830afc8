"""--interface: the agent adds the addresses that it needs and removes exactly those, after a kill -9 too (design D9).

Runs in a network namespace of its own, so that nothing of the machine is touched."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from lib import cluster, fakecontrol
from lib.fakecontrol import deletion, spec

INSIDE = "SPILLWAY_TEST_NAMESPACE"


class Interface(unittest.TestCase):
    def test_in_a_namespace(self):
        try:
            subprocess.run(["unshare", "-n", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"], check=True,
                           capture_output=True, timeout=20)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespace with a veth pair here: {error}")
        run = subprocess.run(["unshare", "-n", sys.executable, "-m", "unittest", "-v", "test_interface.Inside"],
                             env=dict(os.environ, **{INSIDE: "1"}), capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


class Inside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for command in ("ip link set lo up", "ip link add v0 type veth peer name v1", "ip link set v0 up",
                        "ip link set v1 up", "ip address add 10.9.0.1/24 dev v0", "ip address add 10.9.0.5/24 dev v0"):
            subprocess.run(command.split(), check=True)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.fake = fakecontrol.FakeControl()
        self.addCleanup(self.fake.close)
        self.agent = self.make_agent("--interface", "v0")
        self.addCleanup(self.agent.kill)

    def make_agent(self, *extra):
        self.fake.cacert = ""
        agent = cluster.Agent(self.folder, "agent1", self.fake, None, "10.9.0.0/24", extra)
        at = agent.arguments.index("--cacert")
        del agent.arguments[at:at + 2]
        return agent

    @staticmethod
    def present():
        out = subprocess.run(["ip", "-json", "-4", "address", "show", "dev", "v0"], check=True, capture_output=True).stdout
        return {a["local"]: a["prefixlen"] for a in json.loads(out)[0]["addr_info"]}

    OURS = {"10.9.0.1": 24, "10.9.0.5": 24}

    def serve(self, *volumes):
        self.fake.offer(*volumes)
        for v in volumes:
            self.fake.await_observed(v, "ready")

    def test_added_while_used_and_only_what_was_missing(self):
        self.agent.start()
        one, two = spec("vol1", "10.9.0.20"), spec("vol2", "10.9.0.5")
        self.serve(one, two)
        self.assertEqual(self.present(), {**self.OURS, "10.9.0.20": 32})
        self.fake.offer(deletion(one, 2), deletion(two, 2))
        self.fake.await_observed(one, "deleted", 2)
        self.fake.await_observed(two, "deleted", 2)
        self.assertIn("10.9.0.20", self.present(), "for a while, so that clients are told STALE")
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual(self.present(), self.OURS)

    def test_a_stop_removes_them(self):
        self.agent.start()
        self.serve(spec("vol1", "10.9.0.20"), spec("vol2", "10.9.0.21"))
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual(self.present(), self.OURS)

    def test_after_a_kill_the_next_run_cleans_up(self):
        self.agent.start()
        volume, gone = spec("vol1", "10.9.0.20"), spec("vol2", "10.9.0.21")
        self.serve(volume, gone)
        self.agent.kill()
        self.assertIn("10.9.0.21", self.present())
        self.fake.offer(volume, full=True)
        self.agent.start()
        cluster.await_true("the orphan", lambda: self.agent.metric("spillway_agent_orphans") == 1)
        self.agent.kill()
        self.agent.start()
        self.assertNotIn("10.9.0.21", self.present(), "a start takes up only what is served")
        self.assertIn("10.9.0.20", self.present())
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual(self.present(), self.OURS)

    def test_without_the_option_a_missing_address_fails_by_name(self):
        self.agent = self.make_agent()
        self.agent.start()
        volume = spec("vol1", "10.9.0.30")
        self.fake.offer(volume)
        message = self.fake.await_observed(volume, "failed")["message"]
        self.assertIn("10.9.0.30", message)
        self.assertIn("--interface", message)
        self.agent.kill()


def load_tests(loader, _tests, _pattern):
    """`python3 -m unittest test_interface` is the outside; the namespace asks for Inside by name."""
    return loader.loadTestsFromTestCase(Interface)


if __name__ == "__main__":
    unittest.main()
