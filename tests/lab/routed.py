"""Route-based set-ups of Linux's own: XFRM interfaces, and the routes that lead to them."""

from . import topology as t

#: What the interfaces are called, and which SAs are theirs.
NAME, IF_ID = "ipsec0", 42

#: Addresses of the interfaces, by gateway.
ENDS4 = {"gwa": "10.9.0.1", "gwb": "10.9.0.2"}
ENDS6 = {"gwa": "2001:db8:9::1", "gwb": "2001:db8:9::2"}

#: The sites' networks, by gateway.
SITES = {"gwa": ("10.1.0.0/24", "2001:db8:1::/64"), "gwb": ("10.2.0.0/24", "2001:db8:2::/64")}

#: Selectors for everything: routes alone decide.
EVERYTHING = "0.0.0.0/0,::/0"


def child(if_id=IF_ID):
    """What a child of swanctl.conf says for an interface."""
    return f"if_id_in = {if_id}\n if_id_out = {if_id}"


def add_interface(host, name=NAME, if_id=IF_ID, dev="wan", *, up=True):
    """Makes an XFRM interface on a gateway."""
    host.ip("link", "add", name, "type", "xfrm", "dev", dev, "if_id", if_id)
    if up:
        host.ip("link", "set", name, "up")


def far_of(gateway):
    """The name of the other gateway."""
    return "gwb" if gateway.host.name == "gwa" else "gwa"


def lead(gateway, name=NAME, prefixes=None):
    """Routes the other site by an interface, in place of the route in clear."""
    for prefix in prefixes or SITES[far_of(gateway)]:
        gateway.host.ip("route", "replace", prefix, "dev", name)


def no_clear_route(net):
    """Removes the routes in clear to the other sites: what no interface takes goes nowhere."""
    for gateway in net.gateways():
        for prefix in SITES[far_of(gateway)]:
            gateway.host.ip("route", "del", prefix, check=False)


def routed(bed, *, ts=EVERYTHING, child_extra=None, up=True, **values):
    """Both gateways with an XFRM interface of the kernel's, to which their routes lead, and an SA that charon made for
    it."""
    net = bed.make(ts_a=ts, ts_b=ts, extra_child=child() if child_extra is None else child_extra, **values)
    for gateway in net.gateways():
        add_interface(gateway.host)
        name = gateway.host.name
        gateway.host.address(NAME, f"{ENDS4[name]}/24", f"{ENDS6[name]}/64")
        lead(gateway)
    if up:
        net.up()
        from .traffic import assert_ping

        assert_ping(net.client, t.SERVER4, count=2)
    return net
