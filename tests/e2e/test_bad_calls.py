"""Bad calls: what each gets, as data. Status and code by design.md's choices table and anf-api.md D.5; the target names the
property. No bad call changes anything: the state of all resources is compared before and after."""
import json
import unittest

from lib import arm
from lib.arm import GIB, TIB
from lib.cluster import ClusterCase

ACCOUNT, POOL, VOLUME = arm.account_path("eda"), arm.pool_path("eda", "pool"), arm.volume_path("eda", "pool", "vol")
MANUAL, FLEXIBLE = arm.pool_path("eda", "manual"), arm.pool_path("eda", "flexible")
NEW_ACCOUNT, NEW_POOL, NEW = arm.account_path("new"), arm.pool_path("eda", "new"), arm.volume_path("eda", "pool", "new")
NEW_MANUAL, NEW_FLEXIBLE = arm.volume_path("eda", "manual", "new"), arm.volume_path("eda", "flexible", "new")
UNKNOWN_SUBSCRIPTION = "99999999-9999-9999-9999-999999999999"


def pool(**properties):
    return arm.pool_body(**properties)


def volume(**properties):
    zones = properties.pop("zones", None)
    return arm.volume_body("new", quota=properties.pop("usageThreshold", 100 * GIB), zones=zones, **properties)


def without(body, *names):
    """A body without some of its properties (or top-level members)."""
    return {k: ({p: v for p, v in value.items() if p not in names} if k == "properties" else value)
            for k, value in body.items() if k not in names}


def rules(*items):
    return volume(exportPolicy={"rules": list(items)})


def patch(**properties):
    return {"properties": properties}


INVALID = "InvalidValueReceived"

# name, method, path, body (bytes: sent as they are), status, code, and where it applies: target, code in details.
CALLS = [
    # ---- the call itself ----
    ("no api-version", "GET", ACCOUNT, None, 400, "MissingApiVersionParameter", {"api_version": None}),
    ("malformed api-version", "GET", ACCOUNT, None, 400, "InvalidApiVersionParameter", {"api_version": "tomorrow"}),
    ("unknown api-version", "GET", ACCOUNT, None, 400, "NoRegisteredProviderFound", {"api_version": "2016-01-01"}),
    ("unknown resource type", "GET", ACCOUNT.replace("netAppAccounts", "netAppWidgets"), None, 404, "InvalidResourceType", {}),
    ("unknown subscription", "GET", arm.account_path("eda", subscription=UNKNOWN_SUBSCRIPTION), None, 404,
     "SubscriptionNotFound", {}),
    ("missing group", "GET", arm.account_path("eda", group="nowhere"), None, 404, "ResourceGroupNotFound", {}),
    ("missing account", "GET", NEW_ACCOUNT, None, 404, "ResourceNotFound", {}),
    ("missing pool", "GET", NEW_POOL, None, 404, "ResourceNotFound", {}),
    ("missing volume", "PATCH", NEW, {"tags": {}}, 404, "ResourceNotFound", {}),
    ("no JSON", "PUT", NEW_ACCOUNT, b"location=eastus", 400, "InvalidRequestContent", {}),
    ("JSON that ends early", "PUT", NEW_ACCOUNT, b'{"location": "eas', 400, "InvalidRequestContent", {}),
    ("not an object", "PUT", NEW_ACCOUNT, b'["eastus"]', 400, "InvalidRequestContent", {}),
    ("no body", "PUT", NEW_ACCOUNT, b"", 400, "InvalidRequestContent", {}),
    ("a key twice", "PUT", NEW_ACCOUNT, b'{"location":"eastus","location":"westus"}', 400, "InvalidRequestContent", {}),
    ("nested too deep", "PUT", NEW_ACCOUNT, b'{"tags":' + b"[" * 500 + b"]" * 500 + b"}", 400, "InvalidRequestContent", {}),
    # ---- names and places ----
    ("account name", "PUT", arm.account_path("-eda"), arm.account_body(), 400, "InvalidResourceName", {}),
    ("account name too long", "PUT", arm.account_path("a" * 129), arm.account_body(), 400, "InvalidResourceName", {}),
    ("pool name too long", "PUT", arm.pool_path("eda", "p" * 65), pool(), 400, "InvalidResourceName", {}),
    ("volume name starts with a digit", "PUT", arm.volume_path("eda", "pool", "1st"), volume(), 400, "InvalidResourceName", {}),
    ("reserved volume name", "PUT", arm.volume_path("eda", "pool", "default"), volume(), 400, "InvalidResourceName", {}),
    ("no location", "PUT", NEW_ACCOUNT, {}, 400, "LocationRequired", {}),
    ("another location", "PUT", ACCOUNT, arm.account_body("westus"), 409, "InvalidResourceLocation", {}),
    ("parent account missing", "PUT", arm.pool_path("none", "p"), pool(), 404, "ParentResourceNotFound", {}),
    ("parent pool missing", "PUT", arm.volume_path("eda", "none", "v"), volume(), 404, "ParentResourceNotFound", {}),
    # ---- pools ----
    ("pool without size", "PUT", NEW_POOL, without(pool(), "size"), 400, "BadRequest",
     {"detail": "MissingValue", "target": "properties.size"}),
    ("pool without level", "PUT", NEW_POOL, without(pool(), "serviceLevel"), 400, "BadRequest",
     {"detail": "MissingValue", "target": "properties.serviceLevel"}),
    ("pool of 512 GiB", "PUT", NEW_POOL, pool(size=512 * GIB), 400, INVALID, {"target": "properties.size"}),
    ("pool not of whole TiB", "PUT", NEW_POOL, pool(size=4 * TIB + 1), 400, INVALID, {"target": "properties.size"}),
    ("pool above 2,048 TiB", "PUT", NEW_POOL, pool(size=2049 * TIB), 400, INVALID, {"target": "properties.size"}),
    ("pool size as text", "PUT", NEW_POOL, pool(size="4"), 400, INVALID, {"target": "properties.size"}),
    ("pool size of 1e30", "PUT", NEW_POOL, pool(size=1e30), 400, INVALID, {"target": "properties.size"}),
    ("unknown level", "PUT", NEW_POOL, pool(level="Gold"), 400, INVALID, {"target": "properties.serviceLevel"}),
    ("unknown QoS type", "PUT", NEW_POOL, pool(qosType="Magic"), 400, INVALID, {"target": "properties.qosType"}),
    ("Flexible with Auto", "PUT", NEW_POOL, pool(level="Flexible", qosType="Auto"), 400, INVALID,
     {"target": "properties.qosType"}),
    ("throughput of a pool that is not Flexible", "PUT", NEW_POOL, pool(qosType="Manual", customThroughputMibps=200), 400,
     INVALID, {"target": "properties.customThroughputMibps"}),
    ("Flexible below 128 MiB/s", "PUT", NEW_POOL, pool(level="Flexible", customThroughputMibps=127), 400, INVALID,
     {"target": "properties.customThroughputMibps"}),
    ("Flexible above 640 MiB/s per TiB", "PUT", NEW_POOL, pool(level="Flexible", customThroughputMibps=2561), 400, INVALID,
     {"target": "properties.customThroughputMibps"}),
    ("Manual back to Auto", "PATCH", MANUAL, patch(qosType="Auto"), 400, INVALID, {"target": "properties.qosType"}),
    ("level of a pool with volumes", "PUT", POOL, pool(level="Ultra"), 400, INVALID, {"target": "properties.serviceLevel"}),
    ("pool smaller than its volumes", "PATCH", MANUAL, patch(size=1 * TIB), 400, "BadRequest", {"detail": "PoolSizeTooSmall"}),
    ("read-only property of a pool", "PUT", NEW_POOL, pool(poolId="00000000-0000-0000-0000-000000000001"), 400, None,
     {"target": "properties.poolId"}),
    ("property that no version knows", "PUT", NEW_POOL, pool(colour="blue"), 400, None, {"target": "properties.colour"}),
    # ---- volumes ----
    ("volume without path", "PUT", NEW, without(volume(), "creationToken"), 400, "BadRequest",
     {"detail": "MissingValue", "target": "properties.creationToken"}),
    ("volume without quota", "PUT", NEW, without(volume(), "usageThreshold"), 400, "BadRequest",
     {"detail": "MissingValue", "target": "properties.usageThreshold"}),
    ("volume of 49 GiB", "PUT", NEW, volume(usageThreshold=49 * GIB), 400, INVALID, {"target": "properties.usageThreshold"}),
    ("volume not of whole GiB", "PUT", NEW, volume(usageThreshold=100 * GIB + 4096), 400, INVALID,
     {"target": "properties.usageThreshold"}),
    ("volume of 0 bytes", "PUT", NEW, volume(usageThreshold=0), 400, INVALID, {"target": "properties.usageThreshold"}),
    ("volume of -1 bytes", "PUT", NEW, volume(usageThreshold=-1), 400, INVALID, {"target": "properties.usageThreshold"}),
    ("volume larger than its pool", "PUT", NEW, volume(usageThreshold=5 * TIB), 400, "BadRequest",
     {"detail": "PoolSizeTooSmall"}),
    ("path with a slash", "PUT", NEW, {**volume(), "properties": {**volume()["properties"], "creationToken": "a/b"}}, 400,
     INVALID, {"target": "properties.creationToken"}),
    ("reserved path", "PUT", NEW, {**volume(), "properties": {**volume()["properties"], "creationToken": "none"}}, 400,
     INVALID, {"target": "properties.creationToken"}),
    ("path that is taken", "PUT", NEW, {**volume(), "properties": {**volume()["properties"], "creationToken": "vol"}}, None,
     None, {"target": "properties.creationToken", "statuses": (400, 409)}),
    ("path changed", "PUT", VOLUME, {**volume(), "properties": {**volume()["properties"], "creationToken": "moved"}}, 400,
     None, {"target": "properties.creationToken"}),
    ("level other than the pool's", "PUT", NEW, volume(serviceLevel="Ultra"), 400, INVALID,
     {"target": "properties.serviceLevel"}),
    ("SMB", "PUT", NEW, volume(protocolTypes=["CIFS"]), 400, None, {"target": "properties.protocolTypes"}),
    ("NFSv4.1", "PUT", NEW, volume(protocolTypes=["NFSv4.1"]), 400, None, {"target": "properties.protocolTypes"}),
    ("unknown protocol", "PUT", NEW, volume(protocolTypes=["AFS"]), 400, INVALID, {"target": "properties.protocolTypes"}),
    ("throughput in an Auto pool", "PUT", NEW, volume(throughputMibps=100), 400, INVALID,
     {"target": "properties.throughputMibps"}),
    ("no throughput in a Manual pool", "PUT", NEW_MANUAL, volume(), 400, "BadRequest",
     {"detail": "MissingValue", "target": "properties.throughputMibps"}),
    ("throughput 0", "PUT", NEW_MANUAL, volume(throughputMibps=0), 400, INVALID, {"target": "properties.throughputMibps"}),
    ("throughput below 0", "PUT", NEW_MANUAL, volume(throughputMibps=-5), 400, INVALID,
     {"target": "properties.throughputMibps"}),
    ("throughput above a regular volume's 4,500", "PUT", NEW_FLEXIBLE, volume(throughputMibps=4501), 400, INVALID,
     {"target": "properties.throughputMibps"}),
    ("throughput above what the pool has left", "PUT", NEW_MANUAL, volume(throughputMibps=257), 400, None,
     {"target": "properties.throughputMibps"}),
    ("breakthrough of 100 GiB", "PUT", NEW_MANUAL, volume(throughputMibps=10, breakthroughMode="Enabled"), 400, INVALID,
     {"target": "properties.usageThreshold"}),
    ("breakthrough that is not large", "PUT", NEW_MANUAL,
     volume(throughputMibps=10, usageThreshold=2400 * GIB, breakthroughMode="Enabled", isLargeVolume=False), 400, None,
     {"target": "properties.isLargeVolume"}),
    ("breakthrough for an api-version before it", "PUT", NEW_MANUAL,
     volume(throughputMibps=10, usageThreshold=2400 * GIB, breakthroughMode="Enabled"), 400, None,
     {"target": "properties.breakthroughMode", "api_version": "2025-06-01"}),
    ("large volume of 1 TiB", "PUT", NEW_MANUAL, volume(throughputMibps=10, usageThreshold=TIB, isLargeVolume=True), 400,
     INVALID, {"target": "properties.usageThreshold"}),
    ("unixPermissions of 999", "PUT", NEW, volume(unixPermissions="0999"), 400, INVALID,
     {"target": "properties.unixPermissions"}),
    ("two zones", "PUT", NEW, volume(zones=["1", "2"]), 400, None, {"target": "zones"}),
    ("zone 9", "PUT", NEW, volume(zones=["9"]), 400, None, {"target": "zones"}),
    ("Kerberos", "PUT", NEW, volume(kerberosEnabled=True), 400, None, {"target": "properties.kerberosEnabled"}),
    ("immutable property patched", "PATCH", VOLUME, patch(creationToken="moved"), 400, None,
     {"target": "properties.creationToken"}),
    ("read-only property changed", "PATCH", VOLUME, patch(fileSystemId="00000000-0000-0000-0000-000000000001"), 400, None,
     {"target": "properties.fileSystemId"}),
    ("quota of the patch", "PATCH", VOLUME, patch(usageThreshold=1), 400, INVALID, {"target": "properties.usageThreshold"}),
    # ---- export rules ----
    ("six rules", "PUT", NEW, rules(*[arm.rule(n) for n in range(1, 7)]), 400, INVALID,
     {"target": "properties.exportPolicy.rules"}),
    ("an index twice", "PUT", NEW, rules(arm.rule(1), arm.rule(1, "10.0.0.0/8")), 400, None, {"target": "ruleIndex"}),
    ("index 0", "PUT", NEW, rules(arm.rule(0)), 400, INVALID, {"target": "ruleIndex"}),
    ("IPv6 client", "PUT", NEW, rules(arm.rule(1, "fd00::/8")), 400, None, {"target": "allowedClients"}),
    ("a client that is none", "PUT", NEW, rules(arm.rule(1, "10.0.0.300")), 400, None, {"target": "allowedClients"}),
    ("Kerberos rule", "PUT", NEW, rules(arm.rule(1, kerberos5ReadOnly=True)), 400, None, {"target": "kerberos5ReadOnly"}),
    # ---- deleting, tags ----
    ("account with pools", "DELETE", ACCOUNT, None, 409, "CannotDeleteResource", {}),
    ("pool with volumes", "DELETE", POOL, None, 409, "CannotDeleteResource", {}),
    ("51 tags", "PATCH", ACCOUNT, {"tags": {f"t{n}": "x" for n in range(51)}}, 400, None, {"target": "tags"}),
    ("tag value of 257 characters", "PATCH", ACCOUNT, {"tags": {"a": "x" * 257}}, 400, None, {"target": "tags"}),
    ("tag that is a number", "PATCH", ACCOUNT, {"tags": {"a": 1}}, 400, None, {"target": "tags"}),
    # ---- what Spillway does not do ----
    ("snapshots", "PUT", VOLUME + "/snapshots/s1", {"location": "eastus"}, None, None, {"statuses": (400, 404, 409, 501)}),
    ("backup vaults", "GET", ACCOUNT + "/backupVaults", None, None, None, {"statuses": (400, 404, 409, 501)}),
]


def targets_of(error):
    """All targets of an error, its own and its details'."""
    return [t for t in [error.get("target"), *(d.get("target") for d in error.get("details", []))] if t]


class BadCalls(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool(size=4 * TIB, level="Premium")
        cls.cluster.make_volume("vol")
        cls.cluster.make_pool(pool="manual", size=4 * TIB, level="Premium", qosType="Manual")
        cls.cluster.make_volume("kept", pool="manual", quota=2 * TIB, throughputMibps=16)
        cls.cluster.make_pool(pool="flexible", size=10 * TIB, level="Flexible", customThroughputMibps=6400)

    def everything(self):
        """All resources as they are."""
        found = []
        for path in (arm.group_path() + "/providers/Microsoft.NetApp/netAppAccounts", ACCOUNT + "/capacityPools",
                     POOL + "/volumes", MANUAL + "/volumes", FLEXIBLE + "/volumes"):
            found += self.arm.pages(path)[0]
        return json.dumps(found, sort_keys=True)

    def test_each_gets_its_answer(self):
        self.assertGreaterEqual(len(CALLS), 40)
        before = self.everything()
        for name, method, path, body, status, code, more in CALLS:
            with self.subTest(name):
                self.check(method, path, body, status, code, more)
        self.assertEqual(self.everything(), before, "a bad call changed something")

    def check(self, method, path, body, status, code, more):
        raw = body if isinstance(body, bytes) else None
        answer = self.arm.request(method, path, None if raw is not None else body, raw=raw,
                                  api_version=more.get("api_version", arm.API_VERSION))
        self.assertIn(answer.status, more.get("statuses", (status,)), answer.text)
        error = answer.error
        self.assertTrue(error["message"], "a message for people")
        if code:
            self.assertEqual(error["code"], code, answer.text)
        if "detail" in more:
            self.assertIn(more["detail"], [d["code"] for d in error.get("details", [])], answer.text)
        if "target" in more:
            self.assertTrue(any(more["target"].lower() in t.lower() for t in targets_of(error)),
                            f"no target {more['target']} in {answer.text}")

    def test_a_method_that_a_path_does_not_have(self):
        self.assertEqual(self.arm.post(ACCOUNT, {}).status, 405)

    def test_throughput_of_a_flexible_pool_is_not_lowered_for_a_day(self):
        path = arm.pool_path("eda", "cool")
        self.arm.finish(self.arm.put(path, arm.pool_body(level="Flexible", size=4 * TIB, customThroughputMibps=200)))
        self.arm.finish(self.arm.patch(path, {"properties": {"customThroughputMibps": 400}}))
        answer = self.arm.patch(path, {"properties": {"customThroughputMibps": 300}})
        self.assertEqual((answer.status, answer.code),
                         (400, "PoolCustomThroughputCanNotBeDecreasedDuringCoolDownPeriod"))
        self.assertEqual(self.arm.get(path).json["properties"]["customThroughputMibps"], 400)
        self.arm.finish(self.arm.delete(path))


if __name__ == "__main__":
    unittest.main()
