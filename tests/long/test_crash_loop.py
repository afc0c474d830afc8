"""kill -9 of both programs twenty times in the middle of 1,000 PUTs and of stable writes (issue 2's fourth show)."""
import unittest

from lib import crash
from lib.cluster import Cluster


class CrashLoop(unittest.TestCase):
    def test_twenty_kills_lose_nothing_that_was_acknowledged(self):
        with Cluster() as cluster:
            crash.run(self, cluster, rounds=20, puts=1000)


if __name__ == "__main__":
    unittest.main()
