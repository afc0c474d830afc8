"""Export rules: who may do what, by the client's address, on every call, live while mounted (nfs-checklist.md 21, 22, 31)."""
import unittest

from lib import arm, nfs
from lib.cluster import ClusterCase, addresses

PATH = arm.volume_path("eda", "pool", "vol")


class ExportRules(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account()
        cls.cluster.make_pool()
        cls.volume = cls.cluster.make_volume("vol", unixPermissions="0777")
        cls.address = addresses(cls.volume)[0]

    def set_rules(self, *rules):
        self.arm.finish(self.arm.patch(PATH, {"properties": {"exportPolicy": {"rules": list(rules)}}}))

    def volume_from(self, source, root=None, **kw):
        return nfs.Volume(self.address, self.cluster.agent.nfs_port, "/vol", source=source, root=root, **kw)

    def test_a_change_is_live_for_those_who_have_it_mounted(self):
        self.set_rules(arm.rule())
        with self.cluster.mount(self.volume) as v:
            handle = v.put("live", b"1")
            self.set_rules(arm.rule(read_only=True, read_write=False))
            with self.refused(nfs.ROFS):
                v.write(handle, 0, b"2")
            self.assertEqual(v.get(handle), b"1", "reading goes on")
            self.set_rules(arm.rule(clients="10.11.12.13"))
            with self.refused(nfs.ACCES):
                v.getattr(handle)
            self.set_rules(arm.rule())
            v.write(handle, 0, b"3")
            self.assertEqual(v.get(handle), b"3", "and back: never stale in between")

    def test_the_lowest_matching_index_wins(self):
        self.set_rules(arm.rule(3, "127.0.0.0/8"), arm.rule(1, "127.0.5.5", read_only=True, read_write=False),
                       arm.rule(2, "127.0.5.0/24"))
        with self.volume_from("127.0.5.6") as v:
            handle = v.put("index", b"1")
        with self.volume_from("127.0.5.5") as v, self.refused(nfs.ROFS):
            v.write(handle, 0, b"2")

    def test_read_only_beside_read_write_wins(self):
        self.set_rules(arm.rule())
        with self.cluster.mount(self.volume) as v:
            handle = v.put("both", b"1")
            self.set_rules(arm.rule(read_only=True, read_write=True))
            with self.refused(nfs.ROFS):
                v.write(handle, 0, b"2")

    def test_a_stolen_handle_is_worth_nothing_elsewhere(self):
        self.set_rules(arm.rule(clients="127.0.6.1"))
        with self.volume_from("127.0.6.1") as v:
            handle = v.put("stolen", b"1")
        with self.volume_from("127.0.6.2", root=handle) as v, self.refused(nfs.ACCES):
            v.read(handle, 0, 1)
        with self.refused(nfs.ACCES):
            nfs.mount(self.address, self.cluster.agent.nfs_port, "/vol", source="127.0.6.2")

    def test_root_is_squashed_without_root_access(self):
        self.set_rules(arm.rule(root=True))
        with self.cluster.mount(self.volume) as v:
            mine = v.put("roots", b"secret")
            v.setattr(mine, mode=0o600)
            self.assertEqual(v.getattr(mine).uid, 0)
            self.set_rules(arm.rule(root=False))
            with self.refused(nfs.ACCES):
                v.read(mine, 0, 6)
            theirs = v.put("squashed", b"1")
            attributes = v.getattr(theirs)
            self.assertNotEqual(attributes.uid, 0)
            self.assertNotEqual(attributes.gid, 0)

    def test_no_rule_is_no_access(self):
        self.set_rules()
        with self.refused(nfs.ACCES):
            self.cluster.mount(self.volume)
        self.set_rules(arm.rule())

    def test_export_lists_it_to_those_who_may_mount(self):
        self.set_rules(arm.rule())
        self.assertIn("/vol", nfs.exports(self.address, self.cluster.agent.nfs_port))

    def test_callers_are_who_they_say(self):
        self.set_rules(arm.rule())
        with self.cluster.mount(self.volume, cred=nfs.auth_sys(1000, 1000)) as v:
            handle = v.put("private", b"mine")
            v.setattr(handle, mode=0o640)
            self.assertEqual(v.getattr(handle).uid, 1000)
        for uid, gid, gids, allowed in (2000, 2000, (), False), (2000, 1000, (), True), (2000, 2000, (7, 1000), True):
            with self.subTest(uid=uid, gid=gid, gids=gids), \
                    self.cluster.mount(self.volume, cred=nfs.auth_sys(uid, gid, gids)) as v:
                if allowed:
                    self.assertEqual(v.read(handle, 0, 4)[0], b"mine")
                else:
                    with self.refused(nfs.ACCES):
                        v.read(handle, 0, 4)


if __name__ == "__main__":
    unittest.main()
