"""The pure parts of the runner of strongSwan's scenarios: what its files say, and what they demand."""

import subprocess

import pytest

from strongswan import dat, network, report
from strongswan.excuses import Excuse, ExcuseError, Excuses
from strongswan.job import default_drops
from strongswan.scenario import Suite, placeholders, shell_variables, with_stand_ins

TESTING_CONF = '''
: ${HOSTNAMEIPV4="\\
alice,10.1.0.10,192.168.0.50 \\
moon,192.168.0.1,10.1.0.1 \\
bob,10.2.0.10"}

: ${HOSTNAMEIPV6="\\
alice,fec1::10,fec0::5 \\
moon,fec0::1,fec1::1 \\
bob,fec2::10"}
'''


def test_actions_of_a_pretest():
    text = "# a comment\nmoon::iptables-restore < /etc/iptables.rules\n\nsun::sleep   2  \nnonsense\n"
    assert dat.actions(text) == [
        dat.Action("moon", "iptables-restore < /etc/iptables.rules"),
        dat.Action("sun", "sleep 2"),
    ]


def test_checks_of_an_evaltest():
    text = "moon:: ping -c 1 10.2.0.10::64 bytes: icmp_.eq=1::YES\nsun::tcpdump::ESP::NO\nsun::true\n"
    first, second, third = dat.checks(text)
    assert (first.host, first.command) == ("moon", "ping -c 1 10.2.0.10")
    assert (first.pattern, first.hit) == ("64 bytes: icmp_.eq=1", "YES")
    assert second.is_capture and not first.is_capture
    assert (third.pattern, third.hit) == ("", "")


@pytest.mark.parametrize(
    ("pattern", "hit", "output", "holds"),
    [
        ("ESP", "YES", "IP moon > sun: ESP(spi=0x1)\n", True),
        ("ESP", "YES", "IP moon > sun: UDP\n", False),
        ("ESP", "NO", "IP moon > sun: UDP\n", True),
        ("ESP", "NO", "IP moon > sun: ESP\n", False),
        # The pattern is a basic regular expression, as grep has it.
        (r"local-ts=\[10.1.0.0/16]", "YES", "local-ts=[10.1.0.0/16]\n", True),
        (r"local-ts=\[10.1.0.0/16]", "YES", "local-ts=10.1.0.0/16\n", False),
        # `::` in an address is written `:\:`, so that it does not end the field.
        (r"local-host=fec0:\:1 ", "YES", "local-host=fec0::1 remote\n", True),
        ("reqid", "2", "reqid 1\nreqid 2\n", True),
        ("reqid", "2", "reqid 1\n", False),
        ("reqid", "3", "reqid 1\nreqid 2\n", False),
        # The suite counts the lines of `echo ""` when nothing was found.
        ("reqid", "1", "nothing\n", True),
        # What is neither YES nor NO nor a number demands nothing.
        ("reqid", "", "nothing\n", True),
    ],
)
def test_what_a_check_demands(pattern, hit, output, holds):
    assert dat.Check("moon", "true", pattern, hit).holds(output)[0] is holds


def test_a_pattern_stands_in_double_quotes_first():
    assert dat.unquoted(r"a\"b \[x] \\ \$") == r'a"b \[x] \ $'
    assert dat.matching(r"name=\"x\"", 'name="x"\nname=x\n') == ['name="x"']


def test_a_bad_pattern_is_an_error():
    with pytest.raises(dat.DatError, match="grep"):
        dat.matching(r"a\(b", "ab\n")


def _run(script):
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout


def test_commands_are_read_by_two_shells():
    # Quotes around a whole pretest line cancel those that the suite puts there.
    assert _run(dat.Action("alice", r'"echo fec1:\:/16"').script()) == "fec1::/16\n"
    assert _run(dat.Action("alice", "cd /; echo a > /dev/null; pwd").script()) == "/\n"
    # In a check the tester's shell takes the quotes away before the host's sees the command.
    assert _run(dat.Check("alice", "echo 'a   b'", "", "").script()) == "a b\n"


def test_programs_that_lines_start():
    commands = [
        "cd /etc/swanctl; rm rsa/* x509/*",
        "iptables-restore < /etc/iptables.rules",
        "cat /etc/x | sqlite3 /etc/db.d/ipsec.db",
        "swanctl --terminate --ike conn1 && sleep 1",
        '"ip route add fec0:\\:/16 via fec1:\\:1"',
        "FOO=1 wget -q http://x 2> /dev/null",
        "ssh 192.168.0.2 'echo venus-echo && exit'",
    ]
    assert dat.programs(commands) == {
        "rm", "iptables-restore", "cat", "sqlite3", "swanctl", "ip", "wget", "ssh",
    }  # fmt: skip


def test_variables_of_test_conf():
    text = '#!/bin/bash\nVIRTHOSTS="alice moon"  # all\nIPSECHOSTS="moon"\nDBHOSTS="$IPSECHOSTS x"\n'
    found = shell_variables(text + "RADIUSHOSTS=\nSWANCTL=1\n")
    assert found["VIRTHOSTS"] == "alice moon"
    assert found["DBHOSTS"] == "moon x"
    assert found["RADIUSHOSTS"] == ""
    assert found["SWANCTL"] == "1"


def test_placeholders_longer_ones_first():
    words = placeholders(TESTING_CONF)
    assert words.index(("PH_IP_MOON1", "10.1.0.1")) < words.index(("PH_IP_MOON", "192.168.0.1"))
    assert ("PH_IP6_ALICE1", "fec0::5") in words
    assert ("PH_IP_BOB", "10.2.0.10") in words


@pytest.fixture
def suite(tmp_path):
    """A suite of one scenario."""
    testing = tmp_path / "testing"
    folder = testing / "tests/ikev2/one"
    folder.mkdir(parents=True)
    for host in ("default", "moon", "alice", "bob"):
        (testing / "hosts" / host / "etc").mkdir(parents=True)
    (testing / "testing.conf").write_text(TESTING_CONF)
    (testing / "hosts/default/etc/hosts").write_text("default\n")
    (folder / "test.conf").write_text(
        'VIRTHOSTS="alice moon"\nIPSECHOSTS="moon"\nTCPDUMPHOSTS="moon alice:eth1"\n'
    )
    (folder / "pretest.dat").write_text("moon::systemctl start strongswan\n")
    (folder / "evaltest.dat").write_text("alice::ping -c 1 PH_IP_BOB::from PH_IP_MOON1:::YES\n")
    (folder / "posttest.dat").write_text("moon::systemctl stop strongswan\noon::true\n")
    etc = folder / "hosts/moon/etc"
    etc.mkdir(parents=True)
    (etc / "strongswan.conf").write_text(
        "swanctl {\n load = pem\n}\ncharon-systemd {\n  plugins {\n    sql {\n      load = no\n    }\n"
        "  }\n  load = random! sha2 PH_IP_MOON1 # x\n}\n"
    )
    return Suite(tmp_path)


def test_a_scenario_as_its_files_say(suite):
    assert suite.names() == ["ikev2/one"]
    scenario = suite.scenario("ikev2/one")
    assert scenario.hosts() == ["alice", "moon", "bob"]
    assert scenario.captures == [("moon", "eth0"), ("alice", "eth1")]
    assert scenario.checks[0].command == "ping -c 1 10.2.0.10"
    assert scenario.plugins() == {"random", "sha2", "PH_IP_MOON1"}


def test_a_hosts_files_are_filled_in(suite, tmp_path):
    suite.scenario("ikev2/one").install("moon", tmp_path / "etc")
    assert (tmp_path / "etc/hosts").read_text() == "default\n"
    assert "10.1.0.1" in (tmp_path / "etc/strongswan.conf").read_text()


def test_interfaces_of_a_host():
    found = network.interfaces(
        "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n"
        "\taddress 10.1.0.10\n\tnetmask 255.255.0.0\n\tgateway 10.1.0.1\n"
        "iface eth0 inet6 static\n\taddress fec1::10\n\tnetmask 16\n\n"
        "iface eth1 inet static\n\taddress 192.168.0.50\n\tnetmask 255.255.255.0\n"
    )
    assert sorted(found) == ["eth0", "eth1"]
    assert found["eth0"].addresses == ["10.1.0.10/16", "fec1::10/16"]
    assert found["eth0"].auto and not found["eth1"].auto
    assert found["eth0"].gateway == "10.1.0.1"
    assert found["eth1"].addresses == ["192.168.0.50/24"]


class Common:
    """What guests have, for the tests."""

    def plugins(self):
        return {"random", "sha2", "PH_IP_MOON1"}

    def has(self, program):
        return program in ("systemctl", "ping", "true")


def test_excuses_that_are_listed(suite):
    text = '[[cannot]]\nreason = "no"\nscenarios = ["ikev2/o*"]\n'
    names = suite.names()
    scenario = suite.scenario("ikev2/one")
    assert Excuses(text, names).of(scenario, Common()) == Excuse("no", False)
    text = '[[lacks]]\nfeature = "AH"\nscenarios = ["ikev2/one"]\n'
    assert Excuses(text, names).of(scenario, Common()) == Excuse("culvert lacks: AH", True)
    assert Excuses("", names).of(scenario, Common()) is None


def test_an_excuse_for_nothing_is_an_error(suite):
    with pytest.raises(ExcuseError, match="ikev2/two"):
        Excuses('[[lacks]]\nfeature = "AH"\nscenarios = ["ikev2/two"]\n', suite.names())
    with pytest.raises(ExcuseError, match="sample"):
        Excuses('sample = ["ikev2/two"]\n', suite.names())


def test_what_is_missing_is_found_out(suite):
    scenario, excuses = suite.scenario("ikev2/one"), Excuses("", suite.names())
    common = Common()
    common.plugins = lambda: {"random"}
    assert "plugin missing: PH_IP_MOON1 sha2" in excuses.of(scenario, common).reason
    common = Common()
    common.has = lambda program: program != "ping"
    assert excuses.of(scenario, common) == Excuse("program missing: ping", False)


def test_a_plugin_stands_in_for_another():
    text = "charon {\n  load = random des sha1\n}\nswanctl {\n  load = pem openssl des\n  des = 1\n}\n"
    assert with_stand_ins(text, {"des": "openssl"}) == (
        "charon {\n  load = random openssl sha1\n}\nswanctl {\n  load = pem openssl\n  des = 1\n}\n"
    )


def _result(passed, failures=()):
    return {"name": "ikev2/one", "seconds": 1.0, "passed": passed, "error": "", "drops": {},
            "failures": [{"line": line, "output": "", "errors": ""} for line in failures],
            "refused": [], "filtered": {}}  # fmt: skip


def test_verdicts():
    excuse = Excuse("culvert lacks: AH", True)
    assert report.judge(_result(True), None)["verdict"] == "passed"
    assert report.judge(_result(False), None)["verdict"] == "failed"
    assert report.judge(_result(False), excuse)["verdict"] == "skipped"
    stale = report.judge(_result(True), excuse)
    assert stale["verdict"] == "passed" and "no longer needed" in stale["reason"]


def test_an_ike_daemon_without_an_algorithm_is_no_failure():
    result = _result(False, ["moon::x::y::YES"])
    result["refused"] = ["moon: 10[IKE] KDF_PRF with PRF_HMAC_SHA2_256 not supported"]
    judged = report.judge(result, None)
    assert judged["verdict"] == "skipped" and "KDF_PRF with PRF_HMAC_SHA2_256" in judged["reason"]


def test_failures_are_grouped_by_cause():
    lines = ["moon::tcpdump::ESP::YES", "moon::ping -c 1 x::64 bytes::YES", "moon::x::y::YES"]
    results = [report.judge(_result(False, [line]), None) for line in lines]
    results[2]["refused"] = ["moon: 10[KNL] received netlink error: Not implemented (38)"]
    assert set(report.causes(results)) == {
        "first failed at: seen on the wire",
        "first failed at: a ping, or another program's traffic",
        "culvert refused a request (received netlink error: Not implemented (38))",
    }
    assert report.counts(results) == {"passed": 0, "failed": 3, "skipped": 0}


def test_packets_that_fell_to_a_default_policy():
    saved = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [3:9]\n:OUTPUT DROP [2:168]\nCOMMIT\n"
    assert default_drops(saved + "*filter\n:OUTPUT DROP [1:84]\n") == {"OUTPUT": 3}
