# What comes for an inner address before the tunnel's script has said where that is stays here, and does not follow the
# default route out of the backhaul, in clear.
ip route add blackhole 10.45.0.0/24
