package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// BenchmarkRemote compares an acquire over TLS with one over the socket, by the same client in the
// same turn: on a connection that is kept, and on a new one each time. The ratios are of p50.
func BenchmarkRemote(b *testing.B) {
	const token = "0123456789abcdef0123456789abcdef"
	daily := quota.LimitState{Limit: servertest.YouTube().Limits[0], Used: 9_500, Cost: 1}
	granted := quota.Decision{GrantID: "youtube:ABCDEFGHIJKLMNOP", Units: 1, Limits: []quota.LimitState{daily}}
	socket, err := server.Listen(servertest.ShortDir(b) + "/s")
	if err != nil {
		b.Fatal(err)
	}
	s, _ := servertest.Serve(b, server.Config{Service: servertest.NewService(b, instant{ledgertest.NewModel(time.Now), granted}, servertest.YouTube())}, socket)
	certificate, pool := benchCertificate(b)
	remote := new(server.Remote)
	remote.SetCallers([]server.RemoteCaller{{Name: "shop", Tokens: [][sha256.Size]byte{sha256.Sum256([]byte(token))}, Credentials: []string{"youtube"}}})
	frontend := server.NewFrontend(server.FrontendConfig{Remote: remote, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}})
	frontend.PassTo(s)
	listener := servertest.TCP(b)
	served := make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	b.Cleanup(func() { frontend.Shutdown(servertest.Canceled()); <-served })

	over := func(keep, h2 bool) *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2, DisableKeepAlives: !keep}
	}
	local := func(keep bool) *http.Transport {
		return &http.Transport{DisableKeepAlives: !keep, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", socket.Addr().String())
		}}
	}
	address := "https://" + listener.Addr().String()
	rows := []struct {
		name, url string
		floor     int // the row that this one is measured by
		transport *http.Transport
		took      []time.Duration
	}{
		{"socket, kept", "http://quotad", 0, local(true), nil},
		{"socket, new", "http://quotad", 1, local(false), nil},
		{"TLS HTTP/1.1, kept", address, 0, over(true, false), nil},
		{"TLS HTTP/2, kept", address, 0, over(true, true), nil},
		{"TLS HTTP/1.1, new", address, 1, over(false, false), nil},
	}
	for b.Loop() {
		for i := range rows {
			begun := time.Now()
			askOnce(b, rows[i].transport, rows[i].url, token)
			rows[i].took = append(rows[i].took, time.Since(begun))
		}
	}
	p50 := func(i int) float64 {
		slices.Sort(rows[i].took)
		return float64(rows[i].took[len(rows[i].took)/2].Nanoseconds()) / 1000
	}
	for i, row := range rows {
		b.Logf("%-20s p50 %7.1f µs  %5.2f x %s", row.name, p50(i), p50(i)/p50(row.floor), rows[row.floor].name)
		row.transport.CloseIdleConnections()
	}
}

func askOnce(b *testing.B, transport *http.Transport, url, token string) {
	r, err := http.NewRequest("POST", url+"/v1/acquire", strings.NewReader("credential=youtube&operation=videos.list&request_id=page-1"))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(url, "https") {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status)
	}
}

func benchCertificate(b *testing.B) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
