#!/bin/sh
# strongSwan's `xfrmi` makes an XFRM interface of the kernel's: `xfrmi -n NAME -d PHYSICAL -i IF_ID`. On
# a host with culvert it is a tunnel interface of culvert's, which the configuration names.
name='' id=''
while getopts n:d:i: option; do
    case $option in
        n) name=$OPTARG ;;
        i) id=$OPTARG ;;
        *) ;;
    esac
done
[ -S "/run/culvert/$(hostname)/xfrm.sock" ] || exec /usr/lib/ipsec/xfrmi.strongswan "$@"
printf '\n[[tunnel]]\ninterface = "%s"\nif_id = %s\n' "$name" "$id" >>/etc/culvert/culvert.toml
pkill -HUP -x culvert
for _ in $(seq 1 500); do
    ip link show dev "$name" >/dev/null 2>&1 && exit 0
    sleep 0.02
done
echo "xfrmi: culvert has not made $name" >&2
exit 1
