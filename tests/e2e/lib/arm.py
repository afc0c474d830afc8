"""A small ARM client on http.client: requests, polling of long-running operations, paging."""
import http.client
import json
import ssl
import time
import urllib.parse

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
API_VERSION = "2026-05-01"
GIB, TIB = 1 << 30, 1 << 40
TERMINAL = ("Succeeded", "Failed", "Canceled")


class ArmError(Exception):
    """An answer that was not expected; has the Response."""

    def __init__(self, response):
        super().__init__(f"{response.method} {response.path}: {response.status} {response.text}")
        self.response = response


class Response:
    def __init__(self, method, path, status, headers, body):
        self.method, self.path, self.status, self.headers, self.body = method, path, status, headers, body

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]

    def header(self, name):
        return self.headers.get(name)

    def expect(self, *statuses):
        if self.status not in statuses:
            raise ArmError(self)
        return self


class Arm:
    """The control plane at `endpoint` (https://HOST:PORT) with a bearer token."""

    def __init__(self, endpoint, token=None, cacert=None, timeout=60):
        url = urllib.parse.urlsplit(endpoint)
        self.endpoint, self.host, self.port, self.token, self.timeout = endpoint, url.hostname, url.port, token, timeout
        self.context = ssl.create_default_context(cafile=cacert) if url.scheme == "https" else None
        self.connection = None

    def _connect(self):
        if self.context:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def request(self, method, path, body=None, api_version=API_VERSION, headers=None, token=Ellipsis, raw=None):
        """`path` may be an absolute URL of a Location, nextLink or Azure-AsyncOperation: used as it is."""
        if path.startswith(self.endpoint):
            path = path[len(self.endpoint):]
        elif api_version:
            path += ("&" if "?" in path else "?") + "api-version=" + api_version
        sent = {}
        bearer = self.token if token is Ellipsis else token
        if bearer:
            sent["Authorization"] = "Bearer " + bearer
        if body is not None:
            raw = json.dumps(body).encode()
        if raw is not None:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        for last in False, True:
            fresh = self.connection is None
            self.connection = self.connection or self._connect()
            try:
                self.connection.request(method, path, raw, sent)
                answer = self.connection.getresponse()
                return Response(method, path, answer.status, answer.headers, answer.read())
            except (http.client.BadStatusLine, ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                # A kept connection that the server closed meanwhile; a fresh one's failure is the answer.
                self.close()
                if fresh or last:
                    raise
            except Exception:
                self.close()
                raise

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def put(self, path, body=None, **kw):
        return self.request("PUT", path, body, **kw)

    def patch(self, path, body=None, **kw):
        return self.request("PATCH", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def operation(self, response, timeout=60, pause=0.02):
        """Polls the answer's Azure-AsyncOperation until it ends; the operation's document, or None without one."""
        url = response.header("Azure-AsyncOperation")
        if not url:
            return None
        until = time.monotonic() + timeout
        while True:
            poll = self.get(url).expect(200).json
            if poll["status"] in TERMINAL:
                return poll
            if time.monotonic() > until:
                raise TimeoutError(f"{url} is still {poll['status']} after {timeout} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def finish(self, response, timeout=60):
        """Waits for a write's end; the response. An operation that did not succeed is an ArmError."""
        response.expect(200, 201, 202, 204)
        operation = self.operation(response, timeout)
        if operation and operation["status"] != "Succeeded":
            raise ArmError(Response(response.method, response.path, 0, {}, json.dumps(operation).encode()))
        return response

    def pages(self, path, **kw):
        """All items of a list, following nextLink; the second value is the number of pages."""
        items, count = [], 0
        while path:
            page = self.get(path, **kw).expect(200).json
            items += page["value"]
            count += 1
            path = page.get("nextLink")
        return items, count


def group_path(group="rg", subscription=SUBSCRIPTION):
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def account_path(account, group="rg", subscription=SUBSCRIPTION):
    return f"{group_path(group, subscription)}/providers/Microsoft.NetApp/netAppAccounts/{account}"


def pool_path(account, pool, **kw):
    return f"{account_path(account, **kw)}/capacityPools/{pool}"


def volume_path(account, pool, volume, **kw):
    return f"{pool_path(account, pool, **kw)}/volumes/{volume}"


def subnet(name="default", vnet="vnet1", group="rg", subscription=SUBSCRIPTION):
    return f"{group_path(group, subscription)}/providers/Microsoft.Network/virtualNetworks/{vnet}/subnets/{name}"


def account_body(location="eastus", **extra):
    return {"location": location, **extra}


def pool_body(size=4 * TIB, level="Premium", location="eastus", **properties):
    return {"location": location, "properties": {"size": size, "serviceLevel": level, **properties}}


def volume_body(token, quota=100 * GIB, location="eastus", zones=None, **properties):
    body = {"location": location, "properties": {"creationToken": token, "usageThreshold": quota, "subnetId": subnet(),
                                                 "protocolTypes": ["NFSv3"], **properties}}
    if zones:
        body["zones"] = zones
    return body


def rule(index=1, clients="0.0.0.0/0", read_only=False, read_write=True, root=True, **extra):
    return {"ruleIndex": index, "allowedClients": clients, "unixReadOnly": read_only, "unixReadWrite": read_write,
            "nfsv3": True, "nfsv41": False, "cifs": False, "hasRootAccess": root, **extra}
