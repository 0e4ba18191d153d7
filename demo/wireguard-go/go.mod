// wireguard-go as `make compare` measures it: its version, and by go.sum the sources of all that it needs.
// Not a module of culvert's: nothing here is linked into it. `scripts/fetch-wireguard-go` builds it.
module culvert/demo/wireguard-go

go 1.23.1

require golang.zx2c4.com/wireguard v0.0.0-20260522210424-ecfc5a8d5446
