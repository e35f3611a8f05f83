package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota/api"
)

// dial connects and, unless the handshake fails, speaks TLS.
func (d *distant) dial(config *tls.Config) (*tls.Conn, error) {
	config.RootCAs = d.pool
	return tls.Dial("tcp", d.address, config)
}

// What costs the listener more than a caller may cost is refused, and others are answered.
func TestRemoteListener(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	for version, name := range map[uint16]string{tls.VersionTLS10: "1.0", tls.VersionTLS11: "1.1"} {
		if conn, err := d.dial(&tls.Config{MinVersion: version, MaxVersion: version}); err == nil {
			conn.Close()
			t.Errorf("TLS %s is spoken", name)
		}
	}
	if conn, err := d.dial(&tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	} else {
		conn.Close()
	}
	plain, err := http.Get("http://" + d.address + "/v1/status")
	if err != nil || plain.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %v %v", plain, err)
	} else {
		plain.Body.Close()
	}
	if got := d.call(d.shop, "GET", "/version", ""); got.status != 200 {
		t.Errorf("over HTTP/2: %d %s", got.status, got.body)
	}

	for what, row := range map[string]struct {
		request string
		status  int
	}{
		"a header too large":        {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", 431},
		"a body too large":          {"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + d.shop + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), 413},
		"a body that is not needed": {"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\nContent-Length: 10000000\r\n\r\nx", 401},
		"a page's":                  {"GET /v1/status HTTP/1.1\r\nHost: x\r\nOrigin: https://x\r\nAuthorization: Bearer " + d.shop + "\r\n\r\n", 403},
		"two tokens":                {"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + d.shop + "\r\nAuthorization: Bearer " + d.shop + "\r\n\r\n", 401},
		"no host":                   {"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer " + d.shop + "\r\n\r\n", 400},
		"a path that is not there":  {"GET /etc/passwd HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + d.shop + "\r\n\r\n", 404},
		"a path upwards":            {"GET /v1/../metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + d.shop + "\r\n\r\n", 404},
	} {
		if got := d.raw(row.request); got != row.status {
			t.Errorf("%s: %d, want %d", what, got, row.status)
		}
	}

	// A request that comes by the byte, one that never does, and a handshake that never ends.
	slow, err := d.dial(&tls.Config{})
	must(t, err)
	fmt.Fprintf(slow, "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\nop", d.shop)
	silent, err := net.Dial("tcp", d.address)
	must(t, err)
	for what, conn := range map[string]net.Conn{"slow": slow, "silent": silent} {
		conn.SetReadDeadline(time.Now().Add(hangTimeout))
		if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a %s connection stays: %v", what, err)
		}
		conn.Close()
	}
	d.want("meanwhile", d.call(d.shop, "GET", "/version", ""), 200, "")

	// More than there are places for, and the socket is answered all the same.
	if got := d.get("/version"); !strings.Contains(got, "version") {
		t.Errorf("over the socket: %s", got)
	}
	eventually(t, func() bool { return d.call(d.shop, "GET", "/version", "").status == 200 })
	if strings.Contains(d.daemon.all(), "handshake") {
		t.Errorf("the log has a line for each stranger: %s", d.daemon.all())
	}
}

// raw sends bytes over HTTP/1.1, and returns the status of the answer.
func (d *distant) raw(request string) int {
	d.Helper()
	conn, err := d.dial(&tls.Config{NextProtos: []string{"http/1.1"}})
	must(d, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(hangTimeout))
	sent := make(chan struct{})
	go func() { defer close(sent); io.WriteString(conn, request) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		d.Fatalf("%.60q: %v", request, err)
	}
	answer.Body.Close()
	conn.Close()
	<-sent
	return answer.StatusCode
}

// A certificate is replaced while the daemon serves; one that cannot be is not.
func TestRemoteCertificate(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	shown := func() time.Time {
		conn, err := d.dial(&tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].NotAfter.UTC()
	}
	until := func(days int) time.Time {
		return time.Now().Add(time.Duration(days) * 24 * time.Hour).UTC().Truncate(time.Second)
	}
	renewed := until(200)
	d.certify(time.Now().Add(-24*time.Hour), renewed)
	eventually(t, func() bool { return shown().Equal(renewed) })
	d.daemon.logs(t, "^certificate replaced$")

	// Broken, of another key, gone.
	stranger, _ := newCertificate(t, time.Now(), until(10))
	good, err := os.ReadFile(filepath.Join(d.dir, "cert.pem"))
	must(t, err)
	for what, text := range map[string][]byte{"broken": []byte("no certificate"), "of another key": stranger, "gone": nil} {
		complaints := strings.Count(d.daemon.all(), "cannot use the new certificate: the one before stays")
		if d.replace("cert.pem", text); text == nil {
			os.Remove(filepath.Join(d.dir, "cert.pem"))
		}
		eventually(t, func() bool {
			if got := shown(); !got.Equal(renewed) {
				t.Fatalf("%s: the certificate until %v is shown, want the one before", what, got)
			}
			return strings.Count(d.daemon.all(), "cannot use the new certificate: the one before stays") > complaints
		})
		d.want(what, d.call(d.shop, "GET", "/version", ""), 200, "")
		d.replace("cert.pem", good)
	}

	// A start with one that has ended is one, too: jobs and local callers need no certificate.
	d.daemon.kill()
	d.certify(time.Now().Add(-100*24*time.Hour), until(-1))
	d.start()
	if out, err := exec.Command("quotad", "--check", "--config", filepath.Join(d.dir, "config.toml")).CombinedOutput(); err != nil || !strings.Contains(string(out), "remote.cert_file: expired on ") {
		t.Errorf("--check: %v %s", err, out)
	}
}

// As the owner of a site: two environments and a job have one budget of 100 units. It is never
// overspent, and the share of the site holds.
func TestRemoteBudget(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	if out, err := d.quotactl("run", "page"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	job := clientIn(d.dir)
	job.Token = awaitFile(t, filepath.Join(d.dir, ".quotad/data/page/token"))
	var site, other, own atomic.Int64
	spend := func(hosts *sync.WaitGroup, granted *atomic.Int64, acquire func() bool) {
		hosts.Go(func() {
			for range 60 {
				if acquire() {
					granted.Add(1)
				}
			}
		})
	}
	remote := func(token, fields string) func() bool {
		host := d.host()
		return func() bool {
			got := d.callOf(host, token, "POST", "/v1/acquire", fields)
			if got.status != 200 && got.status != 429 {
				t.Errorf("got %d %s", got.status, got.body)
			}
			return got.status == 200
		}
	}
	var hosts sync.WaitGroup
	for range 2 { // the two environments
		spend(&hosts, &site, remote(d.shop, "operation=videos.list"))
	}
	hosts.Wait()
	if site.Load() != 40 || d.used("shops") != 40 {
		t.Errorf("the site was granted %d, and its share holds %d: want 40", site.Load(), d.used("shops"))
	}
	for range 2 {
		spend(&hosts, &other, remote(d.page, "credential=youtube&operation=videos.list"))
	}
	spend(&hosts, &own, func() bool {
		got, err := job.Acquire(context.Background(), api.AcquireRequest{Operation: "videos.list"})
		return err == nil && got.Granted
	})
	spend(&hosts, &site, remote(d.shop, "operation=videos.list"))
	hosts.Wait()
	if sum := site.Load() + other.Load() + own.Load(); sum != 100 || d.used("daily") != 100 || site.Load() != 40 {
		t.Errorf("granted %d (%d to the site, %d to another, %d to the job), and the budget holds %d: want 100, of them 40 to the site", sum, site.Load(), other.Load(), own.Load(), d.used("daily"))
	}
	if d.used("page") != own.Load() {
		t.Errorf("the share of the job holds %d, and it was granted %d", d.used("page"), own.Load())
	}
}

// Connections that are kept do not keep the daemon, nor make its stop fail.
func TestRemoteStop(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	host := d.host()
	d.want("over HTTP/2", d.callOf(host, d.shop, "GET", "/version", ""), 200, "")
	if conn, err := d.dial(&tls.Config{NextProtos: []string{"http/1.1"}}); err != nil {
		t.Fatal(err)
	} else {
		defer conn.Close()
	}
	must(t, d.daemon.cmd.Process.Signal(syscall.SIGTERM))
	if code, err := d.daemon.end(); code != 0 || err != nil {
		t.Errorf("quotad ends with %d, %v", code, err)
	}
	if log := d.daemon.all(); strings.Contains(log, "cannot stop") || strings.Contains(log, "panic") {
		t.Error(log)
	}
	if _, err := net.Dial("tcp", d.address); err == nil {
		t.Error("the address is open")
	}
}
