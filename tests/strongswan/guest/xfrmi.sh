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
exec add-tunnel "$name" "if_id = $id"
