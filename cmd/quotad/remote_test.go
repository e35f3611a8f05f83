package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/seedtest"
)

const remoteConfig = `
[credentials.youtube]
limits.daily.units = 100
limits.shops = { units = 40, jobs = ["@shop"] }
operations."videos.list" = 1
[remote]
listen = "127.0.0.1:0"
cert_file = "cert.pem"
key_file = "key.pem"
[remote.callers.shop]
token_file = "shop.token"
credentials = ["youtube"]
`

const (
	shopToken = "0123456789abcdef0123456789abcdef"
	nextToken = "fedcba9876543210fedcba9876543210"
)

// A distant is a daemon with a caller on another host, which trusts its certificates.
type distant struct {
	*testing.T
	dir, address string
	daemon       *child
	local        *api.Client
	pool         *x509.CertPool
}

func startDistant(t *testing.T) *distant {
	t.Helper()
	d := &distant{T: t, dir: shortDir(t), pool: x509.NewCertPool()}
	d.certify(time.Now().Add(100 * 24 * time.Hour))
	write(t, d.dir, "shop.token", shopToken+"\n")
	write(t, d.dir, "config.toml", remoteConfig)
	d.start()
	return d
}

func (d *distant) start() {
	d.Helper()
	d.daemon, d.local = startIn(d.T, d.dir), clientIn(d.dir)
	d.address = d.daemon.logged(d.T, "serving remote callers", "address")
}

// certify puts a certificate in the place of the one that is there. Callers trust it.
func (d *distant) certify(until time.Time) {
	d.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(d, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "quotad"}, NotBefore: until.Add(-365 * 24 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	must(d, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	must(d, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	d.pool.AppendCertsFromPEM(certificate)
	write(d.T, d.dir, "ca.pem", string(certificate))
	d.replace("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	d.replace("cert.pem", certificate)
}

// replace puts a file in the place of another at once.
func (d *distant) replace(name string, text []byte) {
	d.Helper()
	write(d.T, d.dir, name+".new", string(text))
	must(d, os.Rename(filepath.Join(d.dir, name+".new"), filepath.Join(d.dir, name)))
}

// status asks for the version by a token, and returns the status of the answer.
func (d *distant) status(token string) int {
	d.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(d.Context(), "GET", "https://"+d.address+"/version", nil)
	must(d, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := transport.RoundTrip(r)
	must(d, err)
	answer.Body.Close()
	return answer.StatusCode
}

// used is what the share of the caller holds.
func (d *distant) used() int64 {
	d.Helper()
	s, err := d.local.Status(d.Context())
	must(d, err)
	for _, l := range s.Credentials[0].Limits {
		if l.Name == "shops" {
			return l.Used
		}
	}
	d.Fatal("there is no share")
	return 0
}

// A token is replaced by two at once, then by the new one alone. A reload that cannot be leaves the callers as they were.
// No token is in the log.
func TestRemoteTokens(t *testing.T) {
	t.Parallel()
	d := startDistant(t)
	for _, step := range []struct {
		file     string
		old, new int
		reloads  bool
	}{
		{shopToken, 200, 401, true}, {shopToken + "\n" + nextToken, 200, 200, true}, {nextToken, 401, 200, true}, {"", 401, 200, false},
	} {
		write(t, d.dir, "shop.token", step.file)
		if output, err := quotactlIn(d.dir, "reload").CombinedOutput(); (err == nil) != step.reloads {
			t.Errorf("%q: a reload: %v: %s", step.file, err, output)
		}
		if old, new := d.status(shopToken), d.status(nextToken); old != step.old || new != step.new {
			t.Errorf("%q: the old one gets %d, the new one %d, want %d and %d", step.file, old, new, step.old, step.new)
		}
	}
	if log := d.daemon.whole(); strings.Contains(log, shopToken) || strings.Contains(log, nextToken) {
		t.Error("the log has a token")
	}
}

// A certificate is replaced while the daemon serves; one that cannot be is not. TLS older than 1.2 is not spoken, and a
// stranger costs no line of the log.
func TestRemoteCertificate(t *testing.T) {
	t.Parallel()
	d := startDistant(t)
	shown := func() time.Time {
		conn, err := tls.Dial("tcp", d.address, &tls.Config{RootCAs: d.pool})
		must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].NotAfter.UTC()
	}
	if conn, err := tls.Dial("tcp", d.address, &tls.Config{RootCAs: d.pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	renewed := time.Now().Add(200 * 24 * time.Hour).UTC().Truncate(time.Second)
	d.certify(renewed)
	eventually(t, func() bool { return shown().Equal(renewed) })
	d.daemon.logs(t, "^certificate replaced$")
	d.replace("cert.pem", []byte("no certificate"))
	eventually(t, func() bool { // the files are read at most once a second
		if got := shown(); !got.Equal(renewed) {
			t.Fatalf("the certificate until %v is shown, want the one before", got)
		}
		return strings.Contains(d.daemon.whole(), "cannot use the new certificate: the one before stays")
	})
	if strings.Contains(d.daemon.whole(), "handshake") {
		t.Errorf("the log has a line for each stranger: %s", d.daemon.whole())
	}
	// A start with one that has ended is one, too: jobs and local callers need no certificate.
	d.daemon.kill()
	d.certify(time.Now().Add(-24 * time.Hour))
	d.start()
	if output, code := quotadIn(d.dir, "--check"); code != exitOK || !strings.Contains(output, "remote.cert_file: expired on ") {
		t.Errorf("--check: exit code %d: %s", code, output)
	}
}

// remoteSnippets are the page's programs for callers on other hosts, and how each is run, to
// trust the certificate of the test: those of a public authority need none of it.
var remoteSnippets = []struct {
	file, program string
	command       func(ca string) []string
	environ       string // the variable that names the certificate
}{
	{"remote.php", "php", func(ca string) []string { return []string{"php", "-d", "curl.cainfo=" + ca} }, ""},
	{"remote.py", "python3", func(string) []string { return []string{"python3"} }, "SSL_CERT_FILE"},
	{"remote.mjs", "node", func(string) []string { return []string{"node"} }, "NODE_EXTRA_CA_CERTS"},
	{"remote.sh", "curl", func(string) []string { return []string{"sh"} }, "CURL_CA_BUNDLE"},
}

// The page's programs against a daemon with a certificate: an answer that is lost is asked for
// again and debited once, a denial ends with 75, and anything else with another code.
func TestRemoteSnippets(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	d, tried := startDistant(t), map[string]func(address, token string) (int, string){}
	for _, s := range remoteSnippets {
		t.Run(s.file, func(t *testing.T) {
			if err := cannotRun(s.program); err != nil {
				t.Skip(err)
			}
			write(t, d.dir, s.file, readPage(t, "../../quota/api/examples/"+s.file))
			run := func(address, token string) (code int, output string) {
				ca := filepath.Join(d.dir, "ca.pem")
				command := append(s.command(ca), s.file)
				cmd := exec.Command(command[0], command[1:]...)
				cmd.Dir = d.dir
				cmd.Env = append(os.Environ(), "QUOTAD_URL=https://"+address, "QUOTAD_TOKEN="+token, "no_proxy=*", s.environ+"="+ca)
				out, err := cmd.CombinedOutput()
				if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				return cmd.ProcessState.ExitCode(), string(out)
			}
			before := d.used()
			if code, out := run(d.lossy(1), shopToken); code != 0 || d.used() != before+1 {
				t.Errorf("an answer is lost: exit code %d, %d units debited\n%s", code, d.used()-before, out)
			}
			tried[s.file] = run
		})
	}
	_, err := d.local.Book(t.Context(), "youtube", quota.Booking{Limit: "daily", Units: 100})
	must(t, err)
	for name, run := range tried {
		if code, out := run(d.address, shopToken); code != 75 {
			t.Errorf("%s, denied: exit code %d, want 75\n%s", name, code, out)
		}
	}
	d.daemon.kill()
	for name, run := range tried {
		if code, _ := run(d.address, shopToken); code == 0 || code == 75 {
			t.Errorf("%s, without a daemon: exit code %d", name, code)
		}
	}
}

// lossy returns the address of a network that delivers every request, and loses the first answers. It shows the daemon's
// certificate.
func (d *distant) lossy(lost int64) (address string) {
	d.Helper()
	var asked atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: d.address})
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.pool}}
	proxy.ModifyResponse = func(*http.Response) error {
		if asked.Add(1) <= lost {
			panic(http.ErrAbortHandler) // which hangs up
		}
		return nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(d.dir, "cert.pem"), filepath.Join(d.dir, "key.pem"))
	must(d, err)
	front := httptest.NewUnstartedServer(proxy)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	front.StartTLS()
	d.Cleanup(front.Close)
	return front.Listener.Addr().String()
}
