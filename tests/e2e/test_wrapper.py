"""The wrapper cli/spillway against both programs: the published commands word for word, its formats, exit codes, waiting,
updates and the commands of groups and agents. Flags: ../shared/reference/az-arguments.md; exit codes: spillway(1)."""
import json
import os
import re
import subprocess
import unittest

from lib import arm
from lib.arm import GIB, TIB
from lib.cluster import ROOT, ClusterCase

WRAPPER = os.path.join(ROOT, "cli", "spillway")
# As published for the large-volume benchmark; the shell splits them.
PUBLISHED = (
    "spillway netappfiles account create --account-name eda --resource-group rg --location eastus",
    """spillway netappfiles pool create --account-name eda --resource-group rg --location eastus --pool-name fast \\
        --service-level Flexible --size 54975581388800 --CustomThroughputMibps 21504""",
    """spillway netappfiles volume create --resource-group rg --account-name eda --location eastus --pool-name fast --name vol1 \\
        --usage-threshold 51200 --file-path vol1 --protocol-types NFSv3 --vnet vnet1 --zones 1 --throughput-mibps 21504 --breakthrough-mode true""",
)
OK, ERROR, USAGE, NOT_FOUND = 0, 1, 2, 3


class WrapperCase(ClusterCase):
    """Runs the wrapper with an environment that knows only this cluster."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        control = cls.cluster.control
        cls.env = {"PATH": os.environ["PATH"], "HOME": cls.cluster.folder, "SPILLWAY_ENDPOINT": control.endpoint,
                   "SPILLWAY_TOKEN": control.token, "SPILLWAY_SUBSCRIPTION": arm.SUBSCRIPTION,
                   "SPILLWAY_CACERT": control.cacert}

    def run_it(self, *words, status=OK, env=None):
        """Standard output, or standard error of a command that is to fail."""
        done = subprocess.run([WRAPPER, *words], env=env or self.env, cwd=self.cluster.folder, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(done.returncode, status, f"{' '.join(words)}\n{done.stdout}{done.stderr}")
        if status == OK:
            self.assertEqual(done.stderr, "", "nothing but the answer, away from a terminal")
            return done.stdout
        self.assertEqual(done.stdout, "")
        return done.stderr

    def json_of(self, *words, **kw):
        return json.loads(self.run_it(*words, **kw))


def pool(*words, name="p"):
    return ["netappfiles", "pool", words[0], "-g", "rg", "-a", "acc", "-p", name, *words[1:]]


def volume(*words, name="v"):
    return ["netappfiles", "volume", words[0], "-g", "rg", "-a", "acc", "-p", "p", "-n", name, *words[1:]]


def new_volume(name, *words):
    return volume("create", "--file-path", name, "--usage-threshold", "100", "--vnet", "vnet1", "--throughput-mibps", "16",
                  *words, name=name)


class PublishedCommands(WrapperCase):
    def test_the_published_commands_word_for_word(self):
        env = dict(self.env, PATH=os.path.dirname(WRAPPER) + ":" + self.env["PATH"])
        answers = []
        for command in PUBLISHED:
            done = subprocess.run(["bash", "-c", command], env=env, text=True, capture_output=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stderr), (OK, ""), command)
            answers.append(json.loads(done.stdout))
        account, capacity, vol1 = answers
        self.assertEqual(account["id"], arm.account_path("eda"))
        self.assertEqual((capacity["properties"]["size"], capacity["properties"]["customThroughputMibps"]), (50 * TIB, 21504))
        properties = vol1["properties"]
        self.assertEqual((properties["usageThreshold"], properties["throughputMibps"]), (51200 * GIB, 21504))
        self.assertEqual((properties["breakthroughMode"], properties["isLargeVolume"]), ("Enabled", True))
        self.assertEqual(properties["subnetId"], arm.subnet("default", "vnet1"))
        self.assertEqual(vol1["zones"], ["1"])
        self.assertEqual(len({t["ipAddress"] for t in properties["mountTargets"]}), 6)
        self.assertEqual(properties["provisioningState"], "Succeeded", "it waits for the operation's end")


class Commands(WrapperCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.make_account("acc")
        cls.cluster.make_pool("acc", "p", size=4 * TIB, qosType="Manual")
        cls.cluster.make_volume("v", "acc", "p", throughputMibps=16)

    # ---- formats ----

    def test_json_is_the_body_as_the_server_answers_it(self):
        self.assertEqual(self.json_of(*volume("show")), self.arm.get(arm.volume_path("acc", "p", "v")).expect(200).json)

    def test_a_list_is_an_array(self):
        self.assertIn("acc/p", [p["name"] for p in self.json_of("netappfiles", "pool", "list", "-g", "rg", "-a", "acc")])

    def test_accounts_are_listed_by_group_and_by_subscription(self):
        for group in (["-g", "rg"], []):
            with self.subTest(group=group):
                self.assertIn("acc", [a["name"] for a in self.json_of("netappfiles", "account", "list", *group)])

    def test_query_is_a_jq_filter_and_tsv_has_no_quotes(self):
        self.assertEqual(self.run_it(*volume("show", "--query", ".name", "-o", "tsv")), "acc/p/v\n")
        self.assertEqual(self.run_it(*volume("show", "--query", ".properties.throughputMibps", "-o", "tsv")), "16\n")
        self.assertEqual(self.json_of(*volume("show", "--query", "{n: .name}")), {"n": "acc/p/v"})

    def test_table_has_a_head_and_a_line_for_each(self):
        head, rule, *lines = self.run_it(*volume("show", "-o", "table")).splitlines()
        self.assertEqual(head.split()[:4], ["Name", "ResourceGroup", "Location", "State"])
        self.assertRegex(rule, r"^-+(  -+)+$")
        self.assertEqual(len(rule.split()), len(head.split()))
        self.assertEqual(len(lines), 1)
        self.assertEqual(lines[0].split()[:4], ["acc/p/v", "rg", "eastus", "Succeeded"])
        quota = self.arm.get(arm.volume_path("acc", "p", "v")).json["properties"]["usageThreshold"]
        self.assertEqual(lines[0].split()[head.split().index("SizeGiB")], str(quota // GIB))

    # ---- exit codes and errors ----

    def test_what_is_not_there_exits_3(self):
        for words in (volume("show", name="absent"), volume("update", "--throughput-mibps", "8", name="absent"),
                      pool("show", name="absent"), ["group", "show", "-n", "absent"], ["agent", "show", "-n", "absent"],
                      ["netappfiles", "volume", "list", "-g", "absent", "-a", "acc", "-p", "p"]):
            with self.subTest(words=words):
                self.assertRegex(self.run_it(*words, status=NOT_FOUND), r"^ERROR: \(\w+NotFound\) \S")

    def test_deleting_what_is_not_there_succeeds_as_in_az(self):
        self.assertEqual(self.run_it(*volume("delete", name="absent")), "")

    def test_an_error_of_the_server_exits_1_with_code_and_message(self):
        for words, code in ((new_volume("big", "--throughput-mibps", "4000"), "InvalidValueReceived"),
                            (new_volume("krb", "--kerberos-enabled", "true"), "FeatureNotSupported"),
                            (pool("delete"), "CannotDeleteResource")):
            with self.subTest(words=words):
                self.assertRegex(self.run_it(*words, status=ERROR), rf"^ERROR: \({code}\) \S")

    def test_a_wrong_token_and_an_untrusted_or_absent_server_exit_1(self):
        wrong = self.run_it(*volume("show"), status=ERROR, env=dict(self.env, SPILLWAY_TOKEN="wrong"))
        self.assertRegex(wrong, r"^ERROR: \(AuthenticationFailed\) ")
        untrusted = {key: value for key, value in self.env.items() if key != "SPILLWAY_CACERT"}
        self.assertIn("SPILLWAY_CACERT", self.run_it(*volume("show"), status=ERROR, env=untrusted))
        unset = {key: value for key, value in self.env.items() if key != "SPILLWAY_ENDPOINT"}
        self.assertIn("SPILLWAY_ENDPOINT", self.run_it(*volume("show"), status=ERROR, env=unset))

    def test_wrong_arguments_exit_2_and_are_named(self):
        for words, named in ((volume("show", "--bogus", "1"), "--bogus"), (["netappfiles", "nothing"], "netappfiles nothing"),
                             (["netappfiles", "volume", "show", "-g", "rg"], "--account-name/-a, --pool-name/-p, --name"),
                             (volume("show", "--query"), "--query"), (volume("show", "--query", "["), "--query"),
                             (volume("show", "-o", "yaml"), "yaml"), (volume("update", "--throughput-mibps", "x"), "'x'"),
                             (pool("update", "--size", "1.5"), "1.5"), (volume("update", "--tags", "novalue"), "novalue"),
                             (["netappfiles", "account", "show", "--ids", "acc"], "--ids")):
            with self.subTest(words=words):
                message = self.run_it(*words, status=USAGE)
                self.assertTrue(message.startswith("ERROR: "), message)
                self.assertIn(named, message)

    def test_a_value_is_never_read_as_json_or_as_a_path(self):
        name = 'x"}, "y?a=b#%'
        self.assertRegex(self.run_it(*volume("show", name=name), status=NOT_FOUND), r"^ERROR: \(\w+NotFound\)")
        tags = self.json_of(*pool("update", "--tags", 'a"b=c"d', "e=f g=h\nü", "--query", ".tags"))
        self.assertEqual(tags, {'a"b': 'c"d', "e": "f g=h\nü"})

    def test_configuration_file(self):
        folder = os.path.join(self.cluster.folder, "config")
        os.makedirs(os.path.join(folder, "spillway"), exist_ok=True)
        with open(os.path.join(folder, "spillway", "config"), "w", encoding="utf-8") as f:
            for key, value in self.env.items():
                if key.startswith("SPILLWAY_"):
                    f.write(f'export {key}="{value}"\n')
        env = {"PATH": self.env["PATH"], "HOME": self.cluster.folder, "XDG_CONFIG_HOME": folder}
        self.assertEqual(self.run_it(*volume("show", "--query", ".name"), env=env), '"acc/p/v"\n')

    # ---- long operations ----

    def test_no_wait_and_wait(self):
        answer = self.json_of(*new_volume("later", "--no-wait"))
        self.assertIn(answer["properties"]["provisioningState"], ("Creating", "Succeeded"))
        self.run_it(*volume("wait", "--created", "--timeout", "30", name="later"))
        self.assertEqual(self.json_of(*volume("show", name="later"))["properties"]["provisioningState"], "Succeeded")
        self.run_it(*volume("wait", "--exists", name="later"))
        self.run_it(*volume("wait", "--custom", '.properties.serviceLevel == "Premium"', name="later"))
        self.run_it(*volume("delete", "--no-wait", name="later"))
        self.run_it(*volume("wait", "--deleted", "--timeout", "30", name="later"))
        self.run_it(*volume("show", name="later"), status=NOT_FOUND)

    def test_wait_times_out_and_wants_to_know_for_what(self):
        self.assertIn("timed out", self.run_it(*volume("wait", "--created", "--timeout", "0", name="absent"), status=ERROR))
        self.assertIn("--created", self.run_it(*volume("wait"), status=USAGE))

    def test_create_show_delete(self):
        created = self.json_of(*new_volume("life"))
        self.assertEqual(created["properties"]["provisioningState"], "Succeeded")
        self.assertEqual(self.json_of(*volume("show", name="life")), created)
        self.assertEqual(self.json_of("netappfiles", "volume", "show", "--ids", created["id"]), created)
        self.assertEqual(self.run_it(*volume("delete", name="life")), "")
        self.run_it(*volume("show", name="life"), status=NOT_FOUND)

    # ---- units and bodies ----

    def test_a_pool_size_is_tib_or_bytes(self):
        for size in ("2", str(2 * TIB)):
            with self.subTest(size=size):
                made = self.json_of(*pool("create", "--service-level", "Premium", "--size", size, name="sized" + size))
                self.assertEqual(made["properties"]["size"], 2 * TIB)
        self.assertEqual(self.json_of(*pool("update", "--size", "3", name="sized2"))["properties"]["size"], 3 * TIB)
        for size in ("1048575", "1048576"):  # TiB, more than any pool has; bytes, less than any
            self.run_it(*pool("create", "--service-level", "Premium", "--size", size, name="edge"), status=ERROR)
        self.assertIn("1048576", self.run_it("netappfiles", "pool", "create", "--help"), "the help says where bytes begin")

    def test_the_location_is_the_groups_unless_given(self):
        made = self.json_of(*pool("create", "--service-level", "Standard", "--size", "1", name="where"))
        self.assertEqual(made["location"], "eastus")

    def test_an_export_rule_from_flags(self):
        made = self.json_of(*new_volume("ruled", "--allowed-clients", "10.0.0.0/8,127.0.0.1", "--rule-index", "2",
                                        "--unix-read-only", "true", "--has-root-access", "false"))
        rule, = made["properties"]["exportPolicy"]["rules"]
        self.assertEqual((rule["ruleIndex"], rule["allowedClients"]), (2, "10.0.0.0/8,127.0.0.1"))
        self.assertEqual((rule["unixReadOnly"], rule["unixReadWrite"], rule["hasRootAccess"]), (True, False, False))
        self.run_it(*volume("delete", name="ruled"))

    def test_tags_replace_and_clear(self):
        self.assertEqual(self.json_of(*volume("update", "--tags", "a=b", "c=d=e f"))["tags"], {"a": "b", "c": "d=e f"})
        self.assertEqual(self.json_of(*volume("update", "--tags", "x="))["tags"], {"x": ""})
        self.assertFalse(self.json_of(*volume("update", "--tags", "")).get("tags"))

    def test_update_by_flags(self):
        changed = self.json_of(*volume("update", "--throughput-mibps", "24.5", "--usage-threshold", "200"))["properties"]
        self.assertEqual((changed["throughputMibps"], changed["usageThreshold"]), (24.5, 200 * GIB))

    def test_update_set_add_remove(self):
        changed = self.json_of(*volume("update", "--set", "properties.throughputMibps=20", "tags.n=7"))
        self.assertEqual((changed["properties"]["throughputMibps"], changed["tags"]), (20, {"n": "7"}))
        rules = ".properties.exportPolicy.rules | map([.ruleIndex, .allowedClients])"
        added = self.json_of(*volume("update", "--add", "properties.exportPolicy.rules", "ruleIndex=2", "unixReadOnly=true",
                                     "unixReadWrite=false", "allowedClients=10.0.0.0/8", "nfsv3=true", "nfsv41=false",
                                     "cifs=false", "--query", rules))
        self.assertEqual(added, [[1, "0.0.0.0/0"], [2, "10.0.0.0/8"]])
        self.assertEqual(self.json_of(*volume("update", "--remove", "properties.exportPolicy.rules", "1", "--query", rules)),
                         [[1, "0.0.0.0/0"]])
        self.assertFalse(self.json_of(*volume("update", "--remove", "tags.n")).get("tags"))
        self.run_it(*volume("update", "--set", "properties.nonsense=1"), status=ERROR)
        for words in (["--set", "properties.throughputMibps"], ["--remove", "tags.absent"],
                      ["--add", "properties.exportPolicy.rules", "ruleIndex"]):
            with self.subTest(words=words):
                self.assertIn(words[-1], self.run_it(*volume("update", *words), status=USAGE))

    def test_options_with_an_equals_sign_and_in_any_case(self):
        self.assertEqual(self.run_it("netappfiles", "volume", "show", "--Resource-Group=rg", "--account-name=acc",
                                     "--POOL-NAME", "p", "--volume-name=v", "--output=tsv", "--query=.name"), "acc/p/v\n")

    # ---- groups ----

    def test_groups(self):
        made = self.json_of("group", "create", "-n", "g", "-l", "westus", "--tags", "a=b")
        self.assertEqual((made["name"], made["location"], made["tags"]), ("g", "westus", {"a": "b"}))
        self.assertIn("g", [g["name"] for g in self.json_of("group", "list")])
        self.assertEqual(self.json_of("group", "update", "-n", "g", "--tags", "c=d")["tags"], {"c": "d"})
        self.assertEqual(self.run_it("group", "exists", "-n", "g"), "true\n")
        self.assertIn("--yes", self.run_it("group", "delete", "-n", "g", status=USAGE))
        self.run_it("group", "delete", "-n", "g", "--yes")
        self.assertEqual(self.run_it("group", "exists", "-n", "g"), "false\n")

    # ---- agents ----

    def test_agents(self):
        name = self.json_of("agent", "list")[0]["name"]
        shown = self.json_of("agent", "show", "-n", name)
        self.assertTrue({"lastContact", "storeUuid", "storeFree", "version", "volumes", "opsPerSecond"} <= shown.keys())
        head = self.run_it("agent", "list", "-o", "table").splitlines()[0].split()
        self.assertEqual(head[0], "Name")
        self.assertIn("Addresses", head, "a list of texts is a cell")
        self.assertTrue(self.json_of("agent", "drain", "-n", name)["draining"])
        self.assertRegex(self.run_it(*new_volume("nowhere"), status=ERROR), r"^ERROR: \(NoAgentAvailable\) .*draining")
        self.assertFalse(self.json_of("agent", "drain", "-n", name, "--off")["draining"])
        self.assertRegex(self.run_it("agent", "remove", "-n", name, status=ERROR), r"^ERROR: \(CannotDeleteResource\)")

    def test_a_token_enrols_one_agent_that_can_be_removed_again(self):
        first, second = self.run_it("agent", "token"), self.run_it("agent", "token")
        self.assertRegex(first, r"^\S{32,}\n$", "a single word, fit for a file")
        self.assertNotEqual(first, second)
        other = self.cluster.add_agent()
        other.start()
        names = {a["name"] for a in self.json_of("agent", "list")}
        self.assertEqual(names, {self.cluster.agent.name, other.name})
        self.assertEqual(other.stop(), 0)
        self.run_it("agent", "remove", "-n", other.name)
        self.assertEqual(len(self.json_of("agent", "list")), 1)

    # ---- metrics ----

    def test_metrics(self):
        answer = self.json_of(*volume("metrics", "--metrics", "TotalThroughput", "VolumeAllocatedSize", "--interval", "PT5M",
                                      "--aggregation", "Average", "Maximum"))
        self.assertEqual([m["name"]["value"] for m in answer["value"]], ["TotalThroughput", "VolumeAllocatedSize"])
        self.assertEqual(answer["interval"], "PT5M")
        self.assertRegex(self.run_it(*volume("metrics", "-m", "Bogus"), status=ERROR), r"^ERROR: \(BadRequest\) .*VolumeLogicalSize")

    def test_a_table_of_metrics_has_only_the_points_with_a_value(self):
        text = self.run_it(*volume("metrics", "-m", "VolumeAllocatedSize", "-o", "table"))
        for line in text.splitlines()[2:]:
            self.assertRegex(line, r"^VolumeAllocatedSize +\S+Z +\d+$")

    # ---- help and completion ----

    def test_every_command_has_help(self):
        commands = re.findall(r"^  ((?:[a-z]+ )+?) +\S", self.run_it("--help"), re.M)
        self.assertGreater(len(commands), 25)
        for command in commands:
            with self.subTest(command=command):
                self.assertIn("Arguments", self.run_it(*command.split(), "--help"))

    def test_completion_offers_commands_then_flags(self):
        def complete(line):
            script = (f'. "{ROOT}/cli/completion.bash"; COMP_WORDS=({line} ""); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
                      "_spillway; printf '%s\\n' \"${COMPREPLY[@]}\"")
            env = dict(self.env, PATH=os.path.dirname(WRAPPER) + ":" + self.env["PATH"])
            return subprocess.run(["bash", "-c", script], env=env, text=True, capture_output=True, check=True).stdout.split()

        self.assertEqual(complete("spillway"), ["agent", "group", "netappfiles"])
        self.assertEqual(complete("spillway netappfiles"), ["account", "pool", "volume"])
        self.assertEqual(complete("spillway agent"), ["drain", "list", "remove", "show", "token"])
        self.assertIn("--breakthrough-mode", complete("spillway netappfiles volume create"))
        self.assertEqual(complete("spillway group list -o"), ["json", "table", "tsv"])


if __name__ == "__main__":
    unittest.main()
