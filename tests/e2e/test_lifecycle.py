"""The published example over raw REST, from the account to the last byte, and back again. Values: ../shared/reference
(anf-api.md B, C, D.4) and the published calls."""
import hashlib
import os
import re
import unittest

from lib import arm, nfs
from lib.arm import GIB, TIB
from lib.cluster import ClusterCase, addresses, await_true

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ACCOUNT, POOL = arm.account_path("eda"), arm.pool_path("eda", "fast")
VOLUME = arm.volume_path("eda", "fast", "vol1")


class PublishedExample(ClusterCase):
    """One life, in the order of the names."""

    def test_1_account(self):
        answer = self.arm.put(ACCOUNT, arm.account_body())
        self.assertEqual(answer.status, 201)
        self.arm.finish(answer)
        account = self.arm.get(ACCOUNT).expect(200)
        body = account.json
        self.assertEqual(body["id"], ACCOUNT)
        self.assertEqual((body["name"], body["type"], body["location"]), ("eda", "Microsoft.NetApp/netAppAccounts", "eastus"))
        self.assertEqual(body["properties"]["provisioningState"], "Succeeded")
        self.assertEqual(body["properties"]["encryption"]["keySource"], "Microsoft.NetApp")
        self.assertEqual(account.header("ETag"), body["etag"])
        self.assertRegex(body["etag"], r"""^W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{7}Z'"$""")
        self.assertTrue(body["systemData"]["createdAt"])

    def test_2_pool(self):
        body = {"location": "eastus", "properties": {"serviceLevel": "Flexible", "size": 54975581388800,
                                                     "customThroughputMibps": 21504}}
        answer = self.arm.put(POOL, body)
        self.assertEqual(answer.status, 201)
        self.arm.finish(answer)
        pool = self.arm.get(POOL).expect(200).json
        self.assertEqual((pool["name"], pool["type"]), ("eda/fast", "Microsoft.NetApp/netAppAccounts/capacityPools"))
        properties = pool["properties"]
        self.assertRegex(properties["poolId"], f"^{UUID}$")
        self.assertEqual(properties["size"], 54975581388800)
        self.assertEqual(properties["qosType"], "Manual", "a Flexible pool without qosType is Manual")
        self.assertEqual(properties["customThroughputMibps"], 21504)
        self.assertEqual(properties["totalThroughputMibps"], 21504)
        self.assertEqual(properties["utilizedThroughputMibps"], 0)

    def test_3_volume(self):
        body = {"location": "eastus", "zones": ["1"], "properties": {
            "creationToken": "vol1", "usageThreshold": 51200 * GIB, "protocolTypes": ["NFSv3"],
            "subnetId": arm.subnet(), "throughputMibps": 21504, "breakthroughMode": "Enabled"}}
        answer = self.arm.put(VOLUME, body)
        self.assertEqual(answer.status, 201)
        self.assertEqual(answer.json["properties"]["provisioningState"], "Creating")
        url = answer.header("Azure-AsyncOperation")
        self.assertRegex(url, rf"^{re.escape(self.cluster.control.endpoint)}/subscriptions/{arm.SUBSCRIPTION}/providers/"
                              rf"Microsoft\.NetApp/locations/eastus/operationResults/{UUID}\?api-version={arm.API_VERSION}")
        self.assertIsNone(answer.header("Location"), "a PUT has none")
        self.assertEqual(answer.header("Retry-After"), "1")
        operation = self.arm.operation(answer)
        self.assertEqual((operation["status"], operation["percentComplete"]), ("Succeeded", 100.0))
        self.assertEqual(operation["properties"]["resourceName"], VOLUME)
        self.assertEqual(operation["properties"]["action"], "CREATE")
        self.assertIn(operation["name"], operation["id"])

        volume = self.arm.get(VOLUME).expect(200).json
        self.assertEqual((volume["name"], volume["zones"]), ("eda/fast/vol1", ["1"]))
        properties = volume["properties"]
        self.assertEqual(properties["provisioningState"], "Succeeded")
        self.assertEqual(properties["usageThreshold"], 51200 * GIB)
        self.assertEqual((properties["throughputMibps"], properties["actualThroughputMibps"]), (21504, 21504))
        self.assertEqual((properties["breakthroughMode"], properties["isLargeVolume"]), ("Enabled", True))
        self.assertEqual(properties["serviceLevel"], "Flexible", "its pool's")
        self.assertEqual(properties["maximumNumberOfFiles"], 1593835519, "50 TiB, anf-api.md C.8")
        self.assertRegex(properties["fileSystemId"], f"^{UUID}$")
        self.assertEqual(len(set(addresses(volume))), 6, "six storage endpoints")
        rules = properties["exportPolicy"]["rules"]
        self.assertEqual(len(rules), 1, "the default rule")
        self.assertEqual((rules[0]["ruleIndex"], rules[0]["allowedClients"], rules[0]["unixReadWrite"], rules[0]["nfsv3"]),
                         (1, "0.0.0.0/0", True, True))
        self.assertEqual(self.arm.get(POOL).json["properties"]["utilizedThroughputMibps"], 21504)

    def test_4_six_endpoints_show_one_volume(self):
        volume = self.arm.get(VOLUME).json
        data = os.urandom(4 << 20) * 4
        with self.cluster.mount(volume, 0) as first:
            handle = first.put("file", data)
            root = first.root
        for n in range(6):
            with self.cluster.mount(volume, n) as v:
                self.assertEqual(v.root, root, "the same handles on every endpoint")
                self.assertEqual(v.lookup(v.root, "file"), handle)
        with self.cluster.mount(volume, 5) as sixth:
            self.assertEqual(hashlib.sha256(sixth.get(handle)).digest(), hashlib.sha256(data).digest())
            self.assertEqual(sixth.fsstat()["tbytes"], 51200 * GIB, "FSSTAT's size is the quota")

    def test_5_a_put_of_what_is_there_is_200_and_changes_nothing(self):
        before = self.arm.get(VOLUME).json
        answer = self.arm.put(VOLUME, {k: before[k] for k in ("location", "zones", "properties")})
        self.assertEqual(answer.status, 200)
        self.arm.finish(answer)
        self.assertEqual(self.arm.get(VOLUME).json["properties"], before["properties"])

    def test_6_children_keep_their_parents(self):
        for path in POOL, ACCOUNT:
            answer = self.arm.delete(path)
            self.assertEqual((answer.status, answer.code), (409, "CannotDeleteResource"))

    def test_7_volume_deleted(self):
        volume = self.arm.get(VOLUME).json
        with self.cluster.mount(volume) as v:
            answer = self.arm.delete(VOLUME)
            self.assertEqual((answer.status, answer.body), (202, b""))
            self.assertIn("operationResultResponseType=Location", answer.header("Location"))
            self.assertTrue(answer.header("Azure-AsyncOperation"))
            self.assertEqual(self.arm.operation(answer)["status"], "Succeeded")
            self.assertIn(self.arm.get(answer.header("Location")).status, (200, 204))
            with self.refused(nfs.STALE):
                v.getattr(v.root)
        gone = self.arm.get(VOLUME)
        self.assertEqual((gone.status, gone.code), (404, "ResourceNotFound"))
        self.assertEqual(self.arm.delete(VOLUME).status, 204, "deleting again")
        self.assertEqual(self.arm.get(POOL).json["properties"]["utilizedThroughputMibps"], 0)

    def test_8_pool_and_account_deleted(self):
        for path in POOL, ACCOUNT:
            self.arm.finish(self.arm.delete(path))
            self.assertEqual(self.arm.get(path).status, 404)
        await_true("the trash is empty", lambda: self.cluster.agent.metric("spillway_agent_trash_folders") == 0)
        self.assertEqual(self.cluster.agent.metric("spillway_agent_volumes", state="recorded"), 0)


class OrdinaryVolumes(ClusterCase):
    """Auto QoS and shared endpoints."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool(size=4 * TIB, level="Premium")

    def test_the_limit_follows_the_quota(self):
        """100 GiB Premium: 6.25 MiB/s (C.1); resized to 2 TiB: 128."""
        volume = self.cluster.make_volume("auto", quota=100 * GIB)
        fs_id = volume["properties"]["fileSystemId"]
        self.assertEqual(volume["properties"]["actualThroughputMibps"], 6.25)

        def limit():
            return self.cluster.agent.metric("spillway_volume_limit_bytes_per_second", file_system_id=fs_id)
        self.assertEqual(limit(), 6.25 * 1048576)
        path = arm.volume_path("eda", "pool", "auto")
        self.arm.finish(self.arm.patch(path, {"properties": {"usageThreshold": 2 * TIB}}))
        self.assertEqual(self.arm.get(path).json["properties"]["actualThroughputMibps"], 128)
        self.assertEqual(limit(), 128 * 1048576)
        with self.cluster.mount(volume) as v:
            self.assertEqual(v.fsstat()["tbytes"], 2 * TIB, "live on what is mounted")

    def test_volumes_of_a_subnet_share_an_address_and_those_of_another_do_not(self):
        one = self.cluster.make_volume("one")
        two = self.cluster.make_volume("two")
        other = self.cluster.make_volume("three", token="one", subnetId=arm.subnet("other"))
        self.assertEqual(addresses(one), addresses(two))
        self.assertNotEqual(addresses(one), addresses(other))
        with self.cluster.mount(one) as v:
            v.put("here", b"1")
        with self.cluster.mount(other) as v:
            self.assertEqual(v.readdir(v.root), [], "the same path in another subnet is another volume")

    def test_paths_match_without_case_and_come_back_as_they_were_put(self):
        self.cluster.make_volume("Case")
        path = arm.volume_path("eda", "pool", "Case")
        shouted = path.replace("netAppAccounts/eda", "NETAPPACCOUNTS/EDA").replace("Case", "cASE")
        volume = self.arm.get(shouted).expect(200).json
        self.assertEqual((volume["id"], volume["name"]), (path, "eda/pool/Case"))

    def test_the_quota_holds(self):
        """A store below the quota's size would end in NOSPC anyway, so the quota of the test is the agent's least: 50 GiB
        is more than a test writes; a sparse file counts what is allocated, and SETATTR to any size is free."""
        volume = self.cluster.make_volume("sparse", quota=50 * GIB)
        with self.cluster.mount(volume) as v:
            handle = v.create(v.root, "sparse", mode=0o600)
            v.setattr(handle, size=1 << 40)
            stat = v.fsstat()
            self.assertEqual(stat["tbytes"], 50 * GIB)
            self.assertGreater(stat["fbytes"], 0)


if __name__ == "__main__":
    unittest.main()
