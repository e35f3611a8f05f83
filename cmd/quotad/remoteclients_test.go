package main

import (
	"crypto/tls"
	"errors"
	"fmt"
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

	"quotad/quota/seedtest"
)

// remoteSnippets are the page's programs for callers on other hosts, and how each is run, to
// trust the certificate of the test: those of a public authority need none of it.
var remoteSnippets = []struct {
	file    string
	probe   []string
	command func(ca string) []string
	environ string // the variable that names the certificate
}{
	{"remote.php", []string{"php", "-r", "exit((int) !function_exists('curl_init'));"}, func(ca string) []string { return []string{"php", "-d", "curl.cainfo=" + ca} }, ""},
	{"remote.py", []string{"python3", "--version"}, func(string) []string { return []string{"python3"} }, "SSL_CERT_FILE"},
	{"remote.mjs", []string{"node", "--version"}, func(string) []string { return []string{"node"} }, "NODE_EXTRA_CA_CERTS"},
	{"remote.sh", []string{"curl", "--version"}, func(string) []string { return []string{"sh"} }, "CURL_CA_BUNDLE"},
}

// The page's programs against a daemon with a certificate: an answer that is lost is asked for
// again and debited once, a denial ends with 75, and anything else with another code.
func TestRemoteSnippets(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	for _, s := range remoteSnippets {
		t.Run(s.file, func(t *testing.T) {
			if output, err := exec.Command(s.probe[0], s.probe[1:]...).CombinedOutput(); err != nil {
				t.Skipf("the snippet needs what %v looks for: %v %s", s.probe, err, output)
			}
			d := startDistant(t, "")
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
			lossy, asked := d.lossy(1)
			if code, out := run(lossy, d.shop); code != 0 || d.used("shops") != 1 || asked.Load() != 2 {
				t.Errorf("an answer that was lost: exit code %d, %d units debited, asked %d times: want 0, 1 and 2\n%s", code, d.used("shops"), asked.Load(), out)
			}
			never, asked := d.lossy(100)
			if code, out := run(never, d.shop); code == 0 || code == 75 || d.used("shops") != 2 || asked.Load() != 3 {
				t.Errorf("every answer lost: exit code %d, %d units debited, asked %d times: want another code, 2 and 3\n%s", code, d.used("shops"), asked.Load(), out)
			}
			if code, out := run(d.address, d.shop); code != 0 || d.used("shops") != 3 {
				t.Errorf("exit code %d, %d units debited, want 0 and 3\n%s", code, d.used("shops"), out)
			}
			d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list&count=37")
			if code, out := run(d.address, d.shop); code != 75 || d.used("shops") != 40 {
				t.Errorf("denied: exit code %d, %d units debited, want 75 and 40\n%s", code, d.used("shops"), out)
			}
			if code, out := run(d.address, "wrong"); code == 0 || code == 75 || !strings.Contains(out, "401") || strings.Contains(out, d.shop) {
				t.Errorf("a wrong token: exit code %d\n%s", code, out)
			}
			d.daemon.kill()
			if code, _ := run(d.address, d.shop); code == 0 || code == 75 {
				t.Errorf("without a daemon: exit code %d", code)
			}
		})
	}
}

// lossy returns the address of a network that delivers every request, and loses the first answers.
func (d *distant) lossy(lost int64) (address string, asked *atomic.Int64) {
	d.Helper()
	asked = new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: d.address})
	proxy.Transport = d.host().Transport
	proxy.ModifyResponse = func(*http.Response) error {
		if asked.Add(1) <= lost {
			panic(http.ErrAbortHandler) // which hangs up
		}
		return nil
	}
	return d.inFront(proxy), asked
}

// inFront serves what stands in front of the daemon, by the daemon's certificate.
func (d *distant) inFront(handler http.Handler) (address string) {
	d.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(d.dir, "cert.pem"), filepath.Join(d.dir, "key.pem"))
	must(d, err)
	front := httptest.NewUnstartedServer(handler)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	front.StartTLS()
	d.Cleanup(front.Close)
	return front.Listener.Addr().String()
}

// Without a certificate, the daemon speaks plain HTTP to a proxy on loopback, which may have many
// connections. What a header says of the caller's address is not read.
func TestRemoteBehindAProxy(t *testing.T) {
	t.Parallel()
	d := &distant{T: t, dir: shortDir(t), shop: newToken(t), page: newToken(t)}
	write(t, d.dir, "shop.token", d.shop)
	write(t, d.dir, "page.token", d.page)
	text := strings.Replace(fmt.Sprintf(remoteConfig, ""), "cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\n", "", 1)
	write(t, d.dir, "config.toml", text)
	d.start()
	call := func(from, token, forwarded string) *http.Response {
		t.Helper()
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		host := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
		defer host.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+d.address+"/version", nil)
		must(t, err)
		r.Host, r.Header = "quotad.example.com", http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {forwarded}}
		answer, err := host.Do(r)
		must(t, err)
		answer.Body.Close()
		return answer
	}
	call("127.0.0.1", d.shop, "192.0.2.7")
	for range 3 {
		conn, err := net.Dial("tcp", d.address)
		must(t, err)
		defer conn.Close()
	}
	if got := call("127.0.0.1", "wrong", "192.0.2.7"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d, want 401", got.StatusCode)
	}
	if got := call("127.0.0.1", d.shop, "192.0.2.7"); got.StatusCode != http.StatusOK {
		t.Errorf("a good token from there: %d, want 200", got.StatusCode)
	}
	d.daemon.logs(t, "^request forbidden$", "from=127.0.0.1", "by=@")
	if strings.Contains(d.daemon.all(), d.shop) {
		t.Error("the log has a token")
	}
}
