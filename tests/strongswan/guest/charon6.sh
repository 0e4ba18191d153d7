#!/bin/sh
# A program of strongSwan 6, by the C library and the others that it needs; what it starts (updown scripts) is the
# machine's again.
name=$(basename "$0")
read -r root </usr/local/lib/suite/charon6
libraries=$root/usr/lib/$(uname -m)-linux-gnu
loader=$(echo "$libraries"/ld-linux-*.so.*)
exec "$loader" --library-path "/usr/lib/ipsec:$libraries" "$root/usr/sbin/$name" "$@"
