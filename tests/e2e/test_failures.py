"""One side away: the data path without the control plane, operations without the agent, and kill -9 of both (D1, D2,
issue 2's fourth and seventh show; the long form of the crash loop is tests/long)."""
import os
import threading
import time
import unittest

from lib import arm, crash, nfs
from lib.arm import GIB
from lib.cluster import Cluster, ClusterCase, await_true

PATH = arm.volume_path("eda", "pool", "vol")


class ControlPlaneAway(ClusterCase):
    def test_io_and_an_agent_restart_go_on_without_it(self):
        cluster = self.cluster
        cluster.make_account()
        cluster.make_pool()
        volume = cluster.make_volume("vol")
        with cluster.mount(volume) as v:
            handle = v.put("before", b"1" * 100000)
            cluster.control.kill()
            v.put("while", b"2" * 100000)
            self.assertEqual(v.get(handle), b"1" * 100000)
        cluster.agent.kill()
        cluster.agent.start()
        with cluster.mount(volume) as v:
            self.assertEqual(sorted(v.readdir(v.root)), ["before", "while"])
            self.assertEqual(v.get(handle), b"1" * 100000, "the same handle after the restart")
        fs_id = volume["properties"]["fileSystemId"]
        self.assertEqual(cluster.agent.metric("spillway_volume_limit_bytes_per_second", file_system_id=fs_id),
                         6.25 * 1048576, "at its limit")
        cluster.control.start()
        await_true("the agent is back", lambda: cluster.agent.metric("spillway_agent_control_plane_up") == 1)
        cluster.arm.finish(cluster.arm.patch(PATH, {"tags": {"a": "b"}}))
        self.assertEqual(cluster.arm.get(PATH).json["properties"]["provisioningState"], "Succeeded")


class AgentAway(ClusterCase):
    control_args = ("--apply-timeout", "2")

    def test_what_is_asked_meanwhile_fails_with_its_name_and_heals(self):
        cluster = self.cluster
        cluster.make_account()
        cluster.make_pool()
        cluster.make_volume("vol")
        cluster.agent.kill()
        answer = cluster.arm.patch(PATH, {"properties": {"usageThreshold": 200 * GIB}}).expect(202)
        self.assertEqual(cluster.arm.get(PATH).json["properties"]["provisioningState"], "Patching")
        again = cluster.arm.patch(PATH, {"properties": {"usageThreshold": 300 * GIB}})
        self.assertEqual((again.status, again.code), (409, "Conflict"))
        self.assertIn("Patching", again.error["message"])
        operation = cluster.arm.operation(answer, timeout=20)
        self.assertEqual(operation["status"], "Failed")
        self.assertIn("agent1", operation["error"]["message"])
        self.assertEqual(cluster.arm.get(PATH).json["properties"]["provisioningState"], "Failed")
        cluster.agent.start()
        await_true("Succeeded when the agent is back",
                   lambda: cluster.arm.get(PATH).json["properties"]["provisioningState"] == "Succeeded")
        self.assertEqual(cluster.arm.get(PATH).json["properties"]["usageThreshold"], 200 * GIB)
        self.assertEqual(cluster.arm.operation(answer)["status"], "Failed", "the ended operation stays so")
        with cluster.mount(cluster.arm.get(PATH).json) as v:
            self.assertEqual(v.fsstat()["tbytes"], 200 * GIB)

    def test_a_delete_while_it_is_away_ends_when_it_is_back(self):
        cluster = self.cluster
        cluster.make_account("del")
        cluster.make_pool("del", "pool")
        path = arm.volume_path("del", "pool", "v")
        cluster.arm.finish(cluster.arm.put(path, arm.volume_body("v", quota=50 * GIB)))
        fs_id = cluster.arm.get(path).json["properties"]["fileSystemId"]
        cluster.agent.kill()
        cluster.arm.delete(path).expect(202)
        again = cluster.arm.delete(path)
        self.assertEqual((again.status, again.code), (409, "Conflict"), "Deleting is the one state that refuses it")
        cluster.agent.start()
        await_true("the volume is gone", lambda: cluster.arm.get(path).status == 404)
        self.assertFalse(os.path.exists(os.path.join(cluster.agent.store, "volumes", fs_id)))

    def test_force_delete_needs_no_agent_and_its_data_goes_when_it_is_back(self):
        cluster = self.cluster
        cluster.make_account("force")
        cluster.make_pool("force", "pool")
        path = arm.volume_path("force", "pool", "v")
        cluster.arm.finish(cluster.arm.put(path, arm.volume_body("v2", quota=50 * GIB)))
        fs_id = cluster.arm.get(path).json["properties"]["fileSystemId"]
        cluster.agent.kill()
        cluster.arm.finish(cluster.arm.delete(path + "?forceDelete=true"))
        self.assertEqual(cluster.arm.get(path).status, 404)
        cluster.agent.start()
        await_true("the data is gone",
                   lambda: not os.path.exists(os.path.join(cluster.agent.store, "volumes", fs_id)))


class NoAgent(ClusterCase):
    agents = 0

    def test_nothing_fits_nothing_is_stored(self):
        self.cluster.make_account()
        self.cluster.make_pool()
        answer = self.arm.put(PATH, arm.volume_body("vol"))
        self.assertEqual(answer.status, 409)
        self.assertIn("agent", answer.error["message"])
        self.assertEqual(self.arm.get(PATH).status, 404)
        self.assertEqual(self.arm.get(arm.pool_path("eda", "pool")).json["properties"]["utilizedThroughputMibps"], 0)


class KillNine(unittest.TestCase):
    """Two rounds of tests/long's twenty."""

    def test_kills_of_both_lose_nothing_that_was_acknowledged(self):
        with Cluster() as cluster:
            crash.run(self, cluster, rounds=2, puts=120)


class Deletion(ClusterCase):
    FILES = 5000

    def test_a_volume_with_many_files_goes_at_once_and_its_space_later(self):
        cluster = self.cluster
        cluster.make_account()
        cluster.make_pool()
        volume = cluster.make_volume("vol", unixPermissions="0777")
        fs_id = volume["properties"]["fileSystemId"]
        data = os.path.join(cluster.agent.store, "volumes", fs_id, "data")
        for n in range(self.FILES):
            with open(os.path.join(data, f"f{n}"), "wb") as f:
                f.write(b"x")
        with cluster.mount(volume) as v:
            begun = time.monotonic()
            answer = cluster.arm.delete(PATH).expect(202)
            cluster.arm.finish(answer)
            self.assertLess(time.monotonic() - begun, 1)
            with self.refused(nfs.STALE):
                v.getattr(v.root)
        cluster.agent.kill()  # in the middle of the reclaiming, or after it: both must end well
        cluster.agent.start()
        await_true("the space is back", lambda: not os.listdir(os.path.join(cluster.agent.store, "trash")), timeout=60)
        self.assertFalse(os.path.exists(os.path.join(cluster.agent.store, "volumes", fs_id)))


if __name__ == "__main__":
    unittest.main()
