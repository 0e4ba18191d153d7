#!/bin/sh
# Only put in place where a run asks for open packet filters: nothing is dropped by default policy.
sed 's/^\(-P [A-Z]*\) DROP/\1 ACCEPT/' | exec "/usr/sbin/$(basename "$0")" "$@"
