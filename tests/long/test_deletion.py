"""DELETE of a volume with 200,000 files: 202 and finished in under a second, the space comes back, also when the agent is
killed in the middle (issue 2's eighth show)."""
import os
import time
import unittest

from lib import arm, nfs
from lib.cluster import ClusterCase, await_true

PATH = arm.volume_path("eda", "pool", "vol")
FILES = 200000


class ManyFiles(ClusterCase):
    def make(self):
        volume = self.cluster.make_volume("vol")
        data = os.path.join(self.cluster.agent.store, "volumes", volume["properties"]["fileSystemId"], "data")
        for folder in range(200):
            os.mkdir(os.path.join(data, f"d{folder}"))
            for n in range(FILES // 200):
                with open(os.path.join(data, f"d{folder}", f"f{n}"), "wb"):
                    pass
        return volume

    def delete(self, volume):
        with self.cluster.mount(volume) as v:
            begun = time.monotonic()
            self.arm.finish(self.arm.delete(PATH).expect(202))
            self.assertLess(time.monotonic() - begun, 1)
            with self.refused(nfs.STALE):
                v.getattr(v.root)

    def trash(self):
        return os.listdir(os.path.join(self.cluster.agent.store, "trash"))

    def test_deleted_at_once_reclaimed_later(self):
        self.cluster.make_account()
        self.cluster.make_pool()
        for kill in False, True:
            with self.subTest(kill=kill):
                self.delete(self.make())
                if kill:
                    self.assertTrue(self.trash(), "it was over before the kill")
                    self.cluster.agent.kill()
                    self.cluster.agent.start()
                await_true("the space is back", lambda: not self.trash(), timeout=300, pause=0.2)


if __name__ == "__main__":
    unittest.main()
