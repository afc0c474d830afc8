"""Several writers at once on one resource, one pool, one name: every answer is one that some order of the calls gives, and
what is stored adds up (design D1, D4)."""
import os
import random
import signal
import threading
import unittest

from lib import arm
from lib.arm import GIB, TIB
from lib.cluster import ClusterCase, await_true

POOL = arm.pool_path("eda", "pool")


class Races(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool(size=4 * TIB, level="Premium", qosType="Manual")  # 256 MiB/s

    def together(self, count, run):
        """`run(number, client)` on `count` threads, each with a connection of its own."""
        failures = []

        def one(number):
            client = self.cluster.client()
            try:
                run(number, client)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)
            finally:
                client.close()
        threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]

    def settled(self, pool=POOL):
        def volumes():
            items, _ = self.arm.pages(pool + "/volumes")
            return items if all(v["properties"]["provisioningState"] in arm.TERMINAL for v in items) else None
        return await_true("every volume is in a state that lasts", lambda: (volumes(),) if volumes() is not None else None)[0]

    def test_a_pool_is_given_out_to_its_last_thousandth_and_no_further(self):
        """240 creations of 7.3 MiB/s into 256: 35 fit. Then everything changes at once, the pool too."""
        answers = []

        def fill(number, client):
            for n in range(30):
                name = f"v{number}n{n}"
                answer = client.put(f"{POOL}/volumes/{name}", arm.volume_body(name, quota=50 * GIB, throughputMibps=7.3))
                answers.append(answer.status if answer.status == 201 else answer.error.get("target"))
        self.together(8, fill)
        self.assertEqual(answers.count(201), 35)
        self.assertEqual(answers.count("properties.throughputMibps"), 240 - 35)
        names = [v["name"].rsplit("/", 1)[1] for v in self.settled()]
        self.assertEqual(self.arm.get(POOL).json["properties"]["utilizedThroughputMibps"], 255.5)

        def change(number, client):
            for n in range(40):
                if number == 0:
                    body = {"size": random.choice((4, 5, 8)) * TIB}
                    client.patch(POOL, {"properties": body}).expect(200, 400)
                else:
                    body = {"throughputMibps": random.choice((1, 3.3, 7.3, 40)),
                            "usageThreshold": random.choice((50, 100, 300)) * GIB}
                    client.patch(f"{POOL}/volumes/{random.choice(names)}", {"properties": body}).expect(200, 202, 400, 409)
                pool = client.get(POOL).json["properties"]
                self.assertLessEqual(pool["utilizedThroughputMibps"], pool["totalThroughputMibps"])
        self.together(5, change)
        volumes, pool = self.settled(), self.arm.get(POOL).json["properties"]
        self.assertAlmostEqual(sum(v["properties"]["throughputMibps"] for v in volumes), pool["utilizedThroughputMibps"], 6)
        self.assertLessEqual(sum(v["properties"]["usageThreshold"] for v in volumes), pool["size"])
        self.assertEqual({v["properties"]["provisioningState"] for v in volumes}, {"Succeeded"})

    def test_no_change_on_a_condition_is_lost(self):
        """Eight clients count in one tag, each under the ETag that it read."""
        path, won = arm.account_path("count"), []
        self.cluster.make_account("count", tags={"n": "0"})

        def count(_, client):
            for _ in range(20):
                seen = client.get(path).json
                answer = client.patch(path, {"tags": {"n": str(int(seen["tags"]["n"]) + 1)}},
                                      headers={"If-Match": seen["etag"]}).expect(200, 412)
                won.extend([1] * (answer.status == 200))
        self.together(8, count)
        self.assertEqual(self.arm.get(path).json["tags"]["n"], str(len(won)))

    def test_one_of_many_creates(self):
        made = []

        def create(_, client):
            for n in range(10):
                answer = client.put(arm.account_path(f"once{n}"), arm.account_body(), headers={"If-None-Match": "*"})
                made.extend([n] * (answer.expect(201, 412).status == 201))
        self.together(8, create)
        self.assertEqual(sorted(made), list(range(10)))

    def test_what_was_deleted_by_force_is_made_again_at_once(self):
        """The new volume has the path and address of one that its agent still serves, or is just making."""
        cluster = self.cluster
        cluster.make_account("again")
        cluster.make_pool("again", "pool")
        gone = set()
        for n in range(8):
            name = f"again{n}"
            path, body = arm.volume_path("again", "pool", name), arm.volume_body(name, quota=50 * GIB)
            if n % 2 == 0:
                cluster.arm.finish(cluster.arm.put(path, body))
                gone.add(cluster.arm.get(path).json["properties"]["fileSystemId"])
            cluster.agent.child.send_signal(signal.SIGSTOP)
            try:
                if n % 2 == 1:
                    cluster.arm.put(path, body).expect(201)
                cluster.arm.delete(path + "?forceDelete=true").expect(202)
                answer = cluster.arm.put(path, body).expect(201)
            finally:
                cluster.agent.child.send_signal(signal.SIGCONT)
            self.assertEqual(cluster.arm.operation(answer)["status"], "Succeeded", cluster.arm.operation(answer))
        made = {v["properties"]["fileSystemId"] for v in self.settled(arm.pool_path("again", "pool"))}
        store = set(os.listdir(os.path.join(cluster.agent.store, "volumes")))
        self.assertEqual((len(made), made - store, gone & store), (8, set(), set()))

    def test_the_same_when_the_agent_was_away(self):
        """Its cursor is gone: the full list names the new volume before the deletion."""
        cluster = self.cluster
        cluster.make_account("away")
        cluster.make_pool("away", "pool")
        path, body = arm.volume_path("away", "pool", "v"), arm.volume_body("away", quota=50 * GIB)
        cluster.arm.finish(cluster.arm.put(path, body))
        cluster.agent.kill()
        cluster.arm.delete(path + "?forceDelete=true").expect(202)
        answer = cluster.arm.put(path, body).expect(201)
        cluster.agent.start()
        self.assertEqual(cluster.arm.operation(answer)["status"], "Succeeded", cluster.arm.operation(answer))


if __name__ == "__main__":
    unittest.main()
