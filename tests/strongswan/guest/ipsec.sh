#!/bin/sh
# The legacy front end, started so that its daemon's XFRM sockets go to the host's culvert.
name=$(hostname)
case ${1:-} in
    start | restart)
        if [ -S "/run/culvert/$name/xfrm.sock" ]; then
            /usr/local/bin/culvert exec --name "$name" -- /usr/local/lib/debian/usr/sbin/ipsec "$@"
            exit
        fi ;;
esac
exec /usr/local/lib/debian/usr/sbin/ipsec "$@"
