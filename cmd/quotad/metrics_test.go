package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"quotad/quota/api"
)

// overSocket returns a client that speaks HTTP to a socket, as curl does: whoever waits in the socket is answered later.
func overSocket(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

// scrape reads the metrics over the socket.
func scrape(t testing.TB, client *api.Client) string {
	t.Helper()
	answer, err := overSocket(client.Socket).Get("http://quotad/metrics")
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %v: %s", answer.StatusCode, err, body)
	}
	return string(body)
}
