"""Authentication with certificates, and its failure."""

import pytest
from lab import LabError
from lab import topology as t
from lab.pki import Authority
from lab.traffic import assert_ping

NAMES = {"gwa": "gwa.culvert.test", "gwb": "gwb.culvert.test"}


def certify(net, authorities):
    for gateway in net.gateways():
        name = NAMES[gateway.host.name]
        authority = authorities[gateway.host.name]
        authority.issue(name)
        gateway.swan.certificate(authority, name)


def test_certificates(network, lab):
    net = network()
    authority = Authority(lab.tmp / "pki")
    certify(net, {"gwa": authority, "gwb": authority})
    net.up()
    assert_ping(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER6)


def test_a_strange_authority_is_refused(network, lab):
    net = network()
    certify(net, {"gwa": Authority(lab.tmp / "one"), "gwb": Authority(lab.tmp / "two")})
    net.start()
    with pytest.raises(LabError, match="AUTH_FAILED|AUTHENTICATION_FAILED"):
        net.gwa.swan.initiate()
    assert net.gwa.swan.children() == []
