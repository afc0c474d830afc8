"""kill -9 of both programs in the middle of PUTs and of stable writes, and what must hold afterwards (issue 2's fourth
show). Used by a short test and by the long one."""
import hashlib
import http.client
import os
import random
import threading
import time

from lib import arm, nfs
from lib.arm import GIB, TIB
from lib.cluster import await_true

POOL = arm.pool_path("eda", "crash")
QUOTA = 50 * GIB
PIECE = 8192


class Writer(threading.Thread):
    """Writes pieces FILE_SYNC, one after the other, into a file; remembers what was acknowledged."""

    def __init__(self, cluster, volume, name):
        super().__init__()
        self.cluster, self.volume, self.file = cluster, volume, name
        self.acknowledged = []  # the digest of each piece, in order

    def run(self):
        try:
            with self.cluster.mount(self.volume, timeout=5) as v:
                handle = v.create(v.root, self.file, mode=0o600)
                while True:
                    piece = os.urandom(PIECE)
                    count, committed, _ = v.write(handle, len(self.acknowledged) * PIECE, piece)
                    assert (count, committed) == (PIECE, nfs.FILE_SYNC)
                    self.acknowledged.append(hashlib.sha256(piece).digest())
        except (OSError, nfs.RpcError):
            pass  # killed

    def check(self, test, volume):
        with self.cluster.mount(volume) as v:
            handle = v.lookup(v.root, self.file) if self.acknowledged else None
            for n, digest in enumerate(self.acknowledged):
                data, _ = v.read(handle, n * PIECE, PIECE)
                test.assertEqual(hashlib.sha256(data).digest(), digest, f"piece {n} of {self.file}")


class Putter(threading.Thread):
    """PUTs volumes until the control plane dies: which were answered 2xx, which were only sent."""

    def __init__(self, cluster, names):
        super().__init__()
        self.client, self.names = cluster.client(), names
        self.acknowledged, self.sent, self.errors = [], [], []

    def run(self):
        self.put_all()
        self.client.close()

    def put_all(self):
        for name in self.names:
            self.sent.append(name)
            try:
                answer = self.client.put(arm.volume_path("eda", "crash", name),
                                         arm.volume_body(name, quota=QUOTA, throughputMibps=1))
            except (OSError, http.client.HTTPException):
                return
            if answer.status != 201:
                self.errors.append(answer.text)
                return
            self.acknowledged.append(name)


def one_round(test, cluster, number, puts, existing, last):
    """Starts the load, kills both at a random moment, restarts, checks. Updates `existing` (names that must be there). The
    last round mounts every volume, the others the new ones."""
    base = cluster.arm.get(arm.volume_path("eda", "crash", "base")).expect(200).json
    writer = Writer(cluster, base, f"file{number}")
    putters = [Putter(cluster, [f"r{number}p{p}n{n}" for n in range(puts // 4)]) for p in range(4)]
    for thread in [writer, *putters]:
        thread.start()
    time.sleep(random.uniform(0.2, 1.5))
    for program in random.sample([cluster.control, cluster.agent], 2):
        program.kill()
    for thread in [writer, *putters]:
        thread.join()
    cluster.arm.close()
    cluster.control.start()
    cluster.agent.start()
    test.assertEqual([e for p in putters for e in p.errors], [])
    acknowledged = {n for p in putters for n in p.acknowledged}
    sent = {n for p in putters for n in p.sent}

    def settled():
        items, _ = cluster.arm.pages(POOL + "/volumes")
        return items if all(i["properties"]["provisioningState"] == "Succeeded" for i in items) else None
    volumes = await_true("every volume is Succeeded", settled, timeout=90, pause=0.1)
    names = {v["name"].rsplit("/", 1)[1] for v in volumes}
    must = existing | acknowledged
    test.assertLessEqual(must, names, "what was answered 2xx is there")
    test.assertLessEqual(names, must | sent, "what was never sent is not")
    new = names - existing
    existing |= names
    writer.check(test, base)

    # The sums against the pool, and the agent's set against the database's.
    pool = cluster.arm.get(POOL).json["properties"]
    test.assertEqual(pool["utilizedThroughputMibps"], len(volumes))
    recorded = {f[:-5] for f in os.listdir(os.path.join(cluster.agent.state, "volumes")) if f.endswith(".json")}
    test.assertEqual(recorded, {v["properties"]["fileSystemId"] for v in volumes})
    test.assertEqual(cluster.agent.metric("spillway_agent_volumes", state="served"), len(volumes))
    test.assertEqual(cluster.agent.metric("spillway_agent_orphans"), 0)
    for v in volumes:
        if last or v["name"].rsplit("/", 1)[1] in new:
            cluster.mount(v).close()


def run(test, cluster, rounds, puts):
    seed = int.from_bytes(os.urandom(4), "big")
    random.seed(seed)
    cluster.make_account()
    cluster.arm.finish(cluster.arm.put(POOL, arm.pool_body(size=500 * TIB, level="Ultra", qosType="Manual")))
    cluster.arm.finish(cluster.arm.put(arm.volume_path("eda", "crash", "base"),
                                       arm.volume_body("base", quota=QUOTA, throughputMibps=1)))
    existing = {"base"}
    for number in range(rounds):
        with test.subTest(round=number, seed=seed):
            one_round(test, cluster, number, puts, existing, number == rounds - 1)
