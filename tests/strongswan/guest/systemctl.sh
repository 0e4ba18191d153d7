#!/bin/sh
# As much of systemctl as the scenarios use: the units `strongswan` (Debian's unit file is the
# model) and `apache2`, which is the suite's web server here.
name=$(hostname)
pid_file=/run/strongswan.pid
verb='' unit='' number=TERM
while [ $# -gt 0 ]; do
    case $1 in
        -s) number=$2; shift ;;
        -*) ;;
        *) if [ -z "$verb" ]; then verb=$1; else unit=$1; fi ;;
    esac
    shift
done

running() { [ -s "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }

load() {
    swanctl --load-all --noprompt 2>&1 | logger -p daemon.info -t swanctl
}

start() {
    running && return 0
    rm -f /run/charon.vici
    set -- "$(command -v charon-systemd)"
    [ ! -S "/run/culvert/$name/xfrm.sock" ] ||
        set -- /usr/local/bin/culvert exec --name "$name" -- "$@"
    setsid "$@" </dev/null >>/var/log/charon.out 2>&1 &
    echo $! >"$pid_file"
    # Ready is what listens; the unit is of the type that says so itself.
    for _ in $(seq 1 1000); do
        [ -S /run/charon.vici ] && break
        running || { echo "charon-systemd has ended" >&2; return 1; }
        sleep 0.02
    done
    load
}

stop() {
    running || { rm -f "$pid_file"; return 0; }
    kill -TERM "$(cat "$pid_file")"
    for _ in $(seq 1 1000); do
        running || break
        sleep 0.02
    done
    running && kill -KILL "$(cat "$pid_file")"
    rm -f "$pid_file"
}

case $verb:${unit%.service} in
    start:strongswan) start ;;
    stop:strongswan) stop ;;
    restart:strongswan) stop; start ;;
    reload:strongswan) swanctl --reload; load ;;
    kill:strongswan) running && kill -s "${number#SIG}" "$(cat "$pid_file")" ;;
    start:apache2 | stop:apache2) /usr/local/libexec/web "$verb" ;;
    daemon-reload:) ;;
    *) echo "systemctl: no unit $unit, or it cannot $verb" >&2; exit 5 ;;
esac
