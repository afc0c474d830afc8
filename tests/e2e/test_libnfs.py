"""The published example through libnfs: a client that is not ours finds what it expects, on every address."""
import errno
import hashlib
import os
import stat
import unittest

from lib import libnfs
from lib.cluster import GIB, MIB, TIB, ClusterCase, addresses


class Libnfs(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool(pool="fast", size=50 * TIB, level="Flexible", customThroughputMibps=21504)
        cls.volume = cls.cluster.make_volume("vol1", pool="fast", quota=51200 * GIB, throughputMibps=21504,
                                             breakthroughMode="Enabled", zones=["1"])
        cls.addresses = addresses(cls.volume)

    def mount(self, number=0, path=""):
        mount = libnfs.Mount(self.addresses[number], self.cluster.agent.nfs_port, "/vol1" + path)
        self.addCleanup(mount.close)
        return mount

    def test_what_the_first_address_wrote_the_sixth_reads(self):
        self.assertEqual(len(set(self.addresses)), 6)
        data = os.urandom(MIB) * 256
        first, sixth = self.mount(0), self.mount(5)
        first.write("/big", data)
        self.assertEqual(hashlib.sha256(sixth.read("/big")).digest(), hashlib.sha256(data).digest())
        self.assertEqual(sixth.stat("/big").size, 256 * MIB)
        sixth.unlink("/big")
        with self.assertRaises(OSError):
            first.stat("/big")

    def test_names(self):
        mount = self.mount(1)
        mount.mkdir("/folder")
        for n in range(300):
            mount.write(f"/folder/file{n:03}", b"")
        self.assertEqual(mount.names("/folder"), [f"file{n:03}" for n in range(300)])
        mount.rename("/folder/file000", "/folder/renamed")
        mount.link("/folder/renamed", "/folder/second")
        self.assertEqual(mount.stat("/folder/second").nlink, 2)
        self.assertEqual(mount.stat("/folder/second").ino, mount.stat("/folder/renamed").ino)
        mount.symlink("folder/renamed", "/link")
        self.assertEqual(mount.readlink("/link"), "folder/renamed")
        with self.assertRaises(OSError) as caught:
            mount.rmdir("/folder")
        self.assertIn(caught.exception.errno, (errno.ENOTEMPTY, errno.EEXIST))
        for name in mount.names("/folder"):
            mount.unlink("/folder/" + name)
        mount.rmdir("/folder")
        mount.unlink("/link")

    def test_attributes(self):
        mount = self.mount(2)
        mount.write("/a", b"x" * 1000)
        mount.chmod("/a", 0o600)
        mount.truncate("/a", 10)
        found = mount.stat("/a")
        self.assertEqual((stat.S_IMODE(found.mode), found.size, stat.S_ISREG(found.mode)), (0o600, 10, True))
        self.assertEqual(mount.read("/a"), b"x" * 10)
        mount.unlink("/a")

    def test_a_folder_below_the_root_is_mounted(self):
        mount = self.mount(3)
        mount.mkdir("/deep")
        mount.mkdir("/deep/er")
        below = self.mount(4, "/deep/er")
        below.write("/file", b"below")
        self.assertEqual(mount.read("/deep/er/file"), b"below")
        with self.assertRaises(OSError):
            self.mount(4, "/deep/no")
        below.unlink("/file")
        mount.rmdir("/deep/er")
        mount.rmdir("/deep")


if __name__ == "__main__":
    unittest.main()
