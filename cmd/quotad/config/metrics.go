package config

import "net/netip"

// metrics returns the address on which metrics are served beside the socket,
// "" for none.
func (r *reader) metrics(t *table) string {
	listen := t.text("listen", "")
	if t.has("listen") {
		checkLoopback(t, listen)
	}
	t.end()
	return listen
}

// checkLoopback refuses names too: what "localhost" stands for is up to a file
// that anything may have changed.
func checkLoopback(t *table, address string) {
	const cure = `write "127.0.0.1:9464" or "[::1]:9464"`
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		t.fail("listen", "%q is not the numbers of an address and a port: "+cure, address)
	case !at.Addr().IsLoopback():
		t.fail("listen", "%q could be reached from other hosts, and nobody would be asked who they are: "+cure, address)
	}
}
