"""A control plane that a test scripts itself (docs/agent-protocol.md), to show the agent what a real one rarely does:
lost answers, nonsense, an older backup. Plain HTTP on loopback."""
import http.server
import json
import sys
import threading
import time
import uuid

HANDLE_KEY = "00112233445566778899aabbccddeeff"


def spec(name, address, generation=1, quota=1 << 30, limit=None, rules=None, fs_id=None, **changes):
    """A SPEC of a small volume; `fs_id` defaults to one derived from the name."""
    body = {"fileSystemId": fs_id or str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "generation": generation,
            "id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.NetApp/netAppAccounts/a/capacityPools/p/volumes/"
                  + name,
            "deleted": False, "exportPath": "/" + name, "endpoints": [address], "breakthrough": False,
            "quotaBytes": quota, "maxFiles": 100000, "limitBytesPerSecond": limit, "handleKey": HANDLE_KEY,
            "unixPermissions": "0777", "snapshotDirectoryVisible": True,
            "rules": rules if rules is not None else [
                {"ruleIndex": 1, "clients": "0.0.0.0/0", "readOnly": False, "readWrite": True, "rootAccess": True,
                 "chownRestricted": True, "nfsv3": True}]}
    body.update(changes)
    return body


def deletion(volume, generation):
    return {"fileSystemId": volume["fileSystemId"], "generation": generation, "deleted": True}


class FakeControl:
    """Answers the agent's calls. A test sets `specs` with offer(), and `answers[path]` to a function of the request's body
    that returns (status, body) once, or None for the usual answer."""

    def __init__(self):
        self.lock = threading.Condition()
        self.calls = []        # (path, body), as they came
        self.observed = {}     # fileSystemId: the last observation
        self.points = {}       # (run, number): points of acknowledged batches
        self.answers = {}
        self.version = 0       # grows with each offer
        self.pending = None    # (full, specs) not sent yet
        self.polls = 0
        self.everything = []   # what a full list holds
        self.credential = None
        self.stopping = False
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = fake.answer(self.path, body, self.headers.get("Authorization"))
                if status is None:
                    self.close_connection = True
                    return
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                if not isinstance(sys.exc_info()[1], ConnectionError):  # an agent that was killed
                    super().handle_error(request, client_address)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self):
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()

    # ---- the agent's side ----

    def answer(self, path, body, authorization):
        with self.lock:
            self.calls.append((path, body))
            self.lock.notify_all()
            scripted = self.answers.get(path)
            if scripted:
                answer = scripted(body)
                if answer is not None:
                    return answer
        name = path.rsplit("/", 1)[-1]
        if name == "enroll":
            return self.enroll(body)
        if authorization != "Bearer " + (self.credential or ""):
            return 401, {"error": {"code": "AuthenticationFailed", "message": "unknown credential"}}
        return {"poll": self.poll, "observed": self.observe, "status": self.status}[name](body)

    def enroll(self, body):
        self.credential = body["credential"]
        return 200, {"agentId": 7}

    def poll(self, body):
        with self.lock:
            until = time.monotonic() + min(body["wait"], 30)
            self.polls += 1
            mine = self.polls
            if body["cursor"] != "":
                while (self.pending is None and not self.stopping and mine == self.polls and
                       time.monotonic() < until):
                    self.lock.wait(until - time.monotonic())
                if mine != self.polls:
                    return None, None  # of an agent that was killed: another poll came since
                full, specs = self.pending or (False, [])
            else:
                full, specs = True, self.everything
            self.pending = None
            self.version += 1
            return 200, {"cursor": f"fake:{self.version}", "full": full, "volumes": specs}

    def observe(self, body):
        with self.lock:
            for o in body["observations"]:
                self.observed[o["fileSystemId"]] = o
            self.lock.notify_all()
        return 200, {}

    def status(self, body):
        batch = body.get("batch")
        if not batch:
            return 200, {}
        with self.lock:
            self.points.setdefault((batch["run"], batch["number"]), batch["points"])
            self.lock.notify_all()
        return 200, {"batch": batch["number"]}

    # ---- the test's side ----

    def offer(self, *specs, full=False):
        with self.lock:
            if full:
                self.everything = list(specs)
            else:
                ids = {s["fileSystemId"] for s in specs}
                self.everything = [s for s in self.everything if s["fileSystemId"] not in ids] + list(specs)
            self.pending = (full, list(specs))
            self.lock.notify_all()

    def wait_for(self, what, condition, timeout=20):
        """The condition's value once it is true; it is looked at under the lock after each call."""
        until = time.monotonic() + timeout
        with self.lock:
            while True:
                value = condition()
                if value:
                    return value
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{what}: not within {timeout} s")
                self.lock.wait(left)

    def await_observed(self, volume, state, generation=None, timeout=20):
        """The observation of this state and generation (the spec's own)."""
        generation = generation or volume["generation"]

        def seen():
            o = self.observed.get(volume["fileSystemId"])
            return o if o and o["generation"] == generation and o["state"] == state else None
        return self.wait_for(f"{volume['fileSystemId']} {state} at generation {generation}", seen, timeout)

    def count(self, path):
        with self.lock:
            return sum(1 for p, _ in self.calls if p == path)
