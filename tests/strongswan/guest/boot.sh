#!/bin/sh
# The first process of a guest: gives it file systems of its own, then waits and reaps.
#
#   boot.sh NAME FOLDER LOCAL IPSEC WWW
#
# FOLDER holds its etc, log and syslog socket, and which processors it has, if not all; LOCAL becomes /usr/local, IPSEC /usr/lib/ipsec. All
# else of the machine can be read and not written.
set -eu
name=$1 folder=$2 local=$3 ipsec=$4 www=$5

hostname "$name"
mount --make-rprivate /
mount -t bpf bpf /sys/fs/bpf 2>/dev/null || true

mount -t tmpfs -o mode=0755,size=1m tmpfs "$folder/dev"
mkdir "$folder/dev/net" "$folder/dev/shm"
for node in null zero full random urandom tty net/tun; do
    [ -e "/dev/$node" ] || continue
    touch "$folder/dev/$node"
    mount --bind "/dev/$node" "$folder/dev/$node"
done
ln -s /proc/self/fd "$folder/dev/fd"
ln -s /proc/self/fd/0 "$folder/dev/stdin"
ln -s /proc/self/fd/1 "$folder/dev/stdout"
ln -s /proc/self/fd/2 "$folder/dev/stderr"
touch "$folder/dev/log"
mount --bind "$folder/syslog" "$folder/dev/log"
mount --rbind "$folder/dev" /dev

# How many processors programs see.
[ ! -e "$folder/online" ] || mount --bind "$folder/online" /sys/devices/system/cpu/online

mount --bind "$local" /usr/local
mount --bind "$ipsec" /usr/lib/ipsec
mount --bind "$folder/etc" /etc
mount -t tmpfs -o mode=0700,size=1m tmpfs /root

mount -t tmpfs -o mode=0755,size=32m tmpfs "$folder/var"
mkdir "$folder/var/log" "$folder/var/lib" "$folder/var/cache" "$folder/var/tmp"
ln -s /run "$folder/var/run"
ln -s /run/lock "$folder/var/lock"
mount --bind "$folder/log" "$folder/var/log"
# A copy: scenarios change what the web server shows.
[ ! -d "$www" ] || cp -r "$www" "$folder/var/www"
mount --rbind "$folder/var" /var

mount -t tmpfs -o mode=0755,size=16m tmpfs /run
mkdir -p /run/lock /run/sshd
mount -t tmpfs -o mode=1777,size=64m tmpfs /tmp
mount -o remount,bind,ro /usr/local
mount -o remount,bind,ro /usr/lib/ipsec
mount -o remount,bind,ro /
echo booted

# Orphans come here: the shell's wait takes whatever child has ended.
trap 'exit 0' TERM
while :; do
    sleep 3600 &
    wait $! || true
done
