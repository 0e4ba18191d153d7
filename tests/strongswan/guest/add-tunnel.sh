#!/bin/sh
# Adds a tunnel interface of culvert's to the host's configuration, and waits until it is there:
# `add-tunnel NAME LINE...`, each a line of its [[tunnel]].
interface=$1
shift
{
    printf '\n[[tunnel]]\ninterface = "%s"\n' "$interface"
    printf '%s\n' "$@"
} >>/etc/culvert/culvert.toml
pkill -HUP -x culvert
for _ in $(seq 1 500); do
    /bin/ip link show dev "$interface" >/dev/null 2>&1 && exit 0
    sleep 0.02
done
echo "add-tunnel: culvert has not made $interface" >&2
exit 1
