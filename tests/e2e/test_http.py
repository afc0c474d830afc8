"""The front door: tokens, sizes, versions, ETags, paging, headers, resource groups (anf-api.md D)."""
import re
import socket
import ssl
import unittest

from lib import arm
from lib.arm import GIB, TIB
from lib.cluster import ClusterCase, await_true

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ACCOUNT = arm.account_path("eda")


class FrontDoor(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()

    # ---- who may come in ----

    def test_no_token_and_a_wrong_one_are_401(self):
        for token in None, "0" * 64, "x":
            for method, path in ("GET", ACCOUNT), ("PUT", ACCOUNT), ("DELETE", ACCOUNT), ("GET", "/subscriptions"):
                with self.subTest(token=token, method=method):
                    answer = self.arm.request(method, path, token=token)
                    self.assertEqual((answer.status, answer.code), (401, "AuthenticationFailed"))
                    self.assertTrue(answer.header("WWW-Authenticate").startswith("Bearer"))
        self.assertEqual(self.arm.get(ACCOUNT).status, 200, "nothing was deleted")

    def test_the_agents_channel_needs_an_agents_credential(self):
        for path in "poll", "observed", "status":
            answer = self.arm.post(f"/agents/v1/{path}", {}, api_version=None)  # the administrator's token is none
            self.assertEqual(answer.status, 401, path)
        enrolment = {"token": "0" * 64, "credential": "1" * 64, "name": "intruder", "version": "1", "region": "", "zone": "",
                     "backend": "dir", "storeUuid": "00000000-0000-0000-0000-000000000001", "storeSize": 1, "storeFree": 1,
                     "addresses": ["127.1.0.0/24"], "nfsPort": 2049}
        self.assertEqual(self.arm.post("/agents/v1/enroll", enrolment, api_version=None, token=None).status, 401)

    def test_metrics_need_a_token_and_health_none(self):
        self.assertEqual(self.arm.get("/metrics", api_version=None, token=None).status, 401)
        self.assertEqual(self.arm.get("/metrics", api_version=None).status, 200)
        self.assertEqual(self.arm.get("/healthz", api_version=None, token=None).status, 200)

    def test_tokens_are_in_no_log(self):
        self.assertNotIn(self.cluster.control.token, self.cluster.control.output())
        with open(self.cluster.agent.arguments[-1], encoding="ascii") as f:
            self.assertNotIn(f.read(), self.cluster.control.output() + self.cluster.agent.output())

    # ---- what may come in ----

    def test_a_body_over_one_mib_is_413(self):
        body = b'{"location":"eastus","tags":{"a":"' + b"x" * (1 << 20) + b'"}}'
        answer = self.arm.put(ACCOUNT, raw=body)
        self.assertEqual(answer.status, 413)
        self.arm.close()
        self.assertEqual(self.arm.get(ACCOUNT).status, 200)

    def test_plain_http_on_the_tls_port_harms_nobody(self):
        with socket.create_connection(("127.0.0.1", self.cluster.control.port), 5) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            s.settimeout(5)
            try:
                s.recv(100)
            except OSError:
                pass
        self.assertEqual(self.arm.get(ACCOUNT).status, 200)

    def test_a_half_sent_request_holds_nobody_up(self):
        context = ssl.create_default_context(cafile=self.cluster.control.cacert)
        with socket.create_connection(("127.0.0.1", self.cluster.control.port), 5) as raw, \
                context.wrap_socket(raw, server_hostname="127.0.0.1") as s:
            s.sendall(b"PUT " + ACCOUNT.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            self.assertEqual(self.arm.get(ACCOUNT).status, 200)

    # ---- what comes out ----

    def test_every_answer_has_its_request_id(self):
        seen = set()
        for path in ACCOUNT, arm.account_path("none"), "/subscriptions":
            answer = self.arm.get(path)
            self.assertRegex(answer.header("x-ms-request-id"), f"^{UUID}$")
            self.assertTrue(answer.header("x-ms-correlation-request-id"))
            seen.add(answer.header("x-ms-request-id"))
        self.assertEqual(len(seen), 3)
        answer = self.arm.get(ACCOUNT, headers={"x-ms-correlation-request-id": "11111111-2222-3333-4444-555555555555",
                                                "x-ms-client-request-id": "mine",
                                                "x-ms-return-client-request-id": "true"})
        self.assertEqual(answer.header("x-ms-correlation-request-id"), "11111111-2222-3333-4444-555555555555")
        self.assertEqual(answer.header("x-ms-client-request-id"), "mine")

    def test_errors_have_the_envelope(self):
        answer = self.arm.get(arm.account_path("none"))
        self.assertEqual(answer.status, 404)
        self.assertTrue(answer.header("Content-Type").startswith("application/json"))
        self.assertEqual(set(answer.json), {"error"})
        self.assertEqual(answer.code, "ResourceNotFound")
        self.assertIn("netAppAccounts/none", answer.error["message"])

    def test_the_provider_lists_its_operations(self):
        answer = self.arm.get("/providers/Microsoft.NetApp/operations").expect(200)
        names = {o["name"] for o in answer.json["value"]}
        self.assertIn("Microsoft.NetApp/netAppAccounts/capacityPools/volumes/write", names)

    def test_the_first_subscription_is_there(self):
        value = self.arm.get("/subscriptions", api_version="2020-01-01").expect(200).json["value"]
        self.assertIn(arm.SUBSCRIPTION, [s["subscriptionId"] for s in value])

    # ---- ETags (anf-api.md D.3) ----

    def test_conditional_requests(self):
        path = arm.account_path("etag")
        absent = {"If-Match": "*"}
        self.assertEqual(self.arm.put(path, arm.account_body(), headers=absent).status, 412)
        self.arm.finish(self.arm.put(path, arm.account_body(), headers={"If-None-Match": "*"}).expect(201))
        self.assertEqual(self.arm.put(path, arm.account_body(), headers={"If-None-Match": "*"}).status, 412)
        old = self.arm.get(path).json["etag"]
        self.arm.finish(self.arm.patch(path, {"tags": {"a": "1"}}, headers={"If-Match": old}))
        new = self.arm.get(path).json["etag"]
        self.assertNotEqual(old, new)
        for method, body in ("PUT", arm.account_body()), ("PATCH", {"tags": {}}), ("DELETE", None):
            answer = self.arm.request(method, path, body, headers={"If-Match": old})
            self.assertEqual((answer.status, answer.code), (412, "PreconditionFailed"), method)
        self.assertEqual(self.arm.get(path).json["etag"], new, "nothing happened")
        self.arm.finish(self.arm.delete(path, headers={"If-Match": new}))

    # ---- lists ----

    def test_lists_come_in_pages_and_each_item_once(self):
        count = 205
        for n in range(count):
            self.arm.put(arm.account_path(f"page{n:03}", group="pages"), arm.account_body()).expect(201)
        path = arm.group_path("pages") + "/providers/Microsoft.NetApp/netAppAccounts"
        items, pages = self.arm.pages(path)
        self.assertEqual(sorted(i["name"] for i in items), [f"page{n:03}" for n in range(count)])
        if pages > 1:
            first = self.arm.get(path).json
            self.assertTrue(first["nextLink"].startswith(self.cluster.control.endpoint), "absolute, used as it is")
        everywhere, _ = self.arm.pages(f"/subscriptions/{arm.SUBSCRIPTION}/providers/Microsoft.NetApp/netAppAccounts")
        self.assertLess({i["id"] for i in items}, {i["id"] for i in everywhere})

    def test_deleting_a_group_deletes_what_is_in_it(self):
        path = arm.group_path("doomed")
        self.arm.finish(self.arm.put(arm.account_path("one", group="doomed"), arm.account_body()))
        self.arm.finish(self.arm.put(arm.pool_path("one", "p", group="doomed"), arm.pool_body()))
        self.arm.finish(self.arm.put(arm.volume_path("one", "p", "v", group="doomed"),
                                     arm.volume_body("v", quota=50 * GIB)))
        answer = self.arm.delete(path, api_version="2021-04-01").expect(202)
        location = answer.header("Location")
        await_true("the group is deleted", lambda: self.arm.get(location).status in (200, 204))
        self.assertEqual(self.arm.get(arm.account_path("one", group="doomed")).status, 404)
        self.assertEqual(self.arm.get(path, api_version="2021-04-01").status, 404)

    def test_numbers_read_back_as_they_were_put(self):
        self.arm.finish(self.arm.put(arm.pool_path("eda", "numbers"), arm.pool_body(qosType="Manual", size=2 * TIB)))
        for value in "1.1", "16", "12.345":
            with self.subTest(value=value):
                path = arm.volume_path("eda", "numbers", "v" + re.sub(r"\W", "-", value))
                text = ('{"location":"eastus","properties":{"creationToken":"v%s","usageThreshold":107374182400,'
                        '"subnetId":"%s","throughputMibps":%s}}' % (re.sub(r"\W", "-", value), arm.subnet(), value))
                self.arm.finish(self.arm.put(path, raw=text.encode()))
                self.assertRegex(self.arm.get(path).text, rf'"throughputMibps":{re.escape(value)}[,}}]')


if __name__ == "__main__":
    unittest.main()
