# The LTE modem's packets leave with the backhaul's address. Not by the ports of IKE, which are the NR modem's own.
nft -f - <<'RULES'
table ip cell {
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname "wan" ip saddr 192.168.7.0/24 meta l4proto { tcp, udp } masquerade to :20000-29999
    oifname "wan" ip saddr 192.168.7.0/24 masquerade
  }
}
RULES
