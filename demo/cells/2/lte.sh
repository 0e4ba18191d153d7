# The inner address of the LTE modem, and the way to the core network with it.
ip address add 10.45.0.2/32 dev eth0
ip route add 10.60.0.0/16 via 192.168.7.1 src 10.45.0.2
