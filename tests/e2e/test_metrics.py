"""Metrics: the published call, the points behind it, and both programs' /metrics (anf-api.md E)."""
import datetime
import shutil
import subprocess
import unittest

from lib import arm
from lib.arm import TIB
from lib.cluster import ClusterCase, await_true

VOLUME, POOL = arm.volume_path("eda", "pool", "vol"), arm.pool_path("eda", "pool")
METRICS = "/providers/microsoft.insights/metrics?api-version=2018-01-01&metricnames="
DEFINITIONS = "/providers/microsoft.insights/metricDefinitions?api-version=2018-01-01"
SIZE = 3 << 20


class Metrics(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool(size=4 * TIB)
        cls.volume = cls.cluster.make_volume("vol")
        # For what counts to the byte while others look at `vol`: its size is asserted, and reports come when they come.
        cls.counted = cls.cluster.make_volume("counted")
        with cls.cluster.mount(cls.volume) as v:
            handle = v.put("file", bytes(SIZE))
            v.get(handle)

    def points(self, resource, names, extra=""):
        """{name: [data…]} of a metrics answer."""
        answer = self.arm.get(resource + METRICS + names + extra, api_version=None).expect(200).json
        return {m["name"]["value"]: m["timeseries"][0]["data"] for m in answer["value"]}

    @staticmethod
    def last(data, aggregation="average"):
        values = [p[aggregation] for p in data if aggregation in p]
        return values[-1] if values else None

    def test_the_published_call_returns_what_was_written(self):
        """The agent reports every five seconds."""
        await_true("VolumeLogicalSize of what was written",
                   lambda: (self.last(self.points(VOLUME, "VolumeLogicalSize")["VolumeLogicalSize"]) or 0) >= SIZE)
        value = self.last(self.points(VOLUME, "VolumeLogicalSize")["VolumeLogicalSize"])
        self.assertEqual(value, SIZE, "the file; an empty volume reads 0")
        answer = self.arm.get(VOLUME + METRICS + "VolumeLogicalSize", api_version=None).json
        metric = answer["value"][0]
        self.assertEqual((metric["unit"], metric["type"]), ("Bytes", "Microsoft.Insights/metrics"))
        self.assertEqual(metric["errorCode"], "Success")
        self.assertEqual(answer["namespace"].lower(), "microsoft.netapp/netappaccounts/capacitypools/volumes")

    def test_throughput_times_seconds_is_the_bytes(self):
        def moved():
            data = self.points(VOLUME, "ReadThroughput,WriteThroughput", "&interval=PT1M&aggregation=Average")
            return {name: sum(p.get("average", 0) for p in points) for name, points in data.items()}
        await_true("both ways", lambda: all(v > 0 for v in moved().values()))

    def test_several_names_and_sizes_that_must_be(self):
        await_true("a point", lambda: self.last(self.points(VOLUME, "VolumeAllocatedSize")["VolumeAllocatedSize"]))
        data = self.points(VOLUME, "VolumeAllocatedSize,VolumeInodesQuota,VolumeInodesTotal,VolumeConsumedSizePercentage")
        self.assertEqual(self.last(data["VolumeAllocatedSize"]), 100 << 30)
        self.assertEqual(self.last(data["VolumeInodesQuota"]), 21251126, "anf-api.md C.8: up to 683 GiB")
        self.assertEqual(set(data), {"VolumeAllocatedSize", "VolumeInodesQuota", "VolumeInodesTotal",
                                     "VolumeConsumedSizePercentage"})

    def test_the_pools_sizes(self):
        data = self.points(POOL, "VolumePoolAllocatedSize,VolumePoolAllocatedUsed,VolumePoolProvisionedThroughput")
        self.assertEqual(self.last(data["VolumePoolAllocatedSize"]), 4 * TIB)
        self.assertEqual(self.last(data["VolumePoolAllocatedUsed"]), 2 * 100 << 30)
        self.assertEqual(self.last(data["VolumePoolProvisionedThroughput"]), 256 * 1048576, "4 TiB Premium, in bytes/s")

    def test_an_unknown_name_is_400_with_the_valid_ones(self):
        answer = self.arm.get(VOLUME + METRICS + "Nonsense", api_version=None)
        self.assertEqual((answer.status, answer.code), (400, "BadRequest"))
        self.assertIn("Nonsense", answer.error["message"])
        self.assertIn("VolumeLogicalSize", answer.error["message"])

    def test_a_window_and_an_interval(self):
        now = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0)
        span = f"{now - datetime.timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}/{now:%Y-%m-%dT%H:%M:%SZ}"
        data = self.points(VOLUME, "TotalIops", f"&timespan={span}&interval=PT5M")["TotalIops"]
        self.assertEqual(len(data), 6)
        times = [p["timeStamp"] for p in data]
        self.assertEqual(times, sorted(times))
        for bad in "&timespan=yesterday", "&interval=PT7M", "&aggregation=Median":
            self.assertEqual(self.arm.get(VOLUME + METRICS + "TotalIops" + bad, api_version=None).status, 400, bad)

    def test_definitions_name_every_metric(self):
        value = self.arm.get(VOLUME + DEFINITIONS, api_version=None).expect(200).json["value"]
        units = {d["name"]["value"]: d["unit"] for d in value}
        expected = {"VolumeLogicalSize": "Bytes", "VolumeAllocatedSize": "Bytes", "ReadIops": "CountPerSecond",
                    "WriteIops": "CountPerSecond", "OtherIops": "CountPerSecond", "TotalIops": "CountPerSecond",
                    "ReadThroughput": "BytesPerSecond", "WriteThroughput": "BytesPerSecond",
                    "TotalThroughput": "BytesPerSecond", "AverageReadLatency": "MilliSeconds",
                    "AverageWriteLatency": "MilliSeconds", "QosLatencyDelta": "MilliSeconds",
                    "ThroughputLimitReached": "Count", "VolumeConsumedSizePercentage": "Percent",
                    "VolumeInodesUsed": "Count", "VolumeInodesTotal": "Count", "VolumeInodesQuota": "Count"}
        self.assertEqual({k: v for k, v in units.items() if k in expected}, expected)
        for d in value:
            kept = {a["timeGrain"]: a["retention"] for a in d["metricAvailabilities"]}
            self.assertEqual({g: r for g, r in kept.items() if g != "PT1M"},
                             {g: "P93D" for g in ("PT5M", "PT15M", "PT30M", "PT1H", "PT6H", "PT12H", "P1D")})
            self.assertEqual(kept.get("PT1M"), "P1D", "one-minute points are kept for a day (design D4)")

    def test_both_programs_pages_pass_promtool(self):
        pages = {"agent": self.cluster.agent.page("/metrics")[1],
                 "control plane": self.arm.get("/metrics", api_version=None).expect(200).text}
        if not shutil.which("promtool"):
            self.skipTest("promtool (Debian: prometheus) is not installed")
        for name, text in pages.items():
            with self.subTest(program=name):
                run = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=60,
                                     check=False)
                self.assertEqual((run.returncode, run.stdout + run.stderr), (0, b""))

    def test_the_agents_page_counts_exactly(self):
        agent, fs_id = self.cluster.agent, self.counted["properties"]["fileSystemId"]
        before = {op: agent.metric("spillway_volume_bytes_total", file_system_id=fs_id, op=op) for op in ("read", "write")}
        with self.cluster.mount(self.counted) as v:
            handle = v.put("exact", bytes(123456))
            v.get(handle)
        for op in before:
            after = agent.metric("spillway_volume_bytes_total", file_system_id=fs_id, op=op)
            self.assertEqual(after - before[op], 123456, op)
        self.assertEqual(agent.metric("spillway_agent_durability", mode="power"), 1)
        self.assertEqual(agent.metric("spillway_agent_volumes", state="served"), 2)
        self.assertEqual(agent.page("/nonsense")[0], 404)


if __name__ == "__main__":
    unittest.main()
