# run-tests: alone
"""Three minutes at the limit: the points' bytes against what was moved, and every full minute against the limit."""
import datetime
import threading
import time
import unittest

from lib import arm, nfs
from lib.arm import TIB
from lib.cluster import ClusterCase, addresses

MIB = 1 << 20
LIMIT, SECONDS = 16, 180  # MiB/s; two whole minutes lie within it wherever it begins
VOLUME = arm.volume_path("eda", "pool", "vol")


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class ThreeMinutes(ClusterCase):
    def test_points_hold_what_was_moved(self):
        self.cluster.make_account()
        self.cluster.make_pool(size=4 * TIB, level="Premium", qosType="Manual")
        volume = self.cluster.make_volume("vol", throughputMibps=LIMIT)
        start = int(time.time() // 60 * 60)
        with self.cluster.mount(volume) as v:
            handle = v.create(v.root, "file", mode=0o600)
            nfs.stream(addresses(volume), self.cluster.agent.nfs_port, handle, 0, 64 * MIB, True)
        moved, stop = [64 * MIB, 0], threading.Event()
        begun = time.time()

        def reader(n):
            while not stop.is_set():
                nfs.stream(addresses(volume), self.cluster.agent.nfs_port, handle, 0, 8 * MIB, False)
                moved[n] += 8 * MIB
        threads = [threading.Thread(target=reader, args=(n,)) for n in range(2)]
        for t in threads:
            t.start()
        time.sleep(SECONDS)
        stop.set()
        for t in threads:
            t.join()
        ended = time.time()
        time.sleep(60 - time.time() % 60 + 12)  # the last minute is whole and reported
        end = int(time.time() // 60 * 60)
        url = (f"{VOLUME}/providers/microsoft.insights/metrics?api-version=2018-01-01&metricnames=TotalThroughput"
               f"&timespan={iso(start)}/{iso(end)}&interval=PT1M&aggregation=Average")
        data = self.arm.get(url, api_version=None).expect(200).json["value"][0]["timeseries"][0]["data"]
        self.assertEqual(len(data), (end - start) // 60)
        total = sum(p["average"] * 60 for p in data)
        self.assertAlmostEqual(total / sum(moved), 1, delta=0.01)
        full = [p["average"] for n, p in enumerate(data) if start + 60 * n >= begun and start + 60 * (n + 1) <= ended]
        self.assertGreaterEqual(len(full), 2)
        for rate in full:
            self.assertAlmostEqual(rate / (LIMIT * MIB), 1, delta=0.01)


if __name__ == "__main__":
    unittest.main()
