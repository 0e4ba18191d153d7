#!/bin/sh
# `ip xfrm` asks the host's culvert, where there is one, and `ip tunnel add NAME mode vti` makes a tunnel
# interface of culvert's; everything else is iproute2's, as all is in another network namespace (ip netns exec).
name=$(hostname)
[ -S "/run/culvert/$name/xfrm.sock" ] || exec /bin/ip "$@"
[ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/1/ns/net)" ] || exec /bin/ip "$@"
case " $* " in
    # The command comes here by itself, in its namespace.
    " netns exec "*) ;;
    *" xfrm "*)
        exec /usr/local/bin/culvert exec --name "$name" -- /bin/ip "$@" ;;
    " tunnel add "*" mode vti "*)
        interface=$3 ikey='' okey='' local='' remote=''
        shift 3
        while [ $# -ge 2 ]; do
            case $1 in
                key) ikey=$2 okey=$2 ;;
                ikey) ikey=$2 ;;
                okey) okey=$2 ;;
                # 0.0.0.0 is any.
                local) [ "$2" = 0.0.0.0 ] || local="local = \"$2\"" ;;
                remote) [ "$2" = 0.0.0.0 ] || remote="remote = \"$2\"" ;;
                *) ;;
            esac
            shift 2
        done
        exec add-tunnel "$interface" "ikey = $ikey" "okey = $okey" "$local" "$remote" ;;
    " tunnel del "*)
        # What culvert makes is a TUN device to the kernel.
        if grep -qxF "interface = \"$3\"" /etc/culvert/culvert.toml; then
            exec /bin/ip link del "$3"
        fi ;;
esac
exec /bin/ip "$@"
