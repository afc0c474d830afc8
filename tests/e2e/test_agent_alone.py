"""The agent against a scripted control plane: what it does with lost answers, nonsense, and none at all (D1, D2)."""
import contextlib
import json
import os
import random
import shutil
import socket
import tempfile
import time
import unittest

from lib import cluster, fakecontrol, nfs
from lib.fakecontrol import deletion, spec


class FakeAgent(cluster.Agent):
    """An agent whose control plane is a FakeControl."""

    def __init__(self, folder, fake, name="agent1", extra=()):
        fake.cacert = None
        super().__init__(folder, name, fake, None, cluster.free_network(), extra)
        at = self.arguments.index("--cacert")
        del self.arguments[at:at + 2]

    def address(self, host=1):
        return self.network.rsplit(".", 1)[0] + f".{host}"


class AgentAlone(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.fake = fakecontrol.FakeControl()
        self.addCleanup(self.fake.close)
        self.agent = FakeAgent(self.folder, self.fake)
        self.addCleanup(self.agent.kill)

    def mount(self, volume, **kw):
        return nfs.Volume(volume["endpoints"][0], self.agent.nfs_port, volume["exportPath"], **kw)

    def serve(self, *volumes):
        self.fake.offer(*volumes)
        for v in volumes:
            self.fake.await_observed(v, "ready")

    def test_enrolment_says_what_the_agent_is(self):
        self.agent.start()
        body = next(b for p, b in self.fake.calls if p == "/agents/v1/enroll")
        self.assertRegex(body["credential"], r"^[0-9a-f]{64}$")
        self.assertEqual(body["name"], "agent1")
        self.assertEqual((body["region"], body["zone"], body["backend"]), ("", "", "dir"))
        self.assertEqual(body["addresses"], [self.agent.network])
        self.assertEqual(body["nfsPort"], self.agent.nfs_port)
        self.assertGreater(body["storeSize"], body["storeFree"])
        with open(os.path.join(self.agent.store, ".spillway-store"), encoding="ascii") as f:
            self.assertIn(body["storeUuid"], f.read())
        self.assertNotIn("token", body)

    def test_the_credential_is_on_disk_before_it_is_sent_and_survives(self):
        found = []

        def look(body):
            with open(os.path.join(self.agent.state, "identity.json"), encoding="utf-8") as f:
                found.append(json.load(f)["credential"] == body["credential"])
            return 503, {"error": {"code": "Busy", "message": "later"}}
        self.fake.answers["/agents/v1/enroll"] = look
        self.agent.spawn()
        self.fake.wait_for("two tries", lambda: len(found) >= 2)
        self.agent.kill()
        self.assertTrue(all(found))
        first = self.fake.calls[0][1]["credential"]
        self.fake.answers.clear()
        self.agent.start()
        self.assertEqual(self.fake.credential, first)

    def test_an_agent_that_never_enrolled_is_not_ready(self):
        self.fake.answers["/agents/v1/enroll"] = lambda _: (
            401, {"error": {"code": "AuthenticationFailed", "message": "The enrolment token is missing."}})
        self.agent.spawn()
        self.fake.wait_for("a try", lambda: self.fake.calls)
        cluster.await_true("the reason in the log", lambda: "enrolment token is missing" in self.agent.output())
        status, text = self.agent.page("/healthz")
        self.assertEqual((status, json.loads(text)["status"]), (503, "enrolling"))
        self.assertIn("spillway agent token", self.agent.output())

    def test_observations_are_sent_until_they_are_acknowledged(self):
        self.agent.start()
        volume, lost = spec("vol1", self.agent.address()), []

        def lose(body):
            if len(lost) < 3:
                lost.append(body)
                return 500, {"error": {"code": "InternalServerError", "message": "full disk"}}
            return None
        self.fake.answers["/agents/v1/observed"] = lose
        self.serve(volume)
        self.assertEqual([b["observations"][0]["state"] for b in lost], ["ready"] * 3)
        cluster.await_true("nothing left to report", lambda: self.agent.metric("spillway_agent_unreported_observations") == 0)

    def test_ready_means_mountable_and_recorded(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        seen = []

        def check(body):
            for o in body["observations"]:
                record = os.path.join(self.agent.state, "volumes", o["fileSystemId"] + ".json")
                with open(record, encoding="utf-8") as f:
                    seen.append(json.load(f)["generation"] == o["generation"])
                nfs.mount(volume["endpoints"][0], self.agent.nfs_port, "/vol1")
            return None
        self.fake.answers["/agents/v1/observed"] = check
        self.serve(volume)
        self.assertEqual(seen, [True])

    def test_it_serves_after_a_kill_without_the_control_plane(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        with self.mount(volume) as v:
            handle = v.put("file", b"kept" * 1000)
        self.fake.close()
        self.agent.kill()
        self.agent.start()
        with self.mount(volume, root=None) as v:
            self.assertEqual(v.lookup(v.root, "file"), handle)
            self.assertEqual(v.get(handle), b"kept" * 1000)
            v.put("more", b"x")
        self.assertEqual(self.agent.metric("spillway_agent_control_plane_up"), 0)

    def test_an_impossible_spec_keeps_the_last_good_one(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        bad = spec("vol1", self.agent.address(), generation=2, quotaBytes=0)
        self.fake.offer(bad)
        self.assertIn("quotaBytes", self.fake.await_observed(bad, "failed")["message"])
        with self.mount(volume) as v:
            v.put("file", b"still served")
        self.assertEqual(self.agent.page("/healthz")[0], 200)

    def test_an_address_that_is_not_ours_fails_by_name(self):
        self.agent.start()
        foreign = spec("vol1", "127.99.99.99")
        self.fake.offer(foreign)
        self.assertIn("127.99.99.99 is not among", self.fake.await_observed(foreign, "failed")["message"])

    def test_a_port_in_use_fails_by_name_and_recovers(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        with socket.socket() as taken:
            taken.bind((self.agent.address(), self.agent.nfs_port))
            taken.listen()
            self.fake.offer(volume)
            message = self.fake.await_observed(volume, "failed")["message"]
        self.assertIn(f"{self.agent.address()}:{self.agent.nfs_port}: Address already in use", message)
        self.fake.await_observed(volume, "ready")

    def test_an_older_control_plane_orphans_and_never_deletes(self):
        self.agent.start()
        one, two = spec("vol1", self.agent.address()), spec("vol2", self.agent.address())
        self.serve(one, two)
        with self.mount(one) as v:
            handle = v.put("file", b"precious")
        self.fake.offer(two, full=True)
        cluster.await_true("an orphan", lambda: self.agent.metric("spillway_agent_orphans") == 1)
        with self.assertRaises(nfs.NfsError) as gone:
            self.mount(one)
        self.assertEqual(gone.exception.status, nfs.NOENT)
        self.assertTrue(os.path.exists(os.path.join(self.agent.store, "volumes", one["fileSystemId"], "data", "file")))
        self.agent.kill()
        self.agent.start()
        self.assertEqual(self.agent.metric("spillway_agent_orphans"), 1)
        back = spec("vol1", self.agent.address(), generation=9)
        self.serve(back)
        with self.mount(back) as v:
            self.assertEqual(v.lookup(v.root, "file"), handle)
            self.assertEqual(v.get(handle), b"precious")

    def test_deletion_is_reported_and_the_handle_is_stale(self):
        self.agent.start()
        volume, other = spec("vol1", self.agent.address()), spec("vol2", self.agent.address())
        self.serve(volume, other)
        with self.mount(volume) as v:
            handle = v.put("file", b"x")
            self.fake.offer(deletion(volume, 2))
            self.fake.await_observed(volume, "deleted", 2)
            with self.assertRaises(nfs.NfsError) as stale:
                v.getattr(handle)
        self.assertEqual(stale.exception.status, nfs.STALE)
        self.assertFalse(os.path.exists(os.path.join(self.agent.store, "volumes", volume["fileSystemId"])))
        self.agent.kill()
        self.fake.offer(other, full=True)
        self.agent.start()
        self.assertEqual(self.agent.metric("spillway_agent_volumes", state="recorded"), 1)

    def test_nonsense_from_the_control_plane_changes_nothing(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        nonsense = iter([b"", b"{", b"[]", b'{"cursor":"x","full":true}', b'{"cursor":7,"full":true,"volumes":[]}',
                         b'{"cursor":"x","full":true,"volumes":[null]}', b"x" * 100000])
        polls = self.fake.count("/agents/v1/poll")

        def answer(_):
            data = next(nonsense, None)
            return None if data is None else (200, data)
        with self.fake.lock:
            self.fake.answers["/agents/v1/poll"] = answer
            self.fake.pending = (False, [])
            self.fake.lock.notify_all()
        self.fake.wait_for("all of it was polled", lambda: sum(1 for p, _ in self.fake.calls if p.endswith("/poll")) >= polls + 8,
                           timeout=60)
        with self.mount(volume) as v:
            v.put("file", b"still served")
        self.assertEqual(self.agent.metric("spillway_agent_volumes", state="served"), 1)

    def test_a_lost_acknowledgement_of_a_batch_sends_the_very_same_again(self):
        self.agent.start()
        volume, sent = spec("vol1", self.agent.address()), []

        def lose(body):
            batch = body.get("batch")
            if batch and len(sent) < 2:
                sent.append(batch)
                return None, None  # the connection breaks after the control plane took it
            return None
        self.serve(volume)
        with self.fake.lock:
            self.fake.answers["/agents/v1/status"] = lose
        with self.mount(volume) as v:
            v.put("file", bytes(100000))
        self.fake.wait_for("a batch of which the answer was lost twice", lambda: len(sent) == 2, timeout=40)
        number = sent[0]["number"]
        self.fake.wait_for("its acknowledgement", lambda: (sent[0]["run"], number) in self.fake.points, timeout=40)
        self.assertEqual(sent[0], sent[1])
        self.assertEqual(self.fake.points[(sent[0]["run"], number)], sent[0]["points"])

    def test_points_hold_what_was_moved_and_idle_volumes_send_none(self):
        self.agent.start()
        busy, idle = spec("vol1", self.agent.address()), spec("vol2", self.agent.address())
        self.serve(busy, idle)
        with self.mount(busy) as v:
            handle = v.put("file", bytes(300000))
            self.assertEqual(len(v.get(handle)), 300000)

        def sums():
            total = [0] * 10
            for points in self.fake.points.values():
                for p in points:
                    if p["fileSystemId"] == busy["fileSystemId"]:
                        self.assertEqual(p["minute"] % 60, 0)
                        total = [a + b for a, b in zip(total, p["sums"])]
            return total
        self.fake.wait_for("300,000 bytes read", lambda: sums()[0] == 300000, timeout=30)
        self.assertEqual(sums()[1], 300000)
        self.assertEqual(sums()[3:5], [2, 2], "two READs and two WRITEs of at most 262,144 bytes")
        idle_points = [p for points in self.fake.points.values() for p in points
                       if p["fileSystemId"] == idle["fileSystemId"]]
        self.assertLessEqual(len(idle_points), 1, "its gauges, once")

    def test_a_forgotten_credential_is_enrolled_again(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        enrolments = self.fake.count("/agents/v1/enroll")
        with self.fake.lock:
            self.fake.credential = "gone"
            self.fake.pending = (False, [])
            self.fake.lock.notify_all()
        self.fake.wait_for("another enrolment",
                           lambda: sum(1 for p, _ in self.fake.calls if p.endswith("/enroll")) > enrolments)
        later = spec("vol2", self.agent.address())
        self.serve(later)

    def test_kills_at_any_moment_lose_nothing_that_was_reported(self):
        """Creations, changes and deletions under way, kill -9, restart without the control plane: what was acknowledged as
        ready is served with its data, what was acknowledged as deleted is not."""
        self.agent.start()
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        wanted, data = {}, {}

        def busy(_):
            return 503, {"error": {"code": "Busy", "message": "away"}}

        for round_number in range(6):
            with self.subTest(round=round_number, seed=seed):
                self.change(chance, wanted, round_number)
                time.sleep(chance.uniform(0, 0.25))
                self.agent.kill()
                with self.fake.lock:
                    acknowledged = dict(self.fake.observed)
                    self.fake.answers.update({"/agents/v1/enroll": busy, "/agents/v1/poll": busy})
                self.agent.start()
                self.check(acknowledged, wanted, data)
                with self.fake.lock:
                    self.fake.answers.clear()
                for spec_ in list(wanted.values()):
                    gone = spec_["deleted"]
                    self.fake.await_observed(spec_, "deleted" if gone else "ready", timeout=60)
                    if gone:
                        del wanted[spec_["fileSystemId"]]
                self.fake.offer(*wanted.values(), full=True)
                for v in wanted.values():
                    if v["fileSystemId"] not in data:
                        with self.mount(v) as mounted:
                            data[v["fileSystemId"]] = os.urandom(5000)
                            mounted.write(mounted.create(mounted.root, "f", mode=0o600), 0, data[v["fileSystemId"]])

    def change(self, chance, wanted, round_number):
        """Offers some new volumes, changes and deletions."""
        new = [spec(f"r{round_number}v{n}", self.agent.address(1 + n % 3)) for n in range(8)]
        for v in wanted.values():
            roll = chance.random()
            if roll < 0.3:
                new.append(dict(v, generation=v["generation"] + 1, limitBytesPerSecond=chance.randrange(1 << 20, 1 << 30)))
            elif roll < 0.5:
                new.append(deletion(v, v["generation"] + 1))
        chance.shuffle(new)
        wanted.update({v["fileSystemId"]: v for v in new})
        self.fake.offer(*new)

    def check(self, acknowledged, wanted, data):
        for fs_id, v in wanted.items():
            seen = acknowledged.get(fs_id)
            if v["deleted"]:
                if seen and seen["state"] == "deleted":
                    self.assertFalse(os.path.exists(os.path.join(self.agent.store, "volumes", fs_id)))
            elif seen and seen["state"] == "ready":
                with self.mount(v) as mounted:
                    if fs_id in data:
                        self.assertEqual(mounted.get(mounted.lookup(mounted.root, "f")), data[fs_id])

    def test_another_store_is_refused(self):
        self.agent.start()
        self.agent.stop()
        shutil.rmtree(self.agent.store)
        self.agent.spawn()
        self.assertEqual(self.agent.child.wait(20), 1)
        self.assertIn("is its disk mounted?", self.agent.output())

    def test_one_state_folder_one_agent(self):
        self.agent.start()
        second = FakeAgent(self.folder, self.fake)
        second.log += "2"
        second.spawn()
        self.assertEqual(second.child.wait(20), 1)
        self.assertIn("in use by another agent", second.output())

    def limit_files(self, count):
        """As in a container that may not raise its limit."""
        self.agent.arguments = ["setpriv", "--bounding-set", "-sys_resource", "prlimit", f"--nofile={count}:{count}",
                                *self.agent.arguments]

    def test_neither_files_nor_connections_take_all_descriptors(self):
        self.limit_files(512)
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        with self.mount(volume) as v, contextlib.ExitStack() as crowd:
            for n in range(400):
                v.write(v.create(v.root, f"f{n}"), 0, b"x")
            for _ in range(600):
                s = crowd.enter_context(socket.socket())
                s.connect((self.agent.address(), self.agent.nfs_port))
            for n in range(100):
                v.write(v.create(v.root, f"g{n}"), 0, b"x")
            self.assertEqual(self.agent.page("/healthz")[0], 200)
            crowd.close()
            cluster.await_true("room again", lambda: self.agent.metric("spillway_agent_connections") < 100)
            with self.mount(volume) as other:
                self.assertEqual(len(other.readdir(other.root)), 500)

    def test_too_few_descriptors_are_refused_by_name(self):
        self.limit_files(100)
        self.agent.spawn()
        self.assertEqual(self.agent.child.wait(20), 1)
        self.assertIn("100 files may be open at a time, 512 are needed", self.agent.output())

    def test_sigterm_ends_it_well(self):
        self.agent.start()
        volume = spec("vol1", self.agent.address())
        self.serve(volume)
        with self.mount(volume) as v:
            v.put("file", b"x")
            begun = time.monotonic()
            self.assertEqual(self.agent.stop(), 0)
            self.assertLess(time.monotonic() - begun, 8)


if __name__ == "__main__":
    unittest.main()
