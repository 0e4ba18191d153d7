# What the LTE modem sends has the shared address before it is encrypted. What comes for its user plane is led to it: that
# of the NR modem does not come this way.
nft -f - <<'RULES'
table ip cell {
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname "culvert0" ip saddr 192.168.7.0/24 snat to 198.51.100.2
  }
  chain prerouting {
    type nat hook prerouting priority dstnat
    iifname "culvert0" ip daddr 198.51.100.2 udp dport 2152 dnat to 192.168.7.2
  }
}
RULES
