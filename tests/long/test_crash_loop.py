"""kill -9 of both programs twenty times in the middle of 1,000 PUTs and of stable writes. SPILLWAY_PROOF=short: six times."""
import os
import unittest

from lib import crash
from lib.cluster import Cluster


class CrashLoop(unittest.TestCase):
    def test_kills_lose_nothing_that_was_acknowledged(self):
        rounds = 6 if os.environ.get("SPILLWAY_PROOF") == "short" else 20
        with Cluster() as cluster:
            crash.run(self, cluster, rounds=rounds, puts=1000)


if __name__ == "__main__":
    unittest.main()
