#!/bin/sh
# The suite's sets which processor takes what an interface receives: `set-cpu-affinity INTERFACE LIST`. An interface
# here has one queue, which is the first worker's, and that is on the first processor.
case ${2:-} in
    0 | 0-*) ;;
    *) echo "set-cpu-affinity: $1 is received by processor 0, not by ${2:-none}" >&2; exit 1 ;;
esac
[ "$(echo "/sys/class/net/$1/queues/"rx-*)" = "/sys/class/net/$1/queues/rx-0" ]
