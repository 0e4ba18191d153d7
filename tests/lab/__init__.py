"""Networks of hosts on one machine, for culvert's scenarios and its demo.

A `Lab` makes hosts out of network namespaces, joins them with veth pairs, starts processes in
them, and removes all of it, whatever happens. On top of it stand `topology` (the networks that
the scenarios share), `planes` (who carries the packets: the kernel, strongSwan's libipsec, or
culvert), `swan` (one strongSwan per gateway) and the tools that make and judge traffic.

Nothing outside the namespaces is touched: no interface, route, rule, sysctl or XFRM state of the
machine. Only root can use it.
"""

from .base import CommandFailed, Lab, LabError
from .host import Host

__all__ = ["CommandFailed", "Host", "Lab", "LabError"]
